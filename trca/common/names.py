"""Hints for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, KeysView, Set
from itertools import islice
from typing import Final

_LISTED: Final = 20
_SHOWN: Final = 8
_COMPARED: Final = 20_000
_CUTOFF: Final = 0.55


def unknown(kind: str, name: object, names: Iterable[object]) -> ValueError:
    """Returns the error for an unknown name: ``unknown engine 'vlm': did you mean 'vllm'? ...``."""
    return ValueError(f"unknown {kind} {str(name)[:200]!r}: {nearest(name, names)}")


def nearest(word: object, names: Iterable[object]) -> str:
    """Returns the hint for an unknown name: ``did you mean 'x'? Known: a, b``.

    The hint omits a long list if there is a similar name. A set is listed in sorted order.
    """
    texts = list(dict.fromkeys(map(str, names)))
    if isinstance(names, Set) and not isinstance(names, KeysView):
        texts.sort()
    near = nearest_name(word, texts)
    if not texts:
        return "there is none"
    if len(texts) <= _LISTED:
        listed = f"Known: {', '.join(texts)}"
    elif near is None:
        listed = f"Known: {', '.join(texts[:_SHOWN])}, ... ({len(texts)} in all)"
    else:
        listed = ""
    hint = "" if near is None else f"did you mean {near!r}?"
    return " ".join(part for part in (hint, listed) if part)


def nearest_name(word: object, names: Iterable[str]) -> str | None:
    """Returns the most similar name, ignoring case; `None` if no name is similar."""
    folded: dict[str, str] = {}
    for name in islice(names, _COMPARED):
        folded.setdefault(name.casefold(), name)
    close = difflib.get_close_matches(str(word)[:200].casefold(), folded, n=1, cutoff=_CUTOFF)
    return folded[close[0]] if close else None
