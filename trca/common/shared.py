"""Copies of environments: objects that copies share, and objects that cannot be copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self, SupportsIndex, TypeVar

Made = TypeVar("Made")
Item = TypeVar("Item")


class Shared:
    """An immutable object of a process, such as a catalogue or an index.

    A deep copy is the object itself. A pickle of a `named` object holds the call that makes the
    object; a pickle of any other object holds its content.
    """

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return getattr(self, "_call", None) or super().__reduce_ex__(protocol)


class Uncopied:
    """An object with a process or a connection, which a copy cannot have."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} has a process or a connection and cannot be copied: make"
            " another environment, reset it to the same task and repeat the actions"
        )


class SharedTuple(Shared, tuple[Item, ...]):
    """A long tuple that copies share."""


def named(made: Made, function: Callable[..., Made], *arguments: Any) -> Made:
    """Returns an object whose pickle holds the call that makes it, ``function(*arguments)``.

    Pickle can import the function; its cache shares the object within a process. A path among the
    arguments is absolute, since another process may run elsewhere.
    """
    vars(made)["_call"] = function, arguments
    return made
