"""The contract of an optimizer: a factory takes an `OptimizerSpec` and returns PyTorch optimizers.

The setting ``optimizer`` names the factory: a name of `OPTIMIZERS`, or ``path/to/file.py:NAME``::

    import torch

    def momentum(spec):
        return {"sgd": torch.optim.SGD(spec.groups, momentum=0.9)}

The learner adds gradients up over the learners and clips them before a step, multiplies the
learning rate of each group by the warm-up, and saves ``optimizer.state`` in checkpoints. State that
changes from step to step must lie there, as a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.optim import Optimizer

from trca.algorithms.settings.types import OPTIMIZERS
from trca.policies.llm_module import LLMModule


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

    Args:
        name: The setting ``optimizer``.
        spec: Parameters and settings.

    Raises:
        ValueError: For an unknown name, and for a factory that breaks the contract.
    """
    optimizers = OPTIMIZERS.get(name)(spec)
    if not isinstance(optimizers, Mapping) or not all(
        isinstance(each, Optimizer) for each in optimizers.values()
    ):
        raise ValueError(
            f"optimizer {name!r} returned {type(optimizers).__name__}: return a dict of"
            " torch.optim.Optimizer by name, such as {'sgd': torch.optim.SGD(spec.groups)}"
        )
    trained = [parameter for group in spec.groups for parameter in group["params"]]
    held = [
        parameter
        for each in optimizers.values()
        for group in each.param_groups
        for parameter in group["params"]
    ]
    if sorted(map(id, held)) != sorted(map(id, trained)):
        raise ValueError(
            f"optimizer {name!r} holds {len(held)} parameters, {len(set(map(id, held)))} of them"
            f" different, and the policy trains {len(trained)}: put each parameter of spec.groups"
            " into one group"
        )
    return dict(optimizers)


def learning_rates(optimizers: Mapping[str, Optimizer]) -> dict[str, list[float]]:
    """The full learning rate of each group, by optimizer."""
    return {
        name: [float(group["lr"]) for group in optimizer.param_groups]
        for name, optimizer in optimizers.items()
    }


def scale_learning_rates(
    optimizers: Mapping[str, Optimizer], rates: Mapping[str, Sequence[float]], share: float
) -> None:
    """Sets the learning rate of each group to a share of the full rate.

    Args:
        optimizers: The optimizers.
        rates: `learning_rates`.
        share: 0 to 1; below 1 during the warm-up.
    """
    for name, optimizer in optimizers.items():
        for group, rate in zip(optimizer.param_groups, rates[name], strict=True):
            group["lr"] = rate * share
