"""Writes a trained policy as a Hugging Face folder."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray.rllib.core import (
    COMPONENT_LEARNER,
    COMPONENT_LEARNER_GROUP,
    COMPONENT_RL_MODULE,
    DEFAULT_MODULE_ID,
)
from ray.rllib.core.rl_module.rl_module import RLModule

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.learner.checkpoint import read_weights
from trca.algorithms.learner.learner import SHARDS, TextLearner
from trca.algorithms.learner.start_weights import StartWeights, read_start_weights
from trca.algorithms.settings.policy_config import origin_of


def export(source: TextAlgorithm | str | Path, directory: str | Path) -> Path:
    """Writes config, weights (safetensors) and tokenizer into a folder for ``from_pretrained``.

    An adapter is merged into the weights. With several policies, each policy has a subfolder named
    by its id. Frozen copies are left out.

    Args:
        source: An algorithm, or an algorithm's checkpoint.
        directory: The folder; it is made if necessary.

    Returns:
        The folder.

    Raises:
        ValueError: If the path holds no checkpoint of a text algorithm.
        OtherStartError: If the model below an adapter has changed since the run started.
    """
    from trca.policies.lora import has_lora, merge_lora
    from trca.policies.models import load_tokenizer

    folder = Path(directory)
    modules = _modules(source)
    modules = {name: module for name, module in modules.items() if origin_of(name, modules) == name}
    for name, module in modules.items():
        if has_lora(module.model):
            merge_lora(module.model)
        target = folder if len(modules) == 1 else folder / name
        module.model.save_pretrained(target)
        mode = (target / "config.json").stat().st_mode  # safetensors shows a file to its owner only
        for weights in target.glob("*.safetensors"):
            weights.chmod(mode)
        tokenizer = load_tokenizer(module.model_config["model"])
        tokenizer.save_pretrained(target)
        if target != folder:  # shared by all policies, for readers that need no weights
            tokenizer.save_pretrained(folder)
            module.model.config.save_pretrained(folder)
    return folder


def _modules(source: TextAlgorithm | str | Path) -> dict[str, Any]:
    """The policies by their ids."""
    if isinstance(source, TextAlgorithm):
        (first, *_) = source.learner_group.ask("start_weights")
        _refuse_other_bases(first, source)
        weights = source.learner_group.get_weights()
        specs: Any = source.config.get_multi_rl_module_spec(inference_only=True)
        modules: dict[str, Any] = {}
        for name in source.config.module_ids:
            modules[name] = specs[name].build()
            modules[name].set_state(weights[name])
        return modules
    _refuse_other_bases(read_start_weights(source), source)
    learner = Path(source, COMPONENT_LEARNER_GROUP, COMPONENT_LEARNER)
    path = learner / COMPONENT_RL_MODULE
    if (learner / SHARDS).is_dir():
        return _from_shards(learner)
    folders = sorted(each.parent for each in path.glob(f"*/{RLModule.METADATA_FILE_NAME}"))
    if not folders:
        missing = (path / DEFAULT_MODULE_ID).relative_to(source)
        raise ValueError(f"{source} is no checkpoint: it has no {missing}")
    return {each.name: RLModule.from_checkpoint(each.absolute()) for each in folders}


def _refuse_other_bases(start_weights: Mapping[str, StartWeights], source: object) -> None:
    """Compares the models below adapters with the models that the adapters were trained on."""
    then = "restore the checkpoint into an algorithm with model: FOLDER, and export the algorithm"
    for policy, trained_on in start_weights.items():
        if trained_on.frozen == "base":
            now = StartWeights.of(trained_on.model, "base")
            now.refuse_other(trained_on, policy, source, then)


def _from_shards(learner: Path) -> dict[str, Any]:
    """The only module of a checkpoint that sharded learners wrote, by its id."""
    from trca.policies.lora import lora_tensors

    made_with = pickle.loads((learner / TextLearner.CLASS_AND_CTOR_ARGS_FILE_NAME).read_bytes())
    spec = made_with["ctor_args_and_kwargs"][1]["module_spec"]
    ((name, of_policy),) = spec.rl_module_specs.items()
    of_policy.inference_only = True
    module = of_policy.build()
    weights = read_weights(learner / SHARDS)
    module.set_state({**module.get_state(), **(lora_tensors(weights) or weights)})
    return {name: module}
