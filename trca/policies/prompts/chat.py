"""The template ``chat``: one conversation per episode, as instruct models have it.

The system prompt has the task and the response format, a user turn the observation, an assistant
turn the response. The prompt of a step is the prompt of the last step, the sampled ids of the
response, and a new user turn::

    step 0    system, user 0
    step 1    system, user 0, response 0, user 1
    step 2    system, user 0, response 0, user 1, response 1, user 2

Nothing that was in a prompt changes later. An engine with a prefix cache therefore reads only the
new turn, and learners with shared prefixes compute a conversation once. A conversation over the
limits starts a new window: the system prompt and the newest turns.

With tools, the chat template also shows their schemas, and the result of each call as a message of
the role ``tool`` in place of a user turn. A template without this role, and the first turn of a
window, have the results in a user turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.common.thoughts import CLOSE, Thought, leaves_open
from trca.policies.prompts.control_tokens import control_tokens

_RESPONSE: Final = "TRCA-RESPONSE"
_TEXT: Final = "TRCA-TEXT"
_TOOL: Final = "TRCA-TOOL"
_RESERVED: Final = frozenset({"messages", "add_generation_prompt"})

Messages = Sequence[Mapping[str, str]]
"""Messages of a conversation, each with ``role`` and ``content``."""
Tools = Sequence[Mapping[str, Any]]
"""Schemas of tools in OpenAI's form."""


class ChatTemplate:
    """Token ids of the turns of a conversation, by the chat template of a tokenizer.

    A chat template renders complete conversations as text. This class takes the pieces around the
    responses from such a rendering, so that the sampled ids of a response stay unchanged. With two
    turns, and ``/`` for a line break::

        opening      <|im_start|>user/You see a desk 1.<|im_end|>/<|im_start|>assistant/
        response     the sampled ids
        following    <|im_end|>/<|im_start|>user/You see a mug 1.<|im_end|>/<|im_start|>assistant/
    """

    def __init__(self, tokenizer: Any, options: Mapping[str, Any]) -> None:
        """Takes a tokenizer with a chat template, and variables such as ``enable_thinking``.

        Raises:
            ValueError: If the chat template does not read an option.
        """
        self._tokenizer, self._options = tokenizer, dict(options)
        self._source = str(tokenizer.get_chat_template())
        for name in options:
            if name in _RESERVED or not re.search(rf"\b{re.escape(name)}\b", self._source):
                raise ValueError(
                    f"chat_template_kwargs has {name!r}, and the chat template of the tokenizer"
                    " reads no such option: remove the key, or compare the name with the model's"
                    " chat_template"
                )

    def opening(self, system: str, text: str, tools: Tools = ()) -> list[int]:
        """Returns the ids of the first turn, up to the start of the response.

        A template without system prompts gets the system prompt as the beginning of the user's
        message; an empty one gives the template's default.
        """
        return self.whole(self._first(system, text), tools)

    def whole(self, messages: Messages, tools: Tools = ()) -> list[int]:
        """Returns the ids of messages, up to the start of the response."""
        return self._ids(self._rendered(messages, tools))

    def continued(
        self, messages: Messages, past: Sequence[int] | NDArray[Any], tools: Tools = ()
    ) -> list[int]:
        """Returns the ids of messages after a response, to the start of the next response.

        Args:
            messages: The messages, each with ``role`` and ``content``.
            past: Ids that end with the response.
            tools: The tools.

        Raises:
            ValueError: If the chat template does not show all turns of a conversation in order.
        """
        answered = [*self._first("", _TEXT), {"role": "assistant", "content": _RESPONSE}]
        parts = self._rendered([*answered, *messages], tools).split(_RESPONSE, 1)
        shown = [m["content"].strip() for m in messages if m["role"] != "assistant"]
        if len(parts) != 2 or not all(_shows(parts[1], text) for text in shown):
            raise ValueError(
                "the chat template of the tokenizer does not show all turns of a conversation in"
                " order: set template to paper, or send one message"
            )
        ids = self._ids(parts[1])
        ended = len(past) > 0 and ids[:1] == [int(past[-1])]
        return ids[1:] if ended else ids

    @cached_property
    def thought(self) -> Thought:
        """Native thoughts of the model, as the chat template shows them."""
        if CLOSE not in self._source:
            return "none"
        end = self._rendered(self._first("", _TEXT)).rpartition(_TEXT)[2]
        return "open" if leaves_open(end, "closed") else "closed"

    @cached_property
    def takes_tools(self) -> bool:
        """Whether the chat template shows the schemas of tools."""
        return self._shows_messages(self._first("", _TEXT), _TOOL)

    @cached_property
    def takes_results(self) -> bool:
        """Whether the chat template shows messages of the role ``tool``."""
        answered = [*self._first("", _TEXT), {"role": "assistant", "content": _RESPONSE}]
        result = "TRCA-RESULT"
        return self._shows_messages([*answered, {"role": "tool", "content": result}], result)

    def _shows_messages(self, messages: Messages, text: str) -> bool:
        """Whether messages, with a tool named `_TOOL`, are rendered and contain a text."""
        from jinja2 import TemplateError

        about = {
            "name": _TOOL,
            "description": "",
            "parameters": {"type": "object", "properties": {}},
        }
        try:
            return text in self._rendered(messages, [{"type": "function", "function": about}])
        except TemplateError:
            return False

    def _first(self, system: str, text: str) -> list[dict[str, str]]:
        if not system:
            return [{"role": "user", "content": text}]
        if self._takes_system:
            return [{"role": "system", "content": system}, {"role": "user", "content": text}]
        return [{"role": "user", "content": f"{system}\n\n{text}"}]

    @cached_property
    def _takes_system(self) -> bool:
        from jinja2 import TemplateError

        messages = [{"role": "system", "content": _RESPONSE}, {"role": "user", "content": _TEXT}]
        try:
            return _RESPONSE in self._rendered(messages)
        except TemplateError:
            return False

    def _rendered(self, messages: Messages, tools: Tools = ()) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                messages,
                tools=list(tools) or None,
                tokenize=False,
                add_generation_prompt=True,
                **self._options,
            )
        )

    def _ids(self, text: str) -> list[int]:
        return control_tokens(self._tokenizer).encode(text)


@dataclass
class Conversation:
    """The turns of one agent in one episode: messages and sampled response of each past step.

    ``first`` is the first turn of the window, ``messages`` are those of the last prompt: a user
    turn, or results of tools. ``past_ids`` are ``prompt_ids``, the last prompt, with its response,
    if it has one.
    """

    system: str = ""
    tools: Tools = ()
    turns: list[tuple[Messages, NDArray[np.int32]]] = field(default_factory=list)
    first: int = 0
    messages: Messages = ()
    prompt_ids: list[int] = field(default_factory=list)
    past_ids: list[int] = field(default_factory=list)

    def add(self, response_ids: NDArray[np.int32]) -> None:
        """Adds the response to the last prompt, int32 (R,)."""
        self.turns.append((self.messages, response_ids))
        self.past_ids = [*self.prompt_ids, *response_ids.tolist()]

    def prompt(
        self, template: ChatTemplate, messages: Messages, most_turns: int, most_tokens: int
    ) -> bool:
        """Sets the prompt with new messages; returns whether it fits. Else nothing changes.

        If the window would have more than ``most_turns`` past turns or ``most_tokens`` tokens, a
        new window has the newest turns, at most half of both limits. So new windows are rare.
        """
        count = len(self.turns)
        if 0 < count - self.first <= most_turns:
            past = self.turns[-1][1]
            ids = [*self.past_ids, *template.continued(messages, past, self.tools)]
            if len(ids) <= most_tokens:
                self.messages, self.prompt_ids = messages, ids
                return True
        shown, tail = [*(turn for turn, _ in self.turns), messages], list[int]()
        first, fits = count, False
        while True:
            text = "\n\n".join(message["content"] for message in shown[first])
            ids = [*template.opening(self.system, text, self.tools), *tail]
            if len(ids) > (most_tokens // 2 if fits else most_tokens):
                return fits
            self.messages, self.prompt_ids, self.first, fits = messages, ids, first, True
            if first <= max(count - most_turns // 2, 0):
                return True
            response = self.turns[first - 1][1]
            following = template.continued(shown[first], response, self.tools)
            tail = [*response.tolist(), *following, *tail]
            first -= 1


def _shows(rendered: str, text: str) -> bool:
    """Whether a rendering has a text, as it is or as JSON, as Llama 3 shows results."""
    return text in rendered or json.dumps(text, ensure_ascii=False)[1:-1] in rendered
