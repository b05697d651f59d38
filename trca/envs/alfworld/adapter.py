"""The adapter of ALFWorld: reads the text of an episode and reports facts of each transition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import ClassVar, Final

from trca.envs.adapter import Adapter
from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import ALFWorldBinding, bind
from trca.envs.alfworld.context import context_key, memory_line
from trca.envs.alfworld.facts import ALFWorldFacts
from trca.envs.alfworld.pages import REJECTED
from trca.envs.alfworld.reading import Action, kind, read_action, things

_TASK: Final = "Your task is to:"


class ALFWorldAdapter(Adapter):
    """Follows an ALFWorld episode; reads observations, actions and admissible actions only.

    Attributes:
        beliefs: The room as observed so far.
    """

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
        """Reads one transition and returns its facts; see `Adapter.step`."""
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
        """Structural key s~ of the current state; see `trca.envs.alfworld.context`."""
        return context_key(self.binding, self.beliefs)

    @property
    def memory(self) -> str:
        """The memory line; see `trca.envs.alfworld.context`."""
        return memory_line(self.binding, self.beliefs)

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
