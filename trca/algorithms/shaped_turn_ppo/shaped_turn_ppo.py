"""ShapedTurnPPO: TurnPPO on rewards that the rubric shapes by a potential."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.rules.shaped_turn_ppo import ShapedTurnPPOParameters
from trca.algorithms.turn_ppo.turn_ppo import TurnPPOConfig

__all__ = ["ShapedTurnPPO", "ShapedTurnPPOConfig", "ShapedTurnPPOParameters"]


class ShapedTurnPPOConfig(TurnPPOConfig):
    """Config of ShapedTurnPPO under the paper's common settings."""

    parameters_class = ShapedTurnPPOParameters


class ShapedTurnPPO(TextAlgorithm, config=ShapedTurnPPOConfig):
    """Turn-level proximal policy optimization with potential-based shaping."""
