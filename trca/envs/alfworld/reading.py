"""The names of things in ALFWorld's observations: how they are found, and what they tell."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NAME: Final = "[a-z]+ [0-9]+"
"""The form of a name, such as ``mug 1``, as a regular expression."""
_THING = re.compile(rf"\ban? ({NAME})")


@lru_cache(maxsize=8192)
def things(text: str) -> tuple[str, ...]:
    """The names listed in an observation ("you see a mug 1, and a pen 2"), in its order."""
    return tuple(_THING.findall(text))


@lru_cache(maxsize=8192)
def kind(name: str) -> str:
    """The type of a named thing: ``mug`` for ``mug 1``, blank for a blank name."""
    return name.rpartition(" ")[0]
