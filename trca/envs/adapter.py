"""`Adapter`: turns the text of an episode into facts (the paper's g_b), and memory lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from trca.common.errors import short_line

LONGEST_LINE: Final = 2000
"""Largest number of characters of a memory line."""
LONGEST_QUOTE: Final = 200
"""Largest number of characters of a quoted text of the agent, such as a query."""


class Adapter(ABC):
    """Turns the visible part of an episode into facts, a context and a memory line.

    An adapter reads instruction, observations, actions and admissible actions only. Success, hidden
    state, future states and gold answers never reach it. The constructor takes no arguments. One
    adapter serves many episodes. `reset` and `step` store `binding` and `facts`.

    Attributes:
        facts_type: Frozen dataclass with the facts of a transition. Every field has a default. The
            type of a field is bool, int, float, str, a `Literal` of strings, or a tuple of strings
            or of such literals.
        binding_type: Frozen dataclass with the requirements parsed from the instruction. The same
            rules hold for its fields.
        binding: The binding of the current task.
        facts: The facts of the last transition; the defaults after ``reset``.
    """

    facts_type: ClassVar[type]
    binding_type: ClassVar[type]
    binding: Any
    facts: Any

    def __init__(self) -> None:
        self.binding, self.facts = self.binding_type(), self.facts_type()
        self._past: set[object] = set()

    @abstractmethod
    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        """Starts an episode.

        Args:
            instruction: The task in words.
            observation: The first observation.
            admissible: The admissible actions in the first state.
        """

    @abstractmethod
    def step(self, action: str, observation: str, admissible: Sequence[str]) -> Any:
        """Reads a transition, stores its facts in `facts`, and returns the facts.

        Args:
            action: The agent's action; empty if its response contained no readable action.
            observation: The observation after the action.
            admissible: The admissible actions after the action.
        """

    @property
    @abstractmethod
    def context(self) -> str:
        """Structural key s~ of the current state. States with equal keys form a context group."""

    @property
    def memory(self) -> str:
        """One short line that sums up the observations so far; empty for no memory line.

        With the setting ``memory``, the template ``compact`` shows the memory line in place of the
        observation, and ``paper`` shows both. The line must contain everything that the agent needs
        now.
        """
        return ""

    def _repeats(self, state: object) -> bool:
        """Whether a hashable state is in ``_past``, the states of the episode; adds the state."""
        repeats = state in self._past
        self._past.add(state)
        return repeats


def memory_line_of(parts: Iterable[str]) -> str:
    """Joins sentences into one memory line of at most `LONGEST_LINE` characters."""
    return short_line(" ".join(parts), LONGEST_LINE)


def quoted(text: str) -> str:
    """Shortens a text of the agent to one line of at most `LONGEST_QUOTE` characters."""
    return short_line(text, LONGEST_QUOTE)
