"""Response formats: how a language model writes an action down, read once for every use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import gymnasium

from trca.common.registry import Registry
from trca.envs.text_env import UNPARSED
from trca.envs.text_space import AnyText

_OPEN: Final = "<action>"
_CLOSE: Final = "</action>"

PromptWriter = Callable[[str, int, int, Sequence[tuple[str, str]], str, str, Sequence[str]], str]
"""Writes a prompt; arguments as in `trca.policies.prompts.paper_prompt`."""


Span = tuple[int, int]
"""The first character of a part of a response, and the one after its last."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a response says of the subgoal that it follows.

    Attributes:
        switch: Whether it takes up a new subgoal, or keeps the one before.
        subgoal: The subgoal that it follows.
        parts: The spans of switch, subgoal and action, in this order, tags included.
    """

    switch: bool
    subgoal: str
    parts: tuple[Span, Span, Span]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a response says.

    Attributes:
        action: The action for the environment; `UNPARSED` where none could be read.
        span: Where the action is in the response, tags included; None where there are no tags. With
            a plan, it holds the whole of the plan.
        plan: The plan; None where the format has none, or the response could not be read.
    """

    action: str
    span: Span | None
    plan: Plan | None = None


NO_ACTION: Final = Reading(UNPARSED, None)
"""The reading of a response without an action."""


@dataclass(frozen=True)
class ResponseFormat:
    """A way to write an action down.

    Attributes:
        read: Reads a response. Its tags are ASCII, and it accepts any string.
        stop: Strings that end a response; generation stops right after one of them.
        prompt: The prompt that asks for this format; None where the usual templates do.
        instructions: How the template ``paper`` asks for this format, with ``{choice}`` for "an
            action" or "an admissible action"; None for a thought and an action.
        whole_history: Whether the history of its prompt has whole responses in place of actions.
        write: Writes the response with a thought and an action; None where nothing needs it.
        write_plan: Writes the response that takes up or keeps a subgoal, from whether it switches,
            the subgoal and the action; None where responses have no plan. With a plan, each prompt
            shows the subgoal of the last response that could be read.
        tags: The tags, each of which is a token of the tiny policy; the last one ends a response.
    """

    read: Callable[[str], Reading]
    stop: tuple[str, ...]
    prompt: PromptWriter | None = None
    whole_history: bool = False
    write: Callable[[str, str], str] | None = None
    instructions: str | None = None
    write_plan: Callable[[bool, str, str], str] | None = None
    tags: tuple[str, ...] = ("<think>", "</think>", _OPEN, _CLOSE)


def read_action(response: str) -> Reading:
    """Reads the action inside the last complete ``<action>...</action>`` pair, stripped.

    A pair is an opening tag with the first closing tag after it. Takes linear time.
    """
    start = response.rfind(_OPEN, 0, max(response.rfind(_CLOSE), 0))
    if start < 0:
        return NO_ACTION
    end = response.index(_CLOSE, start)
    return Reading(response[start + len(_OPEN) : end].strip(), (start, end + len(_CLOSE)))


def write_action(thought: str, action: str) -> str:
    """Writes a thought and an action in the paper's tags."""
    return f"<think>{thought}</think>{_OPEN}{action}{_CLOSE}"


ACTION_FORMAT: Final = ResponseFormat(read_action, stop=(_CLOSE,), write=write_action)
"""The format of the paper: ``<think>...</think><action>...</action>``."""
RESPONSE_FORMATS: Final[Registry[ResponseFormat]] = Registry(
    "response format",
    {
        "action": ACTION_FORMAT,
        "plan": "trca.envs.plans:PLAN_FORMAT",
        "r1_answer": "trca.envs.searchqa.search_r1:R1_ANSWER_FORMAT",
        "search_r1": "trca.envs.searchqa.search_r1:SEARCH_R1_FORMAT",
        "search_r1_growing": "trca.envs.searchqa.search_r1:SEARCH_R1_GROWING_FORMAT",
    },
)
"""Response formats by name; one of your own is ``path/to/file.py:FORMAT``."""


class TaggedResponse(gymnasium.ActionWrapper[str, str, str]):
    """Steps a text environment with the action inside a model's tagged response.

    ``step("<think>...</think><action>go to desk 1</action>")`` steps the environment with
    ``go to desk 1``; a response without an action steps it with `UNPARSED`.
    """

    def __init__(
        self, env: gymnasium.Env[str, str], response_format: ResponseFormat = ACTION_FORMAT
    ) -> None:
        """Wraps an environment.

        Args:
            env: A text environment.
            response_format: How responses carry their actions.
        """
        super().__init__(env)
        self.action_space = AnyText()
        self._read = response_format.read

    def action(self, action: Any) -> str:
        """The action in a response."""
        return self._read(action).action
