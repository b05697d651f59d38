"""GRPO: the outcome of a rollout against its group, on every step."""

from trca.algorithms.grpo import credit
from trca.algorithms.grpo.grpo import GRPO, GRPOConfig, GRPOParameters

__all__ = ["GRPO", "GRPOConfig", "GRPOParameters", "credit"]
