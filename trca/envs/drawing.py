"""Drawings of recorded turns, which ``trca view`` shows: plain data, without HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypedDict

from trca.envs.adapter import Adapter

Turn = tuple[str, str]
"""An action and the observation after it. The first turn of an episode has an empty action."""


class Cell(TypedDict, total=False):
    """A named box. Every key is optional.

    Attributes:
        name: The heading, such as ``fridge 1``.
        note: A few words next to the heading, such as ``closed``.
        lines: Lines of text.
        items: Things in the cell, or choices.
        chosen: The highlighted items.
        mark: ``here`` for the place of the agent, ``faint`` for an unknown or less important cell.
        wide: Whether the cell has a row for itself.
    """

    name: str
    note: str
    lines: Sequence[str]
    items: Sequence[str]
    chosen: Sequence[str]
    mark: Literal["", "here", "faint"]
    wide: bool


Drawing = Sequence[Cell]
"""The cells of a turn, in reading order."""

_TEXT: Final = ("a string", lambda value: isinstance(value, str))
_TEXTS: Final = (
    "a list of strings",
    lambda value: isinstance(value, list | tuple) and all(isinstance(v, str) for v in value),
)
_VALUES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    **dict.fromkeys(("name", "note"), _TEXT),
    **dict.fromkeys(("lines", "items", "chosen"), _TEXTS),
    "mark": ("here, faint or an empty string", lambda value: value in ("", "here", "faint")),
    "wide": ("True or False", lambda value: isinstance(value, bool)),
}


def drawings_of(env_class: Any, instruction: str, turns: Sequence[Turn]) -> list[list[Cell]]:
    """Calls `TextEnv.draw_turns` and checks its result; empty for an environment without drawings.

    Raises:
        ValueError: If the result is not a drawing for each turn. The message names the part.
        Exception: The errors of the environment.
    """
    draw = getattr(env_class, "draw_turns", None)
    drawings = [list(cells) for cells in draw(instruction, turns)] if draw else []
    if len(drawings) not in (0, len(turns)):
        raise ValueError(f"{len(drawings)} drawings for {len(turns)} turns: return one for each")
    for cell in (cell for cells in drawings for cell in cells):
        for name, value in cell.items():
            if name not in _VALUES:
                raise ValueError(f"a cell has the key {name!r}: choose from {', '.join(_VALUES)}")
            expected, fits = _VALUES[name]
            if not fits(value):
                raise ValueError(f"{name} of a cell is {value!r:.80}: give {expected}")
    return drawings


def followed(
    adapter: Adapter,
    instruction: str,
    turns: Sequence[Turn],
    admissible: Callable[[str], Sequence[str]] = lambda observation: (),
) -> Iterator[None]:
    """Leads an adapter through recorded turns, and yields after each.

    ``admissible`` reads admissible actions, which are not recorded, from an observation.
    """
    for number, (action, observation) in enumerate(turns):
        if number:
            adapter.step(action, observation, admissible(observation))
        else:
            adapter.reset(instruction, observation, admissible(observation))
        yield
