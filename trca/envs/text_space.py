"""`AnyText`: the space of all strings."""

from __future__ import annotations

import copy
from typing import Any

from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Text
from gymnasium.vector.utils import create_shared_memory


class AnyText(Text):
    """A `Text` space that contains every string. Samples are short and printable ASCII."""

    def __init__(self) -> None:
        super().__init__(max_length=64, min_length=0)

    def __repr__(self) -> str:
        return "AnyText()"

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a string, of any length and with any characters."""
        return isinstance(x, str)

    def __deepcopy__(self, memo: dict[int, Any]) -> AnyText:
        copied = copy.copy(self)  # the characters of samples are immutable
        copied._np_random = copy.deepcopy(self._np_random, memo)
        return copied


@create_shared_memory.register(AnyText)
def _refuse(space: AnyText, n: int = 1, ctx: Any = None) -> None:
    """Gymnasium's `AsyncVectorEnv` then names its option: shared memory has a fixed size."""
    raise CustomSpaceError("texts of any length do not fit into shared memory")
