"""The adapter of ALFWorld (the paper's g_b): facts, context and memory line of an episode.

All of them come from the agent's actions, the observations and the admissible actions (Appendix
A.4). There is no field for success, score, unobserved state or the future.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import ClassVar, Final

from trca.envs.adapter import Adapter, memory_line_of
from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import ALFWorldBinding, State, bind
from trca.envs.alfworld.pages import REJECTED
from trca.envs.alfworld.reading import Action, Verb, kind, read_action, things

_TASK: Final = "Your task is to:"


@dataclass(frozen=True, slots=True)
class ALFWorldFacts:
    """Facts of one transition.

    Types are words such as ``mug``, not instances such as ``mug 1``. A type that the task does not
    name is ``other`` in a field with one type, and left out of lists: no operator needs it, and
    transitions with the same meaning for the task get equal facts.

    Attributes:
        parsed: Whether the response contained a readable action.
        verb: The verb of the action.
        available: Whether everything that the action names is known to be within reach: in hand, at
            the agent's place, or (for ``goto``) in the room.
        accepted: Whether the environment carried out the action.
        repeated: Whether the agent's knowledge (place, hand, open receptacles, states, positions
            and everything seen) now equals its knowledge at an earlier time of the episode.
        object_type: Type of the object in the action.
        receptacle_type: Type of the receptacle in the action.
        object_states: Known states of the action's object after the transition.
        gained_states: States in ``object_states`` that were unknown before the transition.
        new_objects: Types of the objects seen for the first time.
        new_places: Types of the receptacles visited for the first time.
        searched: Whether the contents of a receptacle were seen for the first time.
        located: Types of the objects with a known receptacle before the transition.
        held_type: Type of the object in hand after the transition.
        held_states: Known states of the object in hand.
        place_type: Type of the receptacle at the agent's place after the transition.
        lamps: Types of the lamps known to be at the agent's place.
        lit: Types of the lamps in ``lamps`` that are on.
        alike_there: After a ``move``: number of known objects of the moved type in the receptacle.
        alike_elsewhere: After a ``move``: largest number of known objects of the moved type in
            another receptacle of the same type.
    """

    parsed: bool = True
    verb: Verb = ""
    available: bool = False
    accepted: bool = False
    repeated: bool = False
    object_type: str = ""
    receptacle_type: str = ""
    object_states: tuple[State, ...] = ()
    gained_states: tuple[State, ...] = ()
    new_objects: tuple[str, ...] = ()
    new_places: tuple[str, ...] = ()
    searched: bool = False
    located: tuple[str, ...] = ()
    held_type: str = ""
    held_states: tuple[State, ...] = ()
    place_type: str = ""
    lamps: tuple[str, ...] = ()
    lit: tuple[str, ...] = ()
    alike_there: int = 0
    alike_elsewhere: int = 0


class ALFWorldAdapter(Adapter):
    """Follows an ALFWorld episode; see `Adapter`."""

    facts_type: ClassVar[type[ALFWorldFacts]] = ALFWorldFacts
    binding_type: ClassVar[type[ALFWorldBinding]] = ALFWorldBinding
    binding: ALFWorldBinding
    facts: ALFWorldFacts
    beliefs: Beliefs

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        """Starts an episode. The first observation lists the receptacles of the room."""
        task = self.binding = bind(instruction)
        self._words = frozenset((task.target, task.appliance, task.destination, task.lamp, ""))
        self.facts = ALFWorldFacts()
        self.beliefs = Beliefs(things(observation.partition(_TASK)[0]))
        self._past = {self.beliefs.snapshot()}

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> ALFWorldFacts:
        """Reads one transition and returns its facts."""
        beliefs = self.beliefs
        read = read_action(action)
        accepted = observation.strip() != REJECTED
        available = beliefs.within_reach(read)
        located = tuple(
            sort for sort in (self.binding.target, self.binding.lamp) if beliefs.located(sort)
        )
        states_before = beliefs.states.get(read.object, ())
        seen, visited = len(beliefs.first_seen), len(beliefs.visited)
        searched = len(beliefs.searched)
        if accepted:
            beliefs.update(read, observation, admissible)
        states = beliefs.states.get(read.object, ())
        lamps = [lamp for lamp, at in beliefs.located(self.binding.lamp) if at in beliefs.here]
        lit = any("on" in beliefs.states.get(lamp, ()) for lamp in lamps)
        there, elsewhere = _alike(beliefs, read) if read.verb == "move" and accepted else (0, 0)
        self.facts = ALFWorldFacts(
            parsed=action.strip() != "",
            verb=read.verb,
            available=available,
            accepted=accepted,
            repeated=self._repeats(beliefs.snapshot()),
            object_type=self._type(read.object),
            receptacle_type=self._type(read.receptacle),
            object_states=states,
            gained_states=tuple(s for s in states if s not in states_before),
            new_objects=self._types(islice(beliefs.first_seen, seen, None)),
            new_places=self._types(islice(beliefs.visited, visited, None)),
            searched=len(beliefs.searched) > searched,
            located=located,
            held_type=self._type(beliefs.held),
            held_states=beliefs.states.get(beliefs.held, ()),
            place_type=self._type(beliefs.place),
            lamps=(self.binding.lamp,) if lamps else (),
            lit=(self.binding.lamp,) if lit else (),
            alike_there=there,
            alike_elsewhere=elsewhere,
        )
        return self.facts

    @property
    def context(self) -> str:
        """The key of the current state, such as ``other closed|nothing|found 0|placed 0|known 1``.

        The fields are those of the paper's table of context information: object location
        (``place``, ``found``), inventory and object state (``held``), satisfied task predicates
        (``placed``) and interaction stage (``known``). The key is coarse on purpose: a context
        group has few rollouts of one task, and normalisation amplifies the noise of small groups.
        Therefore a place enters by its role in the task, not by its name.
        ``benchmarks/rubric_quality.py`` measures the benefit of a finer key.

        Fields:
            place: ``start``; ``source`` where an unplaced target is; ``goal`` at a destination or
                by the lamp; ``appliance`` at the receptacle for the required state; else
                ``other``. ``closed`` follows if the receptacle is closed.
            held: ``nothing``, ``other``, or ``target`` with ``ready`` or ``raw`` for its state.
            found: Whether the receptacle of an unplaced target is known (1 or 0).
            placed: Number of targets placed as required; for a lamp, whether the lamp is on.
            known: Number of known places among those that the task needs.
        """
        binding, beliefs = self.binding, self.beliefs
        target, goal = binding.target, binding.destination

        def ready(thing: str) -> bool:
            return not binding.state or binding.state in beliefs.states.get(thing, ())

        waiting: set[str] = set()
        placed = 0
        lamp_seen = lamp_here = False
        for thing, spot in beliefs.located(target):
            if kind(spot) == goal and ready(thing):
                placed += 1
            else:
                waiting.add(spot)
        for lamp, spot in beliefs.located(binding.lamp):
            lamp_seen = True
            lamp_here = lamp_here or spot in beliefs.here
            placed += "on" in beliefs.states.get(lamp, ())
        place_type = kind(beliefs.place)
        if not beliefs.place:
            place = "start"
        elif not waiting.isdisjoint(beliefs.here):
            place = "source"
        elif place_type == goal or lamp_here:
            place = "goal"
        elif place_type == binding.appliance:
            place = "appliance"
        else:
            place = "other"
        if beliefs.place in beliefs.closed:
            place += " closed"
        if not beliefs.held:
            held = "nothing"
        elif kind(beliefs.held) != target:
            held = "other"
        else:
            held = "target ready" if ready(beliefs.held) else "target raw"
        sorts = {kind(visited) for visited in beliefs.visited}
        known_places = (goal in sorts or lamp_seen) + (binding.appliance in sorts)
        return f"{place}|{held}|found {min(len(waiting), 1)}|placed {placed}|known {known_places}"

    @property
    def memory(self) -> str:
        """One short line for a reader without memory.

        Example: ``At shelf 1. Holding mug 1 (clean). Seen mug 2 in desk 1. Checked drawer 1 2, desk
        1.`` The last sentence has the receptacles with observed contents, in order of first sight.
        """
        binding, beliefs = self.binding, self.beliefs

        def described(thing: str) -> str:
            states = beliefs.states.get(thing)
            return f"{thing} ({', '.join(states)})" if states else thing

        parts = [f"At {beliefs.place}." if beliefs.place else "At start."]
        parts.append(f"Holding {described(beliefs.held) or 'nothing'}.")
        seen = [
            f"{described(thing)} in {spot}"
            for sort in (binding.target, binding.lamp)
            for thing, spot in beliefs.located(sort)
        ]
        if seen:
            parts.append(f"Seen {', '.join(seen)}.")
        if beliefs.searched:
            parts.append(f"Checked {_by_type(tuple(beliefs.searched))}.")
        return memory_line_of(parts)

    def _type(self, name: str) -> str:
        """Type of a named thing: empty for an empty name, ``other`` for a type not in the task."""
        sort = kind(name)
        return sort if sort in self._words else "other"

    def _types(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({kind(name) for name in names} & self._words - {""}))


def _alike(beliefs: Beliefs, action: Action) -> tuple[int, int]:
    """Known objects of the moved type: in its receptacle, and at most in a similar receptacle."""
    box = kind(action.receptacle)
    counts = Counter(spot for _, spot in beliefs.located(kind(action.object)) if kind(spot) == box)
    there = counts.pop(action.receptacle, 0)
    return there, max(counts.values(), default=0)


@lru_cache(maxsize=4096)
def _by_type(names: tuple[str, ...]) -> str:
    numbers: dict[str, list[str]] = {}
    for name in names:
        sort, _, number = name.rpartition(" ")
        numbers.setdefault(sort, []).append(number)
    return ", ".join(f"{sort} {' '.join(ns)}" for sort, ns in numbers.items())
