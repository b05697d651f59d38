"""GiGPO: outcome credit plus credit against steps from the same state."""

from trca.algorithms.gigpo import credit
from trca.algorithms.gigpo.gigpo import GiGPO, GiGPOConfig, GiGPOParameters

__all__ = ["GiGPO", "GiGPOConfig", "GiGPOParameters", "credit"]
