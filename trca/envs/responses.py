"""Tagged responses: from what a language model writes to the command it means."""

from __future__ import annotations

from typing import Any, Final

import gymnasium

from trca.envs.text_env import UNPARSED, AnyText

_OPEN: Final = "<action>"
_CLOSE: Final = "</action>"


def parse_response(response: str) -> str:
    """The command of a response: the last complete ``<action>...</action>`` pair, stripped.

    A pair is an opening tag with the first closing tag after it. Any string is legal and costs
    linear time; without a complete pair the answer is `UNPARSED`, the empty string.
    """
    start = response.rfind(_OPEN, 0, max(response.rfind(_CLOSE), 0))
    if start < 0:
        return UNPARSED
    start += len(_OPEN)
    return response[start : response.index(_CLOSE, start)].strip()


class TaggedResponse(gymnasium.ActionWrapper[str, str, str]):
    """Steps a text world with the command inside a model's tagged response.

    ``step("<think>...</think><action>go to desk 1</action>")`` is ``step("go to desk 1")`` of the
    world; a response without a command steps it with `UNPARSED`.
    """

    def __init__(self, env: gymnasium.Env[str, str]) -> None:
        super().__init__(env)
        self.action_space = AnyText()

    def action(self, action: Any) -> str:
        """The command in a response."""
        return parse_response(action)
