"""Optimizers of the learners, and the optimizer that a checkpoint names.

The setting ``optimizer`` is ``adamw``, a class such as ``torch.optim:Adafactor``, or a function
``path/to/file.py:NAME`` that takes an `OptimizerSpec` and returns PyTorch optimizers by name::

    import torch

    def momentum(spec):
        return {"sgd": torch.optim.SGD(spec.groups, momentum=0.9)}

The learner adds gradients up over the learners and clips them before a step, multiplies the
learning rate of each group by the warm-up, and saves ``optimizer.state`` in checkpoints. State that
changes from step to step must lie there, as a tensor.

The state of one optimizer means nothing to another. So a checkpoint names its optimizer, in
``learner_group/learner/metadata.json``::

    "optimizer_classes": {
      "setting": "muon.py:muon",
      "classes": {"default_policy_muon": "Muon", "default_policy_adamw": "AdamW"}
    }

The classes decide, not the setting: a file of a user may move.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from ray.rllib.core.learner.learner import DEFAULT_OPTIMIZER
from torch.optim import Optimizer

from trca.algorithms.settings.types import OPTIMIZERS
from trca.policies.llm_module import LLMModule

_KEY: Final = "optimizer_classes"


@dataclass(frozen=True)
class OptimizerSpec:
    """The trained parameters of a policy, and the settings of an optimizer.

    Attributes:
        groups: The trained parameters in PyTorch's groups, ``{"params": [...], "lr": rate}``. The
            first group is the policy; a second group is a critic.
        module: The policy that the parameters belong to.
        betas: The setting ``adam_betas``.
        weight_decay: The setting ``weight_decay``.
    """

    groups: list[dict[str, Any]]
    module: LLMModule
    betas: tuple[float, float]
    weight_decay: float


OptimizerFactory = Callable[[OptimizerSpec], Mapping[str, Optimizer]]
"""Makes the optimizers of a policy, by their names in checkpoints.

Each trained parameter is in one group of one optimizer.
"""


def make_optimizers(name: str, spec: OptimizerSpec) -> dict[str, Optimizer]:
    """Makes the optimizers of a policy.

    A class gets the groups, and ``betas`` and ``weight_decay`` if its constructor takes them.

    Raises:
        ValueError: For an unknown name, and for a factory that breaks the contract.
    """
    made: Any = OPTIMIZERS.get(name)
    if isinstance(made, type) and issubclass(made, Optimizer):
        settings = {"betas": spec.betas, "weight_decay": spec.weight_decay}
        taken = inspect.signature(made).parameters.keys() & settings.keys()
        kwargs: Any = {setting: settings[setting] for setting in taken}
        return {DEFAULT_OPTIMIZER: cast("Any", made)(spec.groups, **kwargs)}
    optimizers = made(spec)
    if not isinstance(optimizers, Mapping) or not all(
        isinstance(each, Optimizer) for each in optimizers.values()
    ):
        raise ValueError(
            f"optimizer {name!r} returned {type(optimizers).__name__}: return a dict of"
            " torch.optim.Optimizer by name, such as {'sgd': torch.optim.SGD(spec.groups)}"
        )
    trained = [parameter for group in spec.groups for parameter in group["params"]]
    held = [parameter for group in groups_of(optimizers) for parameter in group["params"]]
    if sorted(map(id, held)) != sorted(map(id, trained)):
        raise ValueError(
            f"optimizer {name!r} holds {len(held)} parameters, {len(set(map(id, held)))} of them"
            f" different, and the policy trains {len(trained)}: put each parameter of spec.groups"
            " into one group"
        )
    return dict(optimizers)


def groups_of(optimizers: Mapping[str, Optimizer]) -> list[dict[str, Any]]:
    """The groups of all optimizers."""
    return [group for optimizer in optimizers.values() for group in optimizer.param_groups]


class OtherOptimizerError(ValueError):
    """The optimizer of a checkpoint is not the configured optimizer."""


def optimizer_entry(setting: str, optimizers: Mapping[str, Optimizer]) -> dict[str, Any]:
    """The entry of a checkpoint's metadata or state that names the optimizers of a learner."""
    classes = {name: type(each).__qualname__ for name, each in optimizers.items()}
    return {_KEY: {"setting": setting, "classes": classes}}


def refuse_other_optimizer(
    configured: Mapping[str, Any], saved: Mapping[str, Any], place: str
) -> None:
    """Compares the `optimizer_entry` of a learner with the metadata of a checkpoint, or a state."""
    if _KEY not in saved:
        raise OtherOptimizerError(f"{place} names no optimizer: no learner of trca wrote it")
    now, then = configured[_KEY], saved[_KEY]
    if now["classes"] != then["classes"]:
        ours, theirs = (", ".join(each["classes"].values()) for each in (now, then))
        raise OtherOptimizerError(
            f"{place} has the state of optimizer {then['setting']!r} ({theirs}), and the config"
            f" has optimizer {now['setting']!r} ({ours}): set optimizer: {then['setting']}, or"
            " start a new run from the weights alone, with model: FOLDER after trca export RUN"
            " --to FOLDER"
        )
