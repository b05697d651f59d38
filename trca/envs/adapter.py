"""`Adapter`: turns the text of an episode into facts (the paper's g_b)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar


class Adapter(ABC):
    """Follows an episode by what the agent was shown, could do and did.

    Nothing else may reach it: no success, no hidden state, no future, no gold answer. It is made
    without arguments and used for many episodes.

    Attributes:
        facts_type: Frozen dataclass of the facts of a transition. Every field has a default and is
            a bool, int, float, str, `Literal` of strings, or a tuple of such strings.
        binding_type: Frozen dataclass of what was read out of the instruction, likewise.
        binding: The binding of the present task.
        facts: The facts of the last transition; the defaults after ``reset``.
    """

    facts_type: ClassVar[type]
    binding_type: ClassVar[type]
    binding: Any
    facts: Any

    @abstractmethod
    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        """Starts an episode.

        Args:
            instruction: The task in words.
            observation: The first observation.
            admissible: The admissible actions that came with it.
        """

    @abstractmethod
    def step(self, action: str, observation: str, admissible: Sequence[str]) -> Any:
        """Takes in a transition, keeps its facts as `facts`, and returns them.

        Args:
            action: What the agent did; blank when nothing could be read from its response.
            observation: The answer to it.
            admissible: The actions that are admissible after it.
        """

    @property
    @abstractmethod
    def context(self) -> str:
        """Structural key s~ of the present state: equal keys form a context group."""

    @property
    def memory(self) -> str:
        """One short line of what was observed so far; blank for none.

        With the setting ``memory`` the template ``compact`` shows it in place of the observation,
        ``paper`` beside it: say in it what the agent has to know now.
        """
        return ""
