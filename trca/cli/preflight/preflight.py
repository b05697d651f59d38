"""`Preflight`: every problem of a run before the run starts.

::

    with Preflight(read("quickstart"), "quickstart") as preflight:
        preflight.check()
        for note in preflight.notes(): ...

Environments, tokenizer and config are made once. Words, folders and counts are checked first:
these checks import neither Ray nor PyTorch, and take less than two seconds.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from trca.algorithms.settings.parameters import TextParameters
from trca.common.errors import words
from trca.common.extras import missing_extra
from trca.common.files import find
from trca.policies.model_names import (
    SHRUNK,
    TINY,
    local_model,
    missing_folder,
    missing_model,
    missing_on_hub,
)
from trca.runs.trackers import missing_trackers
from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    import gymnasium

    from trca.envs.panel import Panel

    TextEnvironment = gymnasium.Env[str, str]

_FEWEST_NEW_TOKENS: Final = 64
"""Tokens of a response in sentences, at least."""
_MOST_CUT: Final = 2
"""A first prompt longer than this times the limit loses too much when it is shortened."""
_SLOW: Final = 1.5
"""Slowdown of bfloat16 against float32 that gives a note."""
_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")
_AMD: Final = Path("/dev/kfd")


class Preflight:
    """The checks of one run, and the environments that the checks and the plan read.

    If the run does not start ``here`` and now (a dry run, or a run for a cluster), parts that this
    machine lacks are notes (`lacks`), not problems.
    """

    def __init__(
        self,
        settings: TextParameters | Mapping[str, Any],
        source: str = "config",
        here: bool = True,
    ) -> None:
        """Takes resolved settings, or flat settings with their name in errors, the ``source``.

        Raises:
            ConfigError: Names each wrong setting, its value and the allowed values.
        """
        self.here = here
        self._made: dict[str, TextEnvironment] = {}
        if isinstance(settings, Mapping):
            try:
                settings = TextParameters.resolve(settings, source, here, self._open)
            except BaseException:
                self.close()
                raise
        self.settings = settings

    def __enter__(self) -> Self:
        """Returns the preflight."""
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the environments."""
        self.close()

    def close(self) -> None:
        """Closes the environments."""
        for env in self._made.values():
            env.close()
        self._made.clear()

    def env(self, split: str) -> TextEnvironment:
        """The environment of the run on a split, which stays open until `close`.

        Raises `FileNotFoundError` for missing official data, and the errors of the environment.
        """
        return self._open(self.settings.env, {**self.settings.env_config, "split": split})

    def panels(self) -> dict[str, Panel]:
        """The training panel and the evaluation panel, by ``train`` and ``evaluation``.

        Raises `FileNotFoundError` if official data is not on this machine.
        """
        train, evaluation = (
            self.env(split).get_wrapper_attr("panel")
            for split in (self.settings.train_split, str(self.settings.evaluation_split))
        )
        return {"train": train, "evaluation": evaluation.head(self.settings.evaluation_tasks)}

    def step_limit(self) -> int:
        """The environment's step limit; without official data, the limit of its class."""
        from trca.envs.plain import STEPS
        from trca.envs.registration import env_class

        try:
            return int(self.env(self.settings.train_split).get_wrapper_attr("max_steps"))
        except FileNotFoundError:
            if limit := self.settings.env_config.get("max_steps"):
                return int(limit)
        argument = inspect.signature(env_class(self.settings.env)).parameters.get("max_steps")
        default = argument.default if argument else None
        return default if isinstance(default, int) else STEPS

    def _open(self, env: str, arguments: Mapping[str, Any]) -> TextEnvironment:
        from trca.envs.registration import make

        key = json.dumps([env, dict(arguments)], sort_keys=True, default=str)
        if key not in self._made:
            self._made[key] = make(env, **arguments)
        return self._made[key]

    def check(self) -> None:
        """Raises a `ConfigError` with all problems."""
        if problems := self.problems():
            raise ConfigError("\n".join(problems))

    def problems(self) -> list[str]:
        """Every problem, one sentence each.

        Problems that are visible without Ray and PyTorch come first, without the slow checks.
        """
        quick = [
            self.settings.too_small_group(),
            missing_folder(self.settings.model),
            self._credit[1],
            *(self._missing_parts() if self.here else ()),
            self._missing_engine if self.here and self.settings.engine == "vllm" else "",
            self._missing_demonstrator(),
        ]
        if self.here and not any(quick):
            quick.append(missing_on_hub(self.settings.model))
        if quick := list(filter(None, quick)):
            return quick
        from trca.policies.shipped import damage

        slow = [
            self._missing_engine if self.here else "",
            self._missing_model,
            damage(self.model_folder) if self.here else "",
            self._validation[0] or self._prompt_problem(),
        ]
        return list(filter(None, slow))

    def notes(self) -> list[str]:
        """What works and is probably a mistake; for a run without problems."""
        notes = []
        settings = self.settings
        if gold := self._credit[0]:
            notes.append(f"training reads {' and '.join(gold)}: the hidden truth of its tasks")
        if slow := self._slow_dtype():
            notes.append(slow)
        if settings.train_split == settings.evaluation_split:
            notes.append(
                "the evaluation tasks are training tasks: set evaluation_split to another split"
            )
        model = settings.model
        if model == TINY:
            return [*notes, *self._validation[1]]
        folder = model.startswith(SHRUNK) or Path(model).expanduser().is_dir()
        small = {
            "template: compact, which does not explain how to answer": (
                settings.template == "compact"
            ),
            f"max_new_tokens: {settings.max_new_tokens}": (
                settings.max_new_tokens < _FEWEST_NEW_TOKENS
            ),
        }
        if any(small.values()) and not (folder or settings.credit == "imitation"):
            notes.append(
                f"these settings are for the tiny policy, not for {model}:"
                f" {'; '.join(name for name in small if small[name])}. Start from a preset in"
                " paper/"
            )
        return notes

    def lacks(self) -> list[str]:
        """What this machine lacks for the run. Does not ask the Hugging Face hub."""
        model = self.settings.model
        lacks = list(filter(None, [*self._missing_parts(), self._missing_engine]))
        try:
            self.env(self.settings.train_split)
        except FileNotFoundError as error:
            lacks.append(f"data missing: {error}")
        if not self.model_folder:
            if model == TINY:
                lacks.append("the tiny policy is not built yet; the first run builds and keeps it")
            elif lack := missing_model(model, ask_hub=False):
                elsewhere = f"the model {model} is not on this machine; the run downloads it"
                lacks.append(lack if find(model).exists() else elsewhere)
        return lacks

    @cached_property
    def model_folder(self) -> str:
        """See `model_folder`."""
        return model_folder(self.settings)

    def _missing_parts(self) -> list[str]:
        """Trackers and GPUs that this machine lacks."""
        trackers = missing_trackers(self.settings.tracking)
        return [each for each in (*trackers, _missing_gpus(self.settings)) if each]

    def _missing_demonstrator(self) -> str:
        """Why imitation has no demonstrator; empty with a demonstrator and for other methods."""
        from trca.envs.text_env import MissingPartError

        if getattr(self.settings, "demonstrations", "recorded") == "recorded":
            return ""
        try:
            env = self.env(self.settings.train_split)
            env.reset(seed=0, options={"task": env.get_wrapper_attr("task_ids")[0]})
            env.get_wrapper_attr("demonstrator_action")()
        except FileNotFoundError:
            return ""  # `lacks` names the data
        except MissingPartError:
            return (
                f"{self.settings.env} has no demonstrator_action() to imitate: add one, or imitate"
                " a file: demonstrations=recorded and recorded_rollouts=FILE"
            )
        return ""

    @cached_property
    def _credit(self) -> tuple[tuple[str, ...], str]:
        """The gold that the credit rule reads, and the problem of the rule."""
        from trca.algorithms.credit import bind_credit

        try:
            return bind_credit(self.settings.credit, self.settings).gold, ""
        except ValueError as error:
            return (), str(error)

    @cached_property
    def _missing_engine(self) -> str:
        from trca.policies.engines import engine_class

        if self.settings.engine == "vllm":  # without an import of PyTorch
            return missing_extra("vllm", "engine 'vllm'", "vllm")
        return engine_class(self.settings.engine).missing()

    @cached_property
    def _missing_model(self) -> str:
        return missing_model(self.settings.model) if self.here else ""

    @cached_property
    def _validation(self) -> tuple[str, list[str]]:
        """The error of RLlib's config, and its warnings.

        A default model or engine replaces one that this machine lacks, so that all settings are
        checked.
        """
        config = self.settings.algorithm_config()
        if self._missing_model or not (self.here or self.model_folder):
            config.training(model=TINY, **self._prompt_without_model())
        if self._missing_engine:
            config.training(engine="transformers")
        logging.getLogger("ray.rllib").setLevel(logging.ERROR)  # RLlib logs a greeting
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                config.validate()
            except ValueError as error:
                return str(error), []
        return "", [str(each.message) for each in caught if each.category is UserWarning]

    def _prompt_problem(self) -> str:
        """Why there is no first prompt, or why it does not fit, even shortened; else empty.

        Without the tokenizer of the model, each word counts as one token, which is too few.
        """
        from trca.algorithms.settings.prompting import make_prompter
        from trca.policies.models import load_tokenizer
        from trca.policies.prompts.prompter import NO_TOOLS

        settings = self.settings
        tokenizer: Any = _Words()
        if self.model_folder:
            try:
                tokenizer = load_tokenizer(self.model_folder)
            except ValueError as error:
                return f"model {error}"
        else:
            settings = settings.model_copy(update=self._prompt_without_model())
        try:
            env = self.env(self.settings.train_split)
        except FileNotFoundError:
            return ""  # `lacks` names the data
        try:
            task = env.get_wrapper_attr("task_ids")[0]
            observation, info = env.reset(seed=0, options={"task": task})
        except (ValueError, TypeError, OSError, RuntimeError) as error:
            return f"the environment {settings.env} does not start: {words(error)}"
        if self.settings.calls_tools and not info.get("tools"):
            return NO_TOOLS
        limit = settings.max_prompt_tokens
        try:
            whole, _ = (
                make_prompter(settings, tokenizer, most).encode(
                    instruction=info["task"],
                    step=0,
                    max_steps=env.get_wrapper_attr("max_steps"),
                    history=[],
                    observation=observation,
                    admissible=info.get("admissible_actions", ()),
                    idle=env.get_wrapper_attr("idle_actions"),
                    memory=info.get("memory"),
                    tools=info.get("tools", ()),
                )
                for most in (sys.maxsize, limit)
            )
        except ValueError as error:
            return f"max_prompt_tokens is {limit}: {error}"
        length = len(whole)
        if length > _MOST_CUT * limit:
            return f"max_prompt_tokens is {limit}: the first prompt has {length} tokens: raise it"
        return ""

    def _prompt_without_model(self) -> dict[str, Any]:
        """The settings of prompts without the chat template of a model that is elsewhere."""
        if self.settings.model == TINY:
            return {}
        template = "paper" if self.settings.template == "chat" else self.settings.template
        form = "action" if self.settings.calls_tools else self.settings.response_format
        return {"template": template, "chat_template_kwargs": {}, "response_format": form}

    def _slow_dtype(self) -> str:
        """A note on bfloat16 on a processor without its instructions; empty if not needed."""
        elsewhere = not self.here or "RAY_ADDRESS" in os.environ or self.settings.resources()[1] > 0
        if elsewhere or not self.model_folder:
            return ""
        from trca.policies.models import bfloat16_slowdown, resolve_dtype

        if resolve_dtype(self.model_folder, self.settings.dtype) == "float32":
            return ""
        slowdown = bfloat16_slowdown()
        if slowdown < _SLOW:
            return ""
        return (
            f"dtype is bfloat16, and this processor multiplies {slowdown:.0f} times slower in"
            " bfloat16 than in float32: set dtype: float32"
        )


class _Words:
    """Counts each word as one token."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers

        self.added_tokens_decoder: dict[int, Any] = {}
        self.backend_tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        self.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


def model_folder(settings: TextParameters) -> str:
    """Folder of the run's model if the model is on this machine, else empty."""
    return local_model(settings.model, settings.env, settings.env_config, settings.response_format)


def panel(settings: TextParameters, split: str) -> Panel:
    """All tasks of a split of the run's environment; raises a `ValueError` for an unknown split."""
    with Preflight(settings) as preflight:
        tasks: Panel = preflight.env(split).get_wrapper_attr("panel")
        return tasks


def _missing_gpus(settings: TextParameters) -> str:
    asked = settings.resources()[1]
    if asked == 0 or os.environ.get("RAY_ADDRESS"):
        return ""
    present = 0
    if _NVIDIA.exists() or _AMD.exists():  # PyTorch takes seconds to import
        import torch

        present = torch.cuda.device_count()
    return too_few_gpus(asked, present) if asked > present else ""


def too_few_gpus(asked: float, present: float) -> str:
    """The error of a run that asks for more GPUs than this machine has."""
    plural = "" if asked == 1 else "s"
    return (
        f"the run asks for {asked:g} GPU{plural} and this machine has {present:g}: lower"
        " num_gpus_per_learner or num_gpus_per_env_runner, or name a cluster in RAY_ADDRESS"
    )
