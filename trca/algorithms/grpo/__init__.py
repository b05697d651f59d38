"""GRPO: the outcome of a rollout against its group, on every step."""

from trca.algorithms.grpo.credit import GRPOParameters
from trca.algorithms.grpo.grpo import GRPO, GRPOConfig

__all__ = ["GRPO", "GRPOConfig", "GRPOParameters"]
