"""The documented keys of ``info``, which a text environment returns with each observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray


class RubricInfo(TypedDict):
    """Rubric judgments and rewards of one transition (Appendix C of the paper)."""

    judgments: NDArray[np.uint8]
    """uint8 (M,), read-only: one 0/1 per operator, in library order."""
    foundational: float
    """r^F of this transition, computed with the environment's budgets."""
    breakthrough: float
    """r^B of this transition."""
    reward: float
    """r^TRCA = (1 - lambda) r^F + lambda r^B."""
    fired: tuple[str, ...]
    """Ids of the operators with judgment 1."""


class TextInfo(TypedDict, total=False):
    """The documented keys of ``info``. Keys from ``next_context`` on are absent after ``reset``.

    The exception is ``rubric``: after ``reset`` no operator has fired.

    `trca.envs.make` adds ``context``, ``memory`` and ``next_context``. It also adds ``facts`` for
    an environment with an adapter, and ``rubric`` for an environment with an adapter and a rubric
    library.
    """

    task_id: str
    split: str
    task_type: str
    task: str
    """The instruction in words, as the agent may see it."""
    admissible_actions: list[str]
    """The admissible actions now, in the environment's order; may be empty."""
    context: str
    """Structural key s~ of the state *before* the action. After ``reset``: key of the first state.
    """
    memory: str
    """One short line that sums up the agent's observations so far; may be empty."""
    next_context: str
    """Structural key of the state after the action."""
    facts: Any
    """The adapter's facts of this transition, a frozen dataclass."""
    parsed: bool
    """False if the action is empty (`UNPARSED`)."""
    accepted: bool
    """Whether the environment carried out the action."""
    won: bool
    score: float
    milestone: bool
    """Whether the action completed a subgoal of the environment. Absent without milestones."""
    rewards: dict[str, float]
    """In a game: the reward of each role. Absent if all roles get the same reward."""
    measures: dict[str, float]
    """Further metrics of the episode by name. Present only at the end of an episode."""
    rubric: RubricInfo
    tools: Sequence[Mapping[str, Any]]
    """With tools: their schemas in OpenAI's form; the same in all steps of an episode."""
    tool_results: tuple[str, ...]
    """With tools: one text per call of the last action; empty after ``reset`` or without a call."""
    agent: str
    """In a team: the role whose turn comes next."""
    brief: str
    """In a team: the prompt of that role."""
    roles: dict[str, Any]
    """In a team: what each role got from this step, as `trca.envs.teams.env.RoleResult`."""
    closed: tuple[Any, ...]
    """In a team: the transitions that ended with this step, as
    `trca.envs.teams.env.RoleTransition`.
    """
