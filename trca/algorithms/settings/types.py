"""Types of hyperparameters: choices, numbers with bounds, and registries of names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from trca.common.registry import Registry
from trca.tune_configs.run_parameters import Count as Count
from trca.tune_configs.run_parameters import NonNegative as NonNegative
from trca.tune_configs.run_parameters import Positive as Positive
from trca.tune_configs.run_parameters import PositiveNumber as PositiveNumber
from trca.tune_configs.run_parameters import Probability as Probability
from trca.tune_configs.run_parameters import Share as Share

CREDIT_RULES: Final[Registry[Callable[..., Any]]] = Registry("credit rule")
"""Credit rules by name; ``@CREDIT_RULES.register("mine")`` adds one."""
OPTIMIZERS: Final[Registry[Callable[..., Any]]] = Registry(
    "optimizer", {"adamw": "torch.optim:AdamW"}
)
"""Optimizers by name: classes of PyTorch, or an `OptimizerFactory`."""

AGENT_PROGRAMS: Final[Registry[Callable[..., Any]]] = Registry("agent program")
"""Agent programs by name; see `trca.algorithms.rollouts.programs`."""


def check_optimizer(name: str) -> str:
    """Checks the name of an optimizer.

    Raises:
        ValueError: For an unknown name.
    """
    if name == "muon":
        raise ValueError("Muon is an example: give examples/own_optimizer/muon.py:muon")
    return OPTIMIZERS.check(name)


def _rising(band: tuple[float, float]) -> tuple[float, float]:
    if band[0] >= band[1]:
        raise ValueError("give the lower bound first")
    return band


Band = Annotated[tuple[NonNegative, PositiveNumber], AfterValidator(_rising)]
Normalizer = Literal["std", "one"]
RatioLevel = Literal["action", "action_mean", "token"]
KLKind = Literal["k1", "k2", "k3", "k3+"]
Aggregation = Literal["rollout_mean", "rollout_sum", "step_mean", "token_mean"]
PolicyLoss = Literal["clipped", "log_likelihood"]
OnMissingRollout = Literal["drop_group", "go_on"]
OnZeroAdvantage = Literal["keep", "drop_groups", "drop_rollouts"]
Credit = Annotated[
    str, Field(description="Credit rule: the algorithm's rule, or 'file.py:function'.")
]
