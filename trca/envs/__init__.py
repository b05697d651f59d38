"""Gymnasium text environments whose transitions are judged by rubrics."""

from typing import TYPE_CHECKING, Any

from trca.envs.adapter import Adapter
from trca.envs.choice import ActionChoice
from trca.envs.registration import PACKAGED, make, register
from trca.envs.text_env import Outcome, TextEnv
from trca.envs.tool_env import ToolEnv, ToolError, tool

if TYPE_CHECKING:
    from trca.envs.multi_agent import aec_env, parallel_env

for _env_id, _env in PACKAGED.items():
    register(_env_id, _env)

__all__ = [
    "ActionChoice",
    "Adapter",
    "Outcome",
    "TextEnv",
    "ToolEnv",
    "ToolError",
    "aec_env",
    "make",
    "parallel_env",
    "register",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Imports `aec_env` and `parallel_env` on first use; both need PettingZoo."""
    if name in ("aec_env", "parallel_env"):
        from trca.envs import multi_agent

        return getattr(multi_agent, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
