"""The adapter of ALFWorld: reads the text of an episode and reports facts of each transition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import ClassVar, Final

from trca.envs.adapter import Adapter
from trca.envs.alfworld.actions import Action, read_action
from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import ALFWorldBinding, bind
from trca.envs.alfworld.context import context_key, memory_line
from trca.envs.alfworld.facts import ALFWorldFacts
from trca.envs.alfworld.pages import REJECTED
from trca.envs.alfworld.reading import kind, things

_TASK: Final = "Your task is to:"


class ALFWorldAdapter(Adapter):
    """Follows an ALFWorld episode; reads observations, actions and admissible actions only.

    Attributes:
        binding: The parsed instruction.
        facts: The facts of the last transition (the defaults after ``reset``).
        beliefs: The room as observed so far.
    """

    facts_type: ClassVar[type[ALFWorldFacts]] = ALFWorldFacts
    binding_type: ClassVar[type[ALFWorldBinding]] = ALFWorldBinding
    binding: ALFWorldBinding
    facts: ALFWorldFacts

    def __init__(self) -> None:
        self.binding = ALFWorldBinding()
        self.facts = ALFWorldFacts()
        self.beliefs = Beliefs()
        self._past: set[object] = set()
        self._words = _words(self.binding)

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        """Starts an episode.

        Args:
            instruction: The instruction.
            observation: The first observation, which lists the receptacles of the room.
            admissible: The admissible actions in the first state.
        """
        self.binding = bind(instruction)
        self._words = _words(self.binding)
        self.facts = ALFWorldFacts()
        self.beliefs = Beliefs(things(observation.partition(_TASK)[0]))
        self._past = {self.beliefs.snapshot()}

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> ALFWorldFacts:
        """Reads one transition and returns its facts.

        Args:
            action: The agent's action; blank if its response contained no readable action.
            observation: The observation after the action.
            admissible: The admissible actions after the action.
        """
        beliefs = self.beliefs
        read = read_action(action)
        accepted = observation.strip() != REJECTED
        available = beliefs.within_reach(read)
        located = self._located()
        states_before = beliefs.states.get(read.object, ())
        seen, visited = len(beliefs.first_seen), len(beliefs.visited)
        searched = len(beliefs.searched)
        if accepted:
            beliefs.update(read, observation, admissible)
        snapshot = beliefs.snapshot()
        states = beliefs.states.get(read.object, ())
        receptacle_type = self._type(read.receptacle)
        lamps = [lamp for lamp, at in beliefs.located(self.binding.lamp) if at in beliefs.here]
        lit = any("on" in beliefs.states.get(lamp, ()) for lamp in lamps)
        there, elsewhere = _alike(beliefs, read) if read.verb == "move" and accepted else (0, 0)
        self.facts = ALFWorldFacts(
            parsed=not action.isspace() and action != "",
            verb=read.verb,
            available=available,
            accepted=accepted,
            repeated=snapshot in self._past,
            object_type=self._type(read.object),
            receptacle_type=receptacle_type,
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
        self._past.add(snapshot)
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
        """Type of a named thing: blank for a blank name, ``other`` for a type not in the task."""
        sort = kind(name)
        return sort if sort in self._words else "other"

    def _types(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({kind(name) for name in names} & self._words - {""}))

    def _located(self) -> tuple[str, ...]:
        return tuple(
            sort for sort in (self.binding.target, self.binding.lamp) if self.beliefs.located(sort)
        )


def _words(binding: ALFWorldBinding) -> frozenset[str]:
    """The types in a task, and blank."""
    return frozenset({binding.target, binding.appliance, binding.destination, binding.lamp, ""})


def _alike(beliefs: Beliefs, action: Action) -> tuple[int, int]:
    """Known objects of the moved type: in its receptacle, and at most in a similar receptacle."""
    box = kind(action.receptacle)
    counts: dict[str, int] = {}
    for _, spot in beliefs.located(kind(action.object)):
        if kind(spot) == box:
            counts[spot] = counts.get(spot, 0) + 1
    there = counts.pop(action.receptacle, 0)
    return there, max(counts.values(), default=0)
