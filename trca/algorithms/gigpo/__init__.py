"""GiGPO: outcome credit plus credit against steps from the same state."""

from trca.algorithms.gigpo.credit import GiGPOParameters
from trca.algorithms.gigpo.gigpo import GiGPO, GiGPOConfig

__all__ = ["GiGPO", "GiGPOConfig", "GiGPOParameters"]
