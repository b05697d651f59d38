"""The contract every text world meets, and the typed ``info`` it emits.

A world is a plain Gymnasium environment whose observations and actions are strings::

    env = gymnasium.make("trca.envs:trca/ALFWorld-v0", split="train")
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(info["admissible_actions"][0])
    info["rubric"]["fired"]  # the rubric operators this transition satisfied
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, Final, TypedDict

import gymnasium
import numpy as np
from numpy.typing import NDArray

from trca.envs.text_space import AnyText

UNPARSED: Final = ""
"""The command that stands for a response from which no command could be read."""


BLANK: Final = re.compile("<[^<>]+>")
"""What an offered command leaves to the agent to write, as in ``search[<your query>]``."""


class RubricInfo(TypedDict):
    """What the rubric says of one transition (Appendix C of the paper)."""

    judgments: NDArray[np.uint8]
    """uint8 (M,), read-only: one 0/1 per operator, in the order of the library."""
    foundational: float
    """r^F of this transition under the environment's budgets."""
    breakthrough: float
    """r^B of this transition."""
    reward: float
    """r^TRCA = (1 - lambda) r^F + lambda r^B."""
    fired: tuple[str, ...]
    """The ids of the operators whose judgment is 1."""


class TextInfo(TypedDict, total=False):
    """The documented keys of ``info``; ``rubric`` and ``parsed`` on are absent after ``reset``."""

    task_id: str
    split: str
    task_type: str
    task: str
    """The instruction in words, as the agent may see it."""
    admissible_actions: list[str]
    """The commands the world would accept now, in the world's order."""
    context: str
    """Structural key s~ of the state *before* the action (after ``reset``: of the first state)."""
    next_context: str
    """Structural key of the state after the action."""
    memory: str
    """One short line of what the agent has observed so far."""
    parsed: bool
    """False when the command is `UNPARSED` (blank)."""
    accepted: bool
    """Whether the world carried the command out."""
    won: bool
    score: float
    measures: dict[str, float]
    """What else the world measures at the end of an episode, by name; absent before."""
    facts: Any
    """Facts of the transition: the adapter's frozen dataclass."""
    rubric: RubricInfo


class TextEnv(gymnasium.Env[str, str], ABC):
    """A world of text: strings in, strings out, one task an episode.

    ``reset(seed=..., options={"task": task_id})`` starts a named task; without the option the next
    task is drawn from the split with the environment's own generator. ``step(command)`` takes *any*
    string: garbage is answered by the world, never by an exception. ``terminated`` is the world's
    end, ``truncated`` the step limit. ``reward`` is the sparse r_{i,t}: 1 on success, else 0.
    ``info`` holds the keys of `TextInfo`.

    Attributes:
        split: Name of the split the tasks come from.
        task_ids: The tasks of the split, in panel order.
        max_steps: The step limit.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 (Gymnasium's own convention)
    split: str
    max_steps: int

    def __init__(self) -> None:
        self.observation_space = AnyText()
        self.action_space = AnyText()

    @property
    @abstractmethod
    def task_ids(self) -> tuple[str, ...]:
        """The tasks of the split, in panel order."""

    def oracle_action(self) -> str:
        """The next command on a way to success, by the world's hidden truth: for checks alone."""
        raise NotImplementedError(f"{type(self).__name__} has no oracle")

    @property
    def admissible_actions(self) -> list[str]:
        """The commands the world would accept now, in the world's order."""
        raise NotImplementedError(f"{type(self).__name__} lists no commands")

    def random_action(self, rng: np.random.Generator) -> str:
        """A command drawn evenly from what the world would accept now."""
        admissible = self.admissible_actions
        return admissible[int(rng.integers(len(admissible)))]
