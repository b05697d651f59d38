"""Writes a trained policy as a Hugging Face folder."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from ray.rllib.core import (
    COMPONENT_LEARNER,
    COMPONENT_LEARNER_GROUP,
    COMPONENT_RL_MODULE,
    DEFAULT_MODULE_ID,
)
from ray.rllib.core.rl_module.rl_module import RLModule

from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_learner import SHARDS, TextLearner
from trca.algorithms.training_state import read_weights


def export(source: TextAlgorithm | str | Path, directory: str | Path) -> Path:
    """Writes config, weights (safetensors) and tokenizer where ``from_pretrained`` opens them.

    An adapter is merged into the weights.

    Args:
        source: An algorithm, or a checkpoint that one wrote.
        directory: The folder, made where it does not exist.

    Returns:
        The folder.

    Raises:
        ValueError: When the path holds no checkpoint of a text algorithm.
    """
    from trca.policies.lora import has_lora, merge_lora
    from trca.policies.models import load_tokenizer

    module: Any
    if isinstance(source, TextAlgorithm):
        spec = source.config.get_rl_module_spec(inference_only=True)
        module = spec.build()
        module.set_state(source.learner_group.get_weights()[DEFAULT_MODULE_ID])
    else:
        learner = Path(source, COMPONENT_LEARNER_GROUP, COMPONENT_LEARNER)
        path = learner / COMPONENT_RL_MODULE / DEFAULT_MODULE_ID
        if (learner / SHARDS).is_dir():
            module = _from_shards(learner)
        elif path.is_dir():
            module = RLModule.from_checkpoint(path.absolute())
        else:
            raise ValueError(f"{source} is no checkpoint: it has no {path.relative_to(source)}")
    folder = Path(directory)
    if has_lora(module.model):
        merge_lora(module.model)
    module.model.save_pretrained(folder)
    load_tokenizer(module.model_config["model"]).save_pretrained(folder)
    return folder


def _from_shards(learner: Path) -> Any:
    """The module of a checkpoint that sharded learners wrote."""
    from trca.policies.lora import lora_tensors

    made_with = pickle.loads((learner / TextLearner.CLASS_AND_CTOR_ARGS_FILE_NAME).read_bytes())
    spec = made_with["ctor_args_and_kwargs"][1]["module_spec"]
    of_policy = spec.rl_module_specs[DEFAULT_MODULE_ID]
    of_policy.inference_only = True
    module = of_policy.build()
    weights = read_weights(learner / SHARDS)
    module.set_state({**module.get_state(), **(lora_tensors(weights) or weights)})
    return module
