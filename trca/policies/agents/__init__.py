"""Prompting agents by name: how a model that is not trained here is asked to act.

An agent is a few settings, most of all the prompt and how an action is read, and for Reflexion the
prompt of a reflection between trials::

    agent = AGENTS.get("react")
    config.update_from_dict(dict(agent.settings))

``trca evaluate --agent NAME`` plays one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trca.common.registry import Registry
from trca.envs.responses import PromptWriter

COMMON: Final[Mapping[str, Any]] = {
    "template": "paper",
    "memory": False,
    "max_prompt_tokens": 8192,
    "max_new_tokens": 512,
}
"""Settings of all agents: the plain observation, and room for a long history."""


@dataclass(frozen=True)
class Agent:
    """A prompting agent.

    Attributes:
        settings: Hyperparameters that it sets, by name.
        reflection: The prompt that asks for a reflection after a failed trial; None for an agent
            with one trial.
    """

    settings: Mapping[str, Any]
    reflection: PromptWriter | None = None


AGENTS: Final[Registry[Agent]] = Registry(
    "agent",
    {
        "zero-shot": Agent({**COMMON, "response_format": "action", "history_length": 2}),
        "react": "trca.policies.agents.react:REACT",
        "reflexion": "trca.policies.agents.reflexion:REFLEXION",
    },
)
"""Agents by name; one of your own is ``path/to/file.py:AGENT``."""
