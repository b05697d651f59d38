"""`CookingAdapter`: facts, context and memory line from instruction, observations and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args

from trca.envs import Adapter
from trca.envs.adapter import memory_line_of
from trca_textworld_express.facts import Binding, Facts, Verb
from trca_textworld_express.reading import (
    APPLIANCES,
    CUTS,
    HEATS,
    HOME,
    KNIFE,
    MEAL,
    Page,
    read_page,
    read_recipe,
    recipe_place,
    refused,
)

_VERBS: Final = frozenset(get_args(Verb))
_MEALS: Final[Mapping[tuple[str, str], Literal["prepared", "eaten"]]] = {
    ("prepare", MEAL): "prepared",
    ("eat", MEAL): "eaten",
}
_RESULTS: Final = {result: verb for verb, result in (CUTS | HEATS).items()}


class CookingAdapter(Adapter):
    """Follows an episode of CookingWorld. Score, valid actions and gold actions never reach it.

    Attributes:
        page: The last page.
        recipe: The ingredients of the recipe with their required states; empty until it is read.
        places: Things that the agent has seen and does not hold, with the room.
        exits: Directions of each visited room, with the room behind; empty text for a closed door.
        opened: Containers and doors that the agent has opened, with their room.
        last: The last action; with ``refused`` at the end if it was not carried out.
        steps: Number of steps of the episode.
    """

    facts_type, binding_type = Facts, Binding
    facts: Facts
    binding: Binding
    page: Page

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        self.binding = Binding(*recipe_place(instruction))
        self.page = read_page(observation)
        self.recipe: dict[str, tuple[str, ...]] = {}
        self.places: dict[str, str] = {}
        self.exits: dict[str, dict[str, str]] = {}
        self.opened: set[tuple[str, str]] = set()
        self.last, self.steps = "", 0
        self._fixtures: dict[str, str] = {}
        self._states: dict[str, tuple[str, ...]] = {}
        self._held: set[str] = set()
        self._read: set[str] = set()
        self._past = set()
        self._remember()
        self._repeats(self._knowledge)
        self.facts = Facts()

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> Facts:
        before, page = self.page, read_page(observation)
        verb, thing = _verb(action), action.partition(" ")[2]
        accepted = bool(action.strip()) and not refused(page.answer)
        rooms, opened = set(self.exits), set(self.opened)
        seen, held, recipe = self._seen, set(self._held), self.recipe
        self.page, self.last = page, action if accepted else f"{action} refused"
        self.steps += 1
        read = verb in ("read", "examine") and accepted and read_recipe(page.answer)
        first = thing if read and thing not in self._read else ""
        if read:
            self.recipe = read
            self._read.add(thing)
        if verb == "open" and accepted:
            self.opened.add((before.room, thing))
        self._remember()
        new = self._seen - seen
        name = thing.partition(" in ")[0] if verb == "cook" else thing
        prepared = accepted and (verb in CUTS or verb == "cook")
        change = set(page.inventory.get(name, ())) - set(before.inventory.get(name, ()))
        asked = bool(change & set(recipe.get(name, ())))
        self.facts = Facts(
            verb=verb,
            accepted=accepted,
            repeated=self._repeats(self._knowledge),
            new_room=page.room not in rooms,
            opened=self.opened != opened,
            read=first,
            found=tuple(each for each in recipe if each in new),
            found_tools=tuple(each for each in self.tools if each in new),
            taken=tuple(each for each in recipe if each in self._held - held),
            knife_taken=KNIFE in self.tools and KNIFE in self._held - held,
            cut=name if prepared and verb in CUTS and asked else "",
            cooked=name if prepared and verb == "cook" and asked else "",
            unasked=(prepared and not asked) or (verb == "eat" and accepted and thing != MEAL),
            meal=_MEALS.get((verb, thing), "") if accepted else "",
        )
        return self.facts

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that the recipe needs: the knife and appliances."""
        results = {result for each in self.recipe.values() for result in each}
        knife = (KNIFE,) if results & set(CUTS.values()) else ()
        return (
            *knife,
            *(each for result in sorted(results) for each in APPLIANCES.get(result, ())),
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """What the agent needs and does not hold: ingredients, and the knife if a cut is to do."""
        knife = (KNIFE,) if any(verb in CUTS for verb, _ in self.directions) else ()
        return tuple(each for each in (*self.recipe, *knife) if each not in self.page.inventory)

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """The directions of the recipe that are still to do, such as ``("chop", "carrot")``."""
        return tuple(
            (_RESULTS[result], name)
            for name, required in self.recipe.items()
            for result in required
            if result not in self._states.get(name, ())
        )

    def room_of(self, names: Sequence[str]) -> str:
        """The room where the agent has seen one of some fixtures; empty for none."""
        return next((self._fixtures[name] for name in names if name in self._fixtures), "")

    def way(self, aim: str = HOME) -> str:
        """The first direction of a shortest known way to a room; empty if there is none.

        With an empty ``aim`` the way leads to an exit that the agent has not used.
        """
        first = {self.page.room: ""}
        queue = [self.page.room]
        for room in queue:
            for direction, behind in self.exits.get(room, {}).items():
                step = first[room] or direction
                if behind == aim or (not aim and behind not in self.exits):
                    return step
                if behind and behind not in first:
                    first[behind] = step
                    queue.append(behind)
        return ""

    @property
    def memory(self) -> str:
        """What is to do, the room, its things, containers and exits, the inventory, last action."""
        page = self.page
        if MEAL in page.inventory:
            task = ["eat meal."]
        elif self.recipe:
            places = self.places
            get = [f"{n} in {places[n]}" if n in places else n for n in self.missing]
            do = [" ".join(direction) for direction in self.directions]
            task = [f"get {', '.join(get)}."] if get else []
            task += [f"do {', '.join(do)}."] if do else []
            task += [] if get or do else ["prepare meal."]
        else:
            task = [f"read {self.binding.book or 'recipe'}."]
        appliances = [f for f in page.fixtures if any(f in each for each in APPLIANCES.values())]
        exits = ", ".join(
            f"{each} {room or 'closed'}{'' if room in self.exits else ' new'}"
            for each, room in page.exits.items()
        )
        parts = [
            f"in {page.room}.",
            f"see {', '.join([*page.things, *appliances]) or 'nothing'}.",
            *([f"closed {', '.join(page.closed)}."] if page.closed else []),
            f"exits {exits or 'none'}.",
            *([f"{HOME} {self.way()}."] if page.room != HOME and self.way() else []),
            f"hold {', '.join(page.inventory) or 'nothing'}.",
            f"last {self.last or 'nothing'}.",
        ]
        return memory_line_of([*task, *parts])

    @property
    def context(self) -> str:
        """The key of the state, by its role in the task: ``kitchen|read|found 2|held 1|done 0``."""
        held = sum(each in self.page.inventory for each in self.recipe)
        found = sum(each in self._seen for each in self.recipe)
        knife = KNIFE in self.page.inventory
        stage = "meal" if MEAL in self.page.inventory else "read" if self.recipe else "unread"
        counts = f"found {found}|held {held}|do {len(self.directions)}|knife {knife:d}"
        return f"{self.page.room}|{stage}|{counts}|rooms {len(self.exits)}|open {len(self.opened)}"

    def _remember(self) -> None:
        page = self.page
        self.places = {n: r for n, r in self.places.items() if r != page.room}
        self.places |= dict.fromkeys(page.things, page.room)
        self.places = {n: r for n, r in self.places.items() if n not in page.inventory}
        self.exits[page.room] = dict(page.exits)
        self._fixtures |= dict.fromkeys(page.fixtures, page.room)
        self._states |= {**page.things, **page.inventory}
        self._held.update(page.inventory)

    @property
    def _seen(self) -> set[str]:
        return {*self.places, *self._held, *self._fixtures}

    @property
    def _knowledge(self) -> object:
        """Everything that the agent knows; equal for equal knowledge."""
        page = self.page
        exits = tuple((room, *sorted(each.items())) for room, each in sorted(self.exits.items()))
        things = (tuple(sorted(page.inventory.items())), tuple(sorted(self.places.items())))
        opened = tuple(sorted(self.opened))
        return page.room, page.closed, exits, things, opened, tuple(sorted(self._read))


def _verb(action: str) -> Verb:
    verb = (action.split() or [""])[0]
    return verb if verb in _VERBS else "other"  # type: ignore[return-value]
