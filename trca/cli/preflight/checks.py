"""Start-up checks: what would end a run after minutes is said before anything is made."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trca.runs.trackers import missing_trackers
from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from trca.algorithms.base.text_config import TextAlgorithmConfig
    from trca.algorithms.settings.parameters import TextParameters
    from trca.tune_configs.settings import RunSettings


_FEWEST_NEW_TOKENS: Final = 64
"""What a model that thinks in sentences needs at least for a response."""
_MOST_CUT: Final = 2
"""A first prompt of more than this times the limit says too little once it is shortened."""


def settings_of(config: str, changes: Iterable[str] | None) -> RunSettings:
    """The settings of a config, checked but for what this machine lacks.

    Args:
        config: A config that comes with the package, or a YAML file.
        changes: Texts ``KEY=VALUE``.

    Raises:
        ConfigError: Names everything that is wrong.
    """
    from trca.runs.folder import run_name
    from trca.tune_configs.files import assign, assignments, read
    from trca.tune_configs.settings import RunSettings

    changed = assign(read(config), assignments(changes or []))
    settings = RunSettings.resolve(changed, run_name(config), need_data=False)
    if wrong := setting_problems(settings):
        raise ConfigError("\n".join(wrong))
    return settings


def check(settings: RunSettings) -> None:
    """Checks the settings and this machine before a run.

    Raises:
        ConfigError: Names everything that is wrong.
    """
    wrong = setting_problems(settings) or machine_problems(settings) or prompt_problems(settings)
    if wrong:
        raise ConfigError("\n".join(wrong))


def setting_problems(settings: RunSettings) -> list[str]:
    """What is wrong on every machine."""
    from trca.policies.engines import engine_class
    from trca.policies.models import TINY

    parameters = settings.parameters
    config = settings.algorithm_config()
    if not local_model(settings):
        config.training(model=TINY)  # a model elsewhere is for `machine_problems` to judge
    if engine_class(parameters.engine).missing():
        config.training(engine="transformers")  # so is an engine
    wrong = _invalid(config)
    own_rule = bool(parameters.credit.partition(":")[2])
    if parameters.group_size == 1 and parameters.compares_rollouts and not own_rule:
        wrong.append(
            f"group_size is 1: {settings.run.algorithm} compares the rollouts of a task with each"
            " other and learns nothing from one: give 2 or more"
        )
    return wrong


def machine_problems(settings: RunSettings) -> list[str]:
    """What this machine lacks; on another the run may work."""
    from trca.policies.shipped import damage

    trackers = missing_trackers(settings.run.tracking)
    missing = [*trackers, *_missing_gpus(settings), *_missing_model(settings.parameters.model)]
    if not missing and (problem := damage(local_model(settings))):
        return [problem]
    return missing or _invalid(settings.algorithm_config())


def _invalid(config: TextAlgorithmConfig) -> list[str]:
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)  # RLlib greets at every validation
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `setting_notes` tells them
            config.validate()
    except ValueError as error:
        return [str(error)]
    return []


def setting_notes(settings: RunSettings) -> list[str]:
    """What works, and is hardly meant; for checked settings."""
    from trca.algorithms.credit import bind_credit
    from trca.policies.models import SHRUNK, TINY

    notes = []
    parameters = settings.parameters
    if gold := bind_credit(parameters.credit, parameters.model_dump()).gold:
        notes.append(f"training reads {' and '.join(gold)}: the hidden truth of its tasks")
    if parameters.model != TINY:  # the config warns of nothing else
        small = parameters.model.startswith(SHRUNK) or Path(parameters.model).expanduser().is_dir()
        return notes if small else notes + _for_the_tiny_policy(parameters)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        settings.algorithm_config().validate()
    return notes + [str(each.message) for each in told if each.category is UserWarning]


def _for_the_tiny_policy(parameters: TextParameters) -> list[str]:
    """Settings that fit the tiny policy alone, for a model of another size."""
    found = []
    if parameters.template == "compact":
        found.append("template: compact, which does not say how to answer")
    if parameters.max_new_tokens < _FEWEST_NEW_TOKENS:
        found.append(f"max_new_tokens: {parameters.max_new_tokens}")
    if not found:
        return []
    return [
        f"these settings are for the tiny policy, not for {parameters.model}:"
        f" {'; '.join(found)}. Start from a preset in paper/"
    ]


def machine_notes(settings: RunSettings) -> list[str]:
    """What the run still needs here, for a dry run; the Hugging Face hub is not asked."""
    from trca.policies.engines import engine_class
    from trca.policies.models import TINY

    model = settings.parameters.model
    notes = [*missing_trackers(settings.run.tracking), *_missing_gpus(settings)]
    if lack := engine_class(settings.parameters.engine).missing():
        notes.append(lack)
    data = missing_data(settings)
    if data:
        notes.append(f"data missing: {data}")
    if not local_model(settings):
        if model == TINY:
            notes.append("the tiny policy is not built yet; the first run builds and keeps it")
        elif _missing_model(model, ask_hub=False):
            notes.append(f"the model {model} is not on this machine; the run downloads it")
    return notes


def prompt_problems(settings: RunSettings) -> list[str]:
    """Whether the first prompt fits, or most of it where it is shortened.

    A policy that is not on this disk yet has no tokenizer: then its tokens are taken to be words,
    which are fewer.
    """
    from trca.algorithms.settings.prompting import make_prompter

    run, parameters = settings.run, settings.parameters
    try:
        env = _make(run.env, {**run.env_config, "split": settings.train_split})
    except FileNotFoundError:
        return []  # official data that is missing: `missing_data` says so
    try:
        task = env.get_wrapper_attr("task_ids")[0]
        observation, info = env.reset(seed=0, options={"task": task})
        tokenizer, limit = _tokenizer(settings), parameters.max_prompt_tokens
        lengths = []
        for most in (sys.maxsize, limit):
            prompt = make_prompter(parameters, tokenizer, most).encode(
                instruction=info["task"],
                step=0,
                max_steps=env.get_wrapper_attr("max_steps"),
                history=[],
                observation=observation,
                admissible=info.get("admissible_actions", ()),
                idle=env.get_wrapper_attr("idle_actions"),
                memory=info.get("memory"),
            )
            lengths.append(len(prompt))
    except ValueError as error:
        return [f"max_prompt_tokens is {parameters.max_prompt_tokens}: {error}"]
    finally:
        env.close()
    if lengths[0] > _MOST_CUT * limit:
        return [f"max_prompt_tokens is {limit}: the first prompt has {lengths[0]} tokens: raise it"]
    return []


def missing_data(settings: RunSettings) -> str:
    """What official data the run needs and this machine lacks; blank when all is here."""
    run = settings.run
    try:
        _make(run.env, {**run.env_config, "split": settings.train_split}).close()
    except FileNotFoundError as error:
        return str(error)
    return ""


def _make(env: str, arguments: dict[str, Any]) -> Any:
    from trca.envs.registration import make

    return make(env, **arguments)


def _tokenizer(settings: RunSettings) -> Any:
    from trca.policies.models import load_tokenizer

    folder = local_model(settings)
    return load_tokenizer(folder) if folder else _Words()


class _Words:
    """Stands in for a tokenizer: a token a word."""

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [0] * len(text.split())}


def local_model(settings: RunSettings) -> str:
    """Folder of the run's model where it is on this disk; blank where it is not."""
    from trca.policies.model_names import resolve_model
    from trca.policies.models import SHRUNK, TINY
    from trca.policies.tiny import tiny_folder

    model, run = settings.parameters.model, settings.run
    if model == TINY:
        folder = tiny_folder(run.env, run.env_config, settings.parameters.response_format)
        return str(folder) if folder.is_dir() else ""
    if model.startswith(SHRUNK) or Path(model).expanduser().is_dir():
        return resolve_model(model, env_id=run.env, env_config=run.env_config)
    return ""


def _missing_gpus(settings: RunSettings) -> list[str]:
    asked = settings.run.resources()[1]
    if asked == 0 or os.environ.get("RAY_ADDRESS"):
        return []
    import torch

    there = torch.cuda.device_count()
    if asked <= there:
        return []
    return [too_few_gpus(asked, there)]


def too_few_gpus(asked: float, there: float) -> str:
    """The error of a run that asks for more GPUs than this machine has."""
    plural = "" if asked == 1 else "s"
    return (
        f"the run asks for {asked:g} GPU{plural} and this machine has {there:g}: lower"
        " num_gpus_per_learner or num_gpus_per_env_runner, or name a cluster in RAY_ADDRESS"
    )


def _missing_model(model: str, ask_hub: bool = True) -> list[str]:
    """Whether a model folder or a hub name can be opened; the hub is asked only at need."""
    from transformers import AutoConfig, AutoTokenizer

    from trca.policies.model_names import resolve_model
    from trca.policies.models import SHRUNK, TINY

    if model == TINY:
        return []
    try:
        resolve_model(model, env_id="")
    except ValueError as error:
        return [f"model is {model!r}: {error}"]
    if model.startswith(SHRUNK):
        return []

    for part in (AutoConfig, AutoTokenizer):
        try:
            part.from_pretrained(str(Path(model).expanduser()), local_files_only=True)
        except Exception as local:
            if not ask_hub or Path(model).expanduser().exists():
                return [f"model is {model!r}: {_first_line(local)}"]
            try:
                part.from_pretrained(model)
            except Exception as error:
                return [
                    f"model is {model!r}: no such folder, and the Hugging Face hub gives none:"
                    f" {_first_line(error)}"
                ]
    return []


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
