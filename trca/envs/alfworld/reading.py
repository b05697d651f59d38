"""Reads the names of things in ALFWorld's observations."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NAME: Final = "[a-z]+ [0-9]+"
"""Regular expression of a name, such as ``mug 1``."""
_THING = re.compile(rf"\ban? ({NAME})")


@lru_cache(maxsize=8192)
def things(text: str) -> tuple[str, ...]:
    """The names in an observation ("you see a mug 1, and a pen 2"), in order."""
    return tuple(_THING.findall(text))


@lru_cache(maxsize=8192)
def kind(name: str) -> str:
    """The type of a named thing: ``mug`` for ``mug 1``, blank for a blank name."""
    return name.rpartition(" ")[0]
