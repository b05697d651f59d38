"""Prompting agents by name: prompts for models without training.

An agent consists of a few settings, most importantly the prompt and the response format. Reflexion
adds the prompt of a reflection between attempts::

    agent = AGENTS.get("react")
    config.update_from_dict(dict(agent.settings))

``trca evaluate --agent NAME`` evaluates an agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trca.common.registry import Registry
from trca.envs.responses import PromptWriter

COMMON: Final[Mapping[str, Any]] = {
    "agent_program": None,
    "template": "paper",
    "memory": False,
    "max_prompt_tokens": 7680,  # with the response 8,192, the context of many small models
    "max_new_tokens": 512,
}
"""Settings of all agents: the plain observation, and enough tokens for a long history."""


@dataclass(frozen=True)
class Agent:
    """A prompting agent.

    Attributes:
        settings: The agent's hyperparameters by name.
        reflection: The prompt that asks for a reflection after a failed attempt; `None` for an
            agent with one attempt.
    """

    settings: Mapping[str, Any]
    reflection: PromptWriter | None = None


AGENTS: Final[Registry[Agent]] = Registry(
    "agent",
    {
        "zero-shot": Agent({**COMMON, "response_format": "action", "history_length": 2}),
        "react": "trca.policies.agents.react:REACT",
        "reflexion": "trca.policies.agents.react:REFLEXION",
    },
)
"""Agents by name; ``path/to/file.py:AGENT`` names a custom agent."""
