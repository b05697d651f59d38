"""Control tokens of a tokenizer, which only a template may write.

Text of environments, retrievers and other agents may contain the text of a control token, such as
``<|im_end|>``. `ControlTokens.guard` marks such text, templates write the marked text into a
prompt, and `ControlTokens.encode` gives marked text ordinary tokens::

    guard      Ada<|im_end|>       ->  Ada<*|im_end|>       (* is a mark)
    template   <|im_start|>user/Ada<*|im_end|><|im_end|>
    encode     <|im_start|>, user, /, Ada, <, |, im, _end, |, >, <|im_end|>

The ids of a prompt without marked text are the ids of the tokenizer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer

_MARK, _OPEN, _CLOSE = "\ufdd0", "\ufdd1", "\ufdd2"
"""Noncharacters of Unicode, which `ControlTokens.guard` removes from texts."""
SEPARATOR: Final = _CLOSE
"""A character that no guarded text has."""
_NO_MARKS: Final = dict.fromkeys(map(ord, (_MARK, _OPEN, _CLOSE)))
_TAG: Final = re.compile(r"<.*>|\[.*\]", re.DOTALL)


class ControlTokens:
    """The control tokens of a tokenizer: special tokens, and added tokens in brackets."""

    def __init__(self, tokenizer: Any) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._added: dict[int, AddedToken] = dict(tokenizer.added_tokens_decoder)
        special = [token.content for token in self._added.values() if token.special]
        tags = [t.content for t in self._added.values() if _TAG.fullmatch(t.content)]
        self._written = _any_of([token.content for token in self._added.values()])
        self._special = _any_of(special)
        self._control = _any_of([*special, *tags])

    def guard(self, text: str, special: bool = False) -> str:
        """Marks the text of control tokens in a text that no template wrote.

        With ``special`` only special tokens are marked: a response may have the tags of thoughts
        and actions. Half of a surrogate pair, which no tokenizer takes, becomes ``?``.
        """
        pattern = self._special if special else self._control
        text = text.translate(_NO_MARKS).encode(errors="replace").decode()
        return pattern.sub(lambda t: f"{t[0][0]}{_MARK}{t[0][1:]}", text)

    def guard_all(self, value: Any) -> Any:
        """Marks the text of control tokens in all texts of a JSON value."""
        if isinstance(value, str):
            return self.guard(value)
        if isinstance(value, Mapping):
            return {self.guard(str(key)): self.guard_all(each) for key, each in value.items()}
        return (
            [self.guard_all(each) for each in value] if isinstance(value, list | tuple) else value
        )

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Returns the ids of a text with marks, with special tokens such as BOS if asked."""
        if _MARK not in text:
            return list(self._backend.encode(text, add_special_tokens=add_special_tokens).ids)
        renamed, ids = self._renamed
        text = self._written.sub(lambda token: f"{_OPEN}{token[0]}{_CLOSE}", text)
        encoded = renamed.encode(text.replace(_MARK, ""), add_special_tokens=add_special_tokens)
        return [
            token if added else ids.get(token, token)
            for token, added in zip(encoded.ids, encoded.special_tokens_mask, strict=True)
        ]

    @cached_property
    def _renamed(self) -> tuple[Tokenizer, dict[int | None, int]]:
        """The tokenizer with other texts for added tokens; its ids of these tokens -> usual ids."""
        from tokenizers import AddedToken, Tokenizer

        state = json.loads(self._backend.to_str())
        renamed = Tokenizer.from_str(json.dumps({**state, "added_tokens": []}))
        ids: dict[int | None, int] = {}
        for number, token in self._added.items():
            name = f"{_OPEN}{token.content}{_CLOSE}"
            spaces = {key: getattr(token, key) for key in ("single_word", "lstrip", "rstrip")}
            renamed.add_tokens([AddedToken(name, normalized=False, **spaces)])
            ids[renamed.token_to_id(name)] = number
        return renamed, ids


def control_tokens(tokenizer: Any) -> ControlTokens:
    """Returns the control tokens of a tokenizer; the same object for the same tokenizer."""
    if tokenizer not in _KNOWN:
        _KNOWN[tokenizer] = ControlTokens(tokenizer)
    return _KNOWN[tokenizer]


def response_ids(tokenizer: Any, response: str, end: bool = False) -> list[int]:
    """Returns the ids of a written response; text of special tokens becomes ordinary tokens.

    ``end`` adds the end token of the tokenizer, for a response format without stop strings.
    """
    tokens = control_tokens(tokenizer)
    written = response.removesuffix(tokenizer.eos_token) if end else response
    ids = tokens.encode(tokens.guard(written, special=True))
    return [*ids, tokenizer.eos_token_id] if end else ids


_KNOWN: Final[WeakKeyDictionary[Any, ControlTokens]] = WeakKeyDictionary()


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    """Matches the longest of the texts."""
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)")
