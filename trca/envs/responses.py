"""Tagged responses: from what a language model writes to the command it means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import gymnasium

from trca.envs.text_env import UNPARSED
from trca.envs.text_space import AnyText

_OPEN: Final = "<action>"
_CLOSE: Final = "</action>"

Span = Callable[[str], tuple[int, int] | None]
"""Where in a response its action stands, tags included; None where there is none."""
PromptWriter = Callable[[str, int, int, Sequence[tuple[str, str]], str, str, Sequence[str]], str]
"""Writes a prompt; arguments as in `trca.policies.prompts.paper_prompt`."""


@dataclass(frozen=True)
class ResponseFormat:
    """A way to write a command down.

    Attributes:
        span: Finds the action in a response.
        parse: Reads its command; `UNPARSED` where there is none.
        prompt: The prompt that asks for this format; None where the usual templates do.
    """

    span: Span
    parse: Callable[[str], str]
    prompt: PromptWriter | None = None


def action_span(response: str) -> tuple[int, int] | None:
    """The last complete ``<action>...</action>`` pair.

    A pair is an opening tag with the first closing tag after it. Costs linear time.
    """
    start = response.rfind(_OPEN, 0, max(response.rfind(_CLOSE), 0))
    if start < 0:
        return None
    return start, response.index(_CLOSE, start) + len(_CLOSE)


def parse_response(response: str) -> str:
    """The command of a response: what the last complete action pair has inside, stripped.

    Any string is legal; without a pair the answer is `UNPARSED`, the empty string.
    """
    span = action_span(response)
    if span is None:
        return UNPARSED
    return response[span[0] + len(_OPEN) : span[1] - len(_CLOSE)].strip()


ACTION_FORMAT: Final = ResponseFormat(action_span, parse_response)
"""The format of the paper: ``<think>...</think><action>...</action>``."""
_ELSEWHERE: Final = {"search_r1": "trca.envs.searchqa.responses:SEARCH_R1_FORMAT"}
RESPONSE_FORMATS: Final = ("action", *_ELSEWHERE)
"""Names of all formats."""


def response_format(name: str) -> ResponseFormat:
    """The format of a name.

    Raises:
        ValueError: When there is none; lists the known ones.
    """
    if name == "action":
        return ACTION_FORMAT
    if name not in _ELSEWHERE:
        known = " or ".join(RESPONSE_FORMATS)
        raise ValueError(f"unknown response format {name!r}: choose {known}")
    module, _, attribute = _ELSEWHERE[name].partition(":")
    found: ResponseFormat = getattr(import_module(module), attribute)
    return found


class TaggedResponse(gymnasium.ActionWrapper[str, str, str]):
    """Steps a text world with the command inside a model's tagged response.

    ``step("<think>...</think><action>go to desk 1</action>")`` is ``step("go to desk 1")`` of the
    world; a response without a command steps it with `UNPARSED`.
    """

    def __init__(
        self, env: gymnasium.Env[str, str], response_format: ResponseFormat = ACTION_FORMAT
    ) -> None:
        """Wraps a world.

        Args:
            env: A text world.
            response_format: How responses carry their commands.
        """
        super().__init__(env)
        self.action_space = AnyText()
        self._parse = response_format.parse

    def action(self, action: Any) -> str:
        """The command in a response."""
        return self._parse(action)
