"""The rooms of generated games: furniture and objects by size, from ``rooms.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, TypeAdapter

from trca.common.strict_yaml import packaged

Range = tuple[int, int]
"""The smallest and the largest number."""


class Room(BaseModel, frozen=True):
    """One kind of room at one size.

    Attributes:
        furniture: Number of each receptacle type.
        receptacles: Number of receptacles in total.
        kinds: The object types in the room.
        objects: Number of objects, with targets and without the lamp.
        task_types: Default task types for this room.
        lamp: Whether the room always has a desk lamp.
    """

    furniture: Mapping[str, Range]
    receptacles: Range
    kinds: tuple[str, ...]
    objects: Range
    task_types: tuple[str, ...]
    lamp: bool = False


class Size(BaseModel, frozen=True):
    """A family of generated games.

    Attributes:
        rooms: The kinds of rooms by name.
        layouts: Number of layouts per kind of room: for train and valid_seen, and for valid_unseen.
        task_types: Default task types of a panel.
        tasks: Default number of tasks per split.
    """

    rooms: Mapping[str, Room]
    layouts: tuple[int, int]
    task_types: tuple[str, ...]
    tasks: Mapping[str, int]


SIZES: Final = TypeAdapter(dict[str, Size]).validate_python(packaged(__package__, "rooms.yaml"))
