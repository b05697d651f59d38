"""Generates scenes. Size, split, task type, number and seed determine a scene.

For example::

    scene = draw("small", "train", "Heat", 12)
    game = scene.game()  # the contents of a game.tw-pddl file

As in the official data, each kind of room has a fixed set of layouts. The splits train and
valid_seen share layouts; valid_unseen has separate layouts.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Final

from trca.envs.alfworld import resources
from trca.envs.alfworld.data.rooms import SIZES, Room
from trca.envs.alfworld.data.scene import LAMP, Scene
from trca.envs.alfworld.resources import GOALS

SPLITS: Final = ("train", "valid_seen", "valid_unseen")
_MOST_OF_A_KIND: Final = 3
_APPLIANCE: Final = {
    "Clean": ("SinkBasin", "Cleanable"),
    "Heat": ("Microwave", "Heatable"),
    "Cool": ("Fridge", "Coolable"),
}
_BASINS: Final = ("SinkBasin", "BathtubBasin")


def draw(size: str, split: str, task_type: str, number: int, seed: int = 0) -> Scene:
    """The scene of one task. Equal arguments give equal scenes on every machine.

    Args:
        size: One of `rooms.SIZES`.
        split: One of `SPLITS`.
        task_type: One of `resources.TASK_TYPES`.
        number: Number of the task within its split and type, from 0.
        seed: Each seed gives a different set of scenes.
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
        objects=_furnish(
            rng, room, layout, task_type, target, destination, rng.randint(*room.objects)
        ),
        task_type=task_type,
        target=target,
        destination=destination,
        wording=rng.randrange(len(resources.instruction_templates(GOALS[task_type]))),
    )


@cache
def layouts(
    size: str, kind: str
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """The distinct layouts of a kind of room: (layouts of train, layouts of valid_unseen).

    A layout is a sorted tuple of receptacle types, one entry per receptacle.
    """
    room = SIZES[size].rooms[kind]
    train, unseen = SIZES[size].layouts
    rng = random.Random(f"{size}/{kind}")
    low, high = room.receptacles
    drawn: dict[tuple[str, ...], None] = {}
    while len(drawn) < train + unseen:
        counts = {name: rng.randint(*bounds) for name, bounds in room.furniture.items()}
        layout = tuple(sorted(Counter(counts).elements()))
        if low <= len(layout) <= high:
            drawn[layout] = None
    return tuple(drawn)[:train], tuple(drawn)[train:]


def _goals(room: Room, layout: tuple[str, ...], task_type: str) -> dict[str, list[str]]:
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
            if kind in resources.can_contain(destination)
            and (not action or kind in resources.allows(action))
            and any(layout[at] != destination for at in _homes(layout, kind))
        ]
        if targets:
            goals[destination] = targets
    return goals


def _homes(layout: tuple[str, ...], kind: str) -> list[int]:
    """The positions of the receptacles that may hold objects of a type."""
    return [at for at, receptacle in enumerate(layout) if kind in resources.can_contain(receptacle)]


def _spot(rng: random.Random, layout: tuple[str, ...], homes: list[int]) -> int:
    """A random position. Open receptacles are twice as likely, as in the official rooms."""
    weights = [1 if layout[at] in resources.openable() else 2 for at in homes]
    return rng.choices(homes, weights)[0]


def _furnish(
    rng: random.Random,
    room: Room,
    layout: tuple[str, ...],
    task_type: str,
    target: str,
    destination: str,
    count: int,
) -> tuple[tuple[str, int], ...]:
    """Places the targets (never at the destination), the distractors and the lamp."""
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
        open_places = [
            at
            for at, receptacle in enumerate(layout)
            if receptacle in ("Desk", "SideTable", "Dresser", "CounterTop")
        ]
        objects.append((LAMP, rng.choice(open_places)))
    rng.shuffle(objects)
    return tuple(objects)
