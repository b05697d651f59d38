"""A scene: the receptacles, objects and goal of a task, written as a game.

A game has the contents of a ``game.tw-pddl`` file: domain, problem, grammar and walkthrough. Scenes
are written like the official files, so both kinds of games have the same rules and the same text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trca.envs.alfworld import resources
from trca.envs.alfworld.resources import GOALS

LAMP = "DeskLamp"
_BASINS = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}
_STATES = (("cleanable", "Cleanable"), ("heatable", "Heatable"), ("coolable", "Coolable"))


@dataclass(frozen=True)
class Scene:
    """A room at the start of a task.

    Attributes:
        name: Name of the problem.
        receptacles: Type of each receptacle.
        objects: Type of each object and the position of its receptacle in ``receptacles``.
        task_type: One of `resources.TASK_TYPES`.
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
        template = resources.instruction_templates(GOALS[self.task_type])[self.wording]
        destination = self.destination.lower()
        return template.format(obj=self.target.lower(), recep=destination, toggle=destination)

    def game(self) -> dict[str, Any]:
        """The game in the form of a ``game.tw-pddl`` file (without a walkthrough)."""
        return {
            "pddl_domain": resources.domain(),
            "grammar": resources.grammar().replace("UNKNOWN GOAL", self.instruction),
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
        goal = resources.goal_pddl(
            GOALS[self.task_type], target=self.target, destination=self.destination, lamp=LAMP
        )
        return "\n".join(
            [
                f"(define (problem {self.name})",
                "(:domain alfred)",
                "(:objects",
                *(f"    {name} - {kind}" for name, kind in declared),
                ")",
                "(:init",
                *(f"    ({fact})" for fact in self._facts(receptacles, objects, places)),
                ")",
                goal,
            ]
        )

    def _facts(
        self, receptacles: list[str], objects: list[str], places: list[str]
    ) -> Iterator[str]:
        object_types = sorted({kind for kind, _ in self.objects})
        for kind in sorted(set(self.receptacles)):
            for held in object_types:
                if held in resources.can_contain(kind):
                    yield f"canContain {kind}Type {held}Type"
        yield "atLocation agent1 loc_bar_0"
        for kind, name, place in zip(self.receptacles, receptacles, places, strict=True):
            yield f"receptacleType {name} {kind}Type"
            yield f"receptacleAtLocation {name} {place}"
            if kind in resources.openable():
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
                if kind in resources.allows(action):
                    yield f"{fact} {name}"
            if kind in resources.allows("Sliceable"):
                yield f"sliceable {name}"
            if kind in resources.movable_receptacles():
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
