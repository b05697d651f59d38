"""Generates games. Size, split, task type, number and seed determine a game.

As in the official data, each kind of room has a fixed set of layouts. The splits train and
valid_seen share layouts; valid_unseen has separate layouts. ``rooms.yaml`` has the rooms. Games are
written like the official files, so both kinds of games have the same rules and the same text.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from trca.common.strict_yaml import packaged
from trca.envs.alfworld.resources import (
    ACTION_OBJECTS,
    DOMAIN,
    GOAL_TEXTS,
    GRAMMAR,
    MOVABLE_RECEPTACLES,
    OPENABLE,
    can_contain,
)

Range = tuple[int, int]
"""The smallest and the largest number."""
Layout = tuple[str, ...]
"""The receptacle types of a room, sorted, one entry per receptacle."""
SPLITS: Final = ("train", "valid_seen", "valid_unseen")
LAMP: Final = "DeskLamp"
_MOST_OF_A_KIND: Final = 3
_APPLIANCE: Final = {
    "Clean": ("SinkBasin", "Cleanable"),
    "Heat": ("Microwave", "Heatable"),
    "Cool": ("Fridge", "Coolable"),
}
_BASINS: Final = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}
_STATES: Final = (("cleanable", "Cleanable"), ("heatable", "Heatable"), ("coolable", "Coolable"))


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


@dataclass(frozen=True)
class Scene:
    """A room at the start of a task.

    Attributes:
        receptacles: Type of each receptacle.
        objects: Type of each object and the position of its receptacle in ``receptacles``.
        target: Type of the object to handle.
        destination: Type of the receptacle to place it in; the lamp for Look.
        wording: Index of the instruction template of the task type.
    """

    name: str
    receptacles: tuple[str, ...]
    objects: tuple[tuple[str, int], ...]
    task_type: str
    target: str
    destination: str
    wording: int

    @property
    def instruction(self) -> str:
        """The task in words, without the final full stop."""
        template: str = GOAL_TEXTS[self.task_type]["templates"][self.wording]
        destination = self.destination.lower()
        return template.format(obj=self.target.lower(), recep=destination, toggle=destination)

    def game(self) -> dict[str, Any]:
        """The game in the form of a ``game.tw-pddl`` file (without a walkthrough)."""
        return {
            "pddl_domain": DOMAIN,
            "grammar": GRAMMAR.replace("UNKNOWN GOAL", self.instruction),
            "pddl_problem": self.problem(),
            "solvable": True,
            "walkthrough": [],
        }

    def problem(self) -> str:
        """The PDDL problem."""
        receptacles = _identifiers(list(self.receptacles))
        objects = _identifiers([kind for kind, _ in self.objects])
        places = [f"loc_bar_{i + 1}" for i in range(len(receptacles))]
        declared = [
            ("agent1", "agent"),
            *((o, "object") for o in objects),
            *((f"{kind}Type", "otype") for kind in sorted({kind for kind, _ in self.objects})),
            # The domain refers to the types of these three appliances.
            *(
                (f"{kind}Type", "rtype")
                for kind in sorted({*self.receptacles, "SinkBasin", "Microwave", "Fridge"})
            ),
            *((r, "receptacle") for r in receptacles),
            *((place, "location") for place in ("loc_bar_0", *places)),
        ]
        goal = GOAL_TEXTS[self.task_type]["pddl"].replace("#", "-")
        goal = goal.format(obj=self.target, recep=self.destination, toggle=LAMP)
        lines = [f"(define (problem {self.name})", "(:domain alfred)", "(:objects"]
        lines += [f"    {name} - {kind}" for name, kind in declared]
        lines += [")", "(:init"]
        lines += [f"    ({fact})" for fact in self._facts(receptacles, objects, places)]
        return "\n".join([*lines, ")", goal])

    def _facts(
        self, receptacles: list[str], objects: list[str], places: list[str]
    ) -> Iterator[str]:
        object_types = sorted({kind for kind, _ in self.objects})
        for kind in sorted(set(self.receptacles)):
            for held in object_types:
                if held in can_contain(kind):
                    yield f"canContain {kind}Type {held}Type"
        yield "atLocation agent1 loc_bar_0"
        for kind, name, place in zip(self.receptacles, receptacles, places, strict=True):
            yield f"receptacleType {name} {kind}Type"
            yield f"receptacleAtLocation {name} {place}"
            if kind in OPENABLE:
                yield f"openable {name}"
        for (kind, at), name in zip(self.objects, objects, strict=True):
            yield f"objectType {name} {kind}Type"
            yield f"inReceptacle {name} {receptacles[at]}"
            yield f"objectAtLocation {name} {places[at]}"
            if kind == LAMP:
                yield f"toggleable {name}"
                continue
            yield f"pickupable {name}"
            for fact, action in _STATES:
                if kind in ACTION_OBJECTS[action]:
                    yield f"{fact} {name}"
            if kind in ACTION_OBJECTS["Sliceable"]:
                yield f"sliceable {name}"
            if kind in MOVABLE_RECEPTACLES:
                yield f"isReceptacleObject {name}"


def _identifiers(kinds: list[str]) -> list[str]:
    """A PDDL name per thing; ``_bar_`` follows the type, as the text engine expects."""
    counts: Counter[str] = Counter()
    names = []
    for kind in kinds:
        counts[kind] += 1
        base = _BASINS.get(kind, kind)
        suffix = f"_bar_{kind}" if kind in _BASINS else ""
        names.append(f"{base}_bar_{counts[kind]:02d}{suffix}")
    return names


def draw(size: str, split: str, task_type: str, number: int, seed: int = 0) -> Scene:
    """The scene of one task; ``number`` counts within its split and type, from 0.

    Equal arguments give equal scenes on every machine.
    """
    rng = random.Random(f"{size}/{seed}/{split}/{task_type}/{number}")
    kinds = [name for name, room in SIZES[size].rooms.items() if task_type in room.task_types]
    while True:
        kind = rng.choice(kinds)
        room = SIZES[size].rooms[kind]
        train, unseen = layouts(size, kind)
        layout = rng.choice(unseen if split == "valid_unseen" else train)
        goals = _goals(room, layout, task_type)
        if goals:
            break
    destination = rng.choice(sorted(goals))
    target = rng.choice(goals[destination])
    return Scene(
        name=f"{size}_{seed}_{split}_{task_type}_{number:04d}".lower(),
        receptacles=layout,
        objects=_furnish(rng, room, layout, task_type, target, destination),
        task_type=task_type,
        target=target,
        destination=destination,
        wording=rng.randrange(len(GOAL_TEXTS[task_type]["templates"])),
    )


@cache
def layouts(size: str, kind: str) -> tuple[tuple[Layout, ...], tuple[Layout, ...]]:
    """The distinct layouts of a kind of room: (layouts of train, layouts of valid_unseen)."""
    room = SIZES[size].rooms[kind]
    train, unseen = SIZES[size].layouts
    rng = random.Random(f"{size}/{kind}")
    low, high = room.receptacles
    drawn: dict[Layout, None] = {}
    while len(drawn) < train + unseen:
        counts = {name: rng.randint(*bounds) for name, bounds in room.furniture.items()}
        layout = tuple(sorted(Counter(counts).elements()))
        if low <= len(layout) <= high:
            drawn[layout] = None
    return tuple(drawn)[:train], tuple(drawn)[train:]


def _goals(room: Room, layout: Layout, task_type: str) -> dict[str, list[str]]:
    """Destination -> targets for a task that is solvable and not solved at the start."""
    if task_type == "Look":
        return {LAMP: [kind for kind in room.kinds if _homes(layout, kind)]}
    appliance, action = _APPLIANCE.get(task_type, ("", ""))
    if appliance and appliance not in layout:
        return {}
    goals = {}
    for destination in sorted({*layout} - {appliance, *_BASINS}):
        targets = [
            kind
            for kind in room.kinds
            if kind in can_contain(destination)
            and (not action or kind in ACTION_OBJECTS[action])
            and any(layout[at] != destination for at in _homes(layout, kind))
        ]
        if targets:
            goals[destination] = targets
    return goals


def _homes(layout: Layout, kind: str) -> list[int]:
    return [at for at, receptacle in enumerate(layout) if kind in can_contain(receptacle)]


def _spot(rng: random.Random, layout: Layout, homes: list[int]) -> int:
    """A random position. Open receptacles are twice as likely, as in the official rooms."""
    weights = [1 if layout[at] in OPENABLE else 2 for at in homes]
    return rng.choices(homes, weights)[0]


def _furnish(
    rng: random.Random, room: Room, layout: Layout, task_type: str, target: str, destination: str
) -> tuple[tuple[str, int], ...]:
    """Places the targets (never at the destination), the distractors and the lamp."""
    count = rng.randint(*room.objects)
    copies = (2 if task_type == "Pick2" else 1) + (rng.random() < 0.25)
    homes = [at for at in _homes(layout, target) if layout[at] != destination]
    objects = [(target, _spot(rng, layout, homes)) for _ in range(copies)]
    distractors = {
        kind: homes_of_kind
        for kind in room.kinds
        if kind != target and (homes_of_kind := _homes(layout, kind))
    }
    for _ in range(count - copies):
        kind = rng.choice(sorted(distractors))
        objects.append((kind, _spot(rng, layout, distractors[kind])))
        if sum(placed == kind for placed, _ in objects) == _MOST_OF_A_KIND:
            del distractors[kind]
    if room.lamp or task_type == "Look":
        tables = ("Desk", "SideTable", "Dresser", "CounterTop")
        objects.append((LAMP, rng.choice([at for at, r in enumerate(layout) if r in tables])))
    rng.shuffle(objects)
    return tuple(objects)
