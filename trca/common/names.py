"""Hints for names that are not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, KeysView, Set
from itertools import islice
from typing import Final

_LISTED: Final = 20
_SHOWN: Final = 8
_COMPARED: Final = 20_000
_CUTOFF: Final = 0.55


def unknown(kind: str, name: object, known: Iterable[object]) -> ValueError:
    """The error for an unknown name: ``unknown engine 'vlm': did you mean 'vllm'? ...``."""
    return ValueError(f"unknown {kind} {str(name)[:200]!r}: {nearest(name, known)}")


def nearest(word: object, known: Iterable[object]) -> str:
    """What an error says after an unknown name: ``did you mean 'x'? Known: a, b``.

    The list is left out where it is long and there is a near name.

    Args:
        word: The unknown name.
        known: The known ones; a set is listed sorted, all else in its order.

    Returns:
        The nearest known name, the list of known names, or both.
    """
    names = list(dict.fromkeys(map(str, known)))
    if isinstance(known, Set) and not isinstance(known, KeysView):
        names.sort()
    near = nearest_name(word, names)
    if not names:
        return "there is none"
    if len(names) <= _LISTED:
        listed = f"Known: {', '.join(names)}"
    elif near is None:
        listed = f"Known: {', '.join(names[:_SHOWN])}, ... ({len(names)} in all)"
    else:
        listed = ""
    hint = "" if near is None else f"did you mean {near!r}?"
    return " ".join(part for part in (hint, listed) if part)


def nearest_name(word: object, known: Iterable[str]) -> str | None:
    """The known name that is most like a word, whatever the case; None where none is near."""
    folded: dict[str, str] = {}
    for name in islice(known, _COMPARED):
        folded.setdefault(name.casefold(), name)
    close = difflib.get_close_matches(str(word)[:200].casefold(), folded, n=1, cutoff=_CUTOFF)
    return folded[close[0]] if close else None
