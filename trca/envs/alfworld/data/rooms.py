"""The rooms of generated games: furniture and objects, by size.

The large size follows the counts of the official training rooms; medium and small are reduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Counts = Mapping[str, tuple[int, int]]
"""Receptacle type -> smallest and largest number in a room."""


@dataclass(frozen=True)
class Room:
    """One kind of room at one size.

    Attributes:
        furniture: Range of the number of each receptacle type.
        receptacles: Smallest and largest number of receptacles in total.
        kinds: The object types in the room.
        objects: Smallest and largest number of objects, with targets and without the lamp.
        task_types: Default task types for this room.
        lamp: Whether the room always has a desk lamp.
    """

    furniture: Counts
    receptacles: tuple[int, int]
    kinds: tuple[str, ...]
    objects: tuple[int, int]
    task_types: tuple[str, ...]
    lamp: bool = False


@dataclass(frozen=True)
class Size:
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


_ALL: Final = ("Pick", "Look", "Clean", "Heat", "Cool", "Pick2")
_KITCHEN_TASKS: Final = ("Pick", "Clean", "Heat", "Cool", "Pick2")
_LIVING_TASKS: Final = ("Pick", "Look", "Pick2")
_BATH_TASKS: Final = ("Pick", "Clean", "Pick2")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SMALL_OBJECTS: Final = _names("Apple Bowl Cup Egg Mug Plate Potato Tomato")
_KITCHEN_OBJECTS: Final = _names(
    "Apple Bowl Bread ButterKnife Cup DishSponge Egg Fork Glassbottle Kettle Knife Ladle"
    " Lettuce Mug Pan PepperShaker Plate Pot Potato SaltShaker SoapBottle Spatula Spoon Tomato"
    " WineBottle"
)
_LIVING_OBJECTS: Final = _names(
    "Book Bowl Box Candle CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil Pillow"
    " Plate RemoteControl Statue TissueBox Vase Watch WateringCan"
)
_BED_OBJECTS: Final = _names(
    "AlarmClock Book Bowl Box CD CellPhone CreditCard KeyChain Laptop Mug Pen Pencil Pillow"
    " RemoteControl Statue TissueBox Vase Watch"
)
_BATH_OBJECTS: Final = _names(
    "Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Towel"
)


def _furniture(text: str) -> dict[str, tuple[int, int]]:
    """Parses ``Cabinet 1-4, Fridge 1``."""
    counts = {}
    for item in text.split(","):
        kind, _, count = item.strip().partition(" ")
        low, _, high = count.partition("-")
        counts[kind] = (int(low), int(high or low))
    return counts


SMALL: Final = Size(
    rooms={
        "kitchen": Room(
            _furniture(
                "Fridge 1, Microwave 1, SinkBasin 1, CounterTop 1-2, Cabinet 1-2, DiningTable 0-1,"
                " Shelf 0-1, GarbageCan 0-1"
            ),
            (6, 7),
            _SMALL_OBJECTS,
            (3, 5),
            _ALL,
        )
    },
    layouts=(12, 3),
    task_types=("Pick", "Clean", "Heat", "Cool"),
    tasks={"train": 128, "valid_seen": 64, "valid_unseen": 64},
)

MEDIUM: Final = Size(
    rooms={
        "kitchen": Room(
            _furniture(
                "Fridge 1, Microwave 1, SinkBasin 1, CounterTop 1-2, Cabinet 2-4, Drawer 1-3,"
                " DiningTable 0-1, StoveBurner 0-2, CoffeeMachine 0-1, Shelf 0-2, GarbageCan 1,"
                " SideTable 0-1"
            ),
            (11, 13),
            _KITCHEN_OBJECTS,
            (10, 14),
            _KITCHEN_TASKS,
        ),
        "livingroom": Room(
            _furniture(
                "Sofa 1, ArmChair 1-2, CoffeeTable 1, SideTable 1-2, Drawer 1-4, Shelf 0-2,"
                " GarbageCan 1, DiningTable 0-1, Dresser 0-1, Cabinet 0-2, Ottoman 0-1"
            ),
            (10, 13),
            _LIVING_OBJECTS,
            (10, 14),
            _LIVING_TASKS,
            lamp=True,
        ),
        "bedroom": Room(
            _furniture(
                "Bed 1, Desk 1-2, SideTable 0-2, Dresser 0-1, Drawer 2-5, Shelf 0-3, GarbageCan 1,"
                " ArmChair 0-1, Safe 0-1"
            ),
            (10, 13),
            _BED_OBJECTS,
            (10, 14),
            _LIVING_TASKS,
            lamp=True,
        ),
        "bathroom": Room(
            _furniture(
                "SinkBasin 1-2, Toilet 1, CounterTop 1, Cabinet 0-4, Drawer 0-3, Shelf 0-2,"
                " HandTowelHolder 1, TowelHolder 1, ToiletPaperHanger 1, BathtubBasin 0-1,"
                " GarbageCan 1, Cart 0-1"
            ),
            (10, 13),
            _BATH_OBJECTS,
            (10, 14),
            _BATH_TASKS,
        ),
    },
    layouts=(24, 6),
    task_types=_ALL,
    tasks={"train": 768, "valid_seen": 132, "valid_unseen": 132},
)

LARGE: Final = Size(
    rooms={
        "kitchen": Room(
            _furniture(
                "Fridge 1, Microwave 1, SinkBasin 1-2, CounterTop 1-4, Cabinet 6-14, Drawer 3-9,"
                " DiningTable 0-1, StoveBurner 2-4, CoffeeMachine 1, Toaster 1, Shelf 0-3,"
                " GarbageCan 1, SideTable 0-1"
            ),
            (22, 34),
            _KITCHEN_OBJECTS,
            (38, 52),
            _KITCHEN_TASKS,
        ),
        "livingroom": Room(
            _furniture(
                "Sofa 1-2, ArmChair 1-3, CoffeeTable 1-2, SideTable 1-3, Drawer 1-7, Shelf 0-5,"
                " GarbageCan 1, DiningTable 0-1, Dresser 0-1, Cabinet 0-4, TVStand 0-1,"
                " Ottoman 0-2, Safe 0-1"
            ),
            (12, 20),
            _LIVING_OBJECTS,
            (14, 28),
            _LIVING_TASKS,
            lamp=True,
        ),
        "bedroom": Room(
            _furniture(
                "Bed 1-2, Desk 1-2, SideTable 0-3, Dresser 0-1, Drawer 2-8, Shelf 1-5,"
                " GarbageCan 1, ArmChair 0-2, LaundryHamper 0-1, Safe 0-1, Cabinet 0-3"
            ),
            (12, 20),
            _BED_OBJECTS,
            (14, 28),
            _LIVING_TASKS,
            lamp=True,
        ),
        "bathroom": Room(
            _furniture(
                "SinkBasin 1-2, Toilet 1-2, CounterTop 1-2, Cabinet 0-6, Drawer 0-6, Shelf 0-3,"
                " HandTowelHolder 1-2, TowelHolder 1-2, ToiletPaperHanger 1-2, BathtubBasin 0-1,"
                " GarbageCan 1-2, Cart 0-1"
            ),
            (13, 19),
            _BATH_OBJECTS,
            (14, 22),
            _BATH_TASKS,
        ),
    },
    layouts=(24, 6),
    task_types=_ALL,
    tasks={"train": 3072, "valid_seen": 138, "valid_unseen": 138},
)

SIZES: Final[Mapping[str, Size]] = {"small": SMALL, "medium": MEDIUM, "large": LARGE}
