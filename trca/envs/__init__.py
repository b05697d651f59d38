"""Gymnasium text environments whose transitions are judged by rubrics."""

from typing import TYPE_CHECKING, Any

from trca.envs.adapter import Adapter
from trca.envs.choice import ActionChoice
from trca.envs.registration import make, register, register_packaged
from trca.envs.text_env import Outcome, TextEnv

if TYPE_CHECKING:
    from trca.envs.multi_agent import aec_env, parallel_env

register_packaged()

__all__ = [
    "ActionChoice",
    "Adapter",
    "Outcome",
    "TextEnv",
    "aec_env",
    "make",
    "parallel_env",
    "register",
]


def __getattr__(name: str) -> Any:
    """Imports `aec_env` and `parallel_env` on first use; both need PettingZoo."""
    if name in ("aec_env", "parallel_env"):
        from trca.envs import multi_agent

        return getattr(multi_agent, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
