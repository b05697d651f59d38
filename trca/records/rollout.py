"""`Rollout` and `Step`: the records of one episode of one agent; and of failures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.envs.text_env import DEFAULT_AGENT

DEFAULT_MODULE: Final = "default_policy"
"""Id of the policy of a single agent (RLlib's name)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One interaction step. Token in, token out: the record holds the sampled ids.

    Attributes:
        prompt_ids: int32 (P,), the input of the policy.
        response_ids: int32 (R,), the sampled tokens.
        action_mask: bool (R,), True on the tokens that overlap the action, tags included.
        old_logprobs: float32 (R,), the sampler's log-probabilities of the response; NaN if the
            sampler does not report them.
        observation: The observation before the action.
        response: The response as text.
        action: The action for the environment; empty for a malformed response.
        context: Structural key of the state before the action.
        next_context: Structural key of the state after the action.
        reward: Environment reward r_{i,t}.
        judgments: uint8 (M,), read-only, one 0/1 per rubric operator in library order.
        parsed: Whether the response contains an action.
        accepted: Whether the environment executed the action.
        foundational: r^F with the budgets of the algorithm.
        breakthrough: r^B with the budgets of the algorithm.
        facts: Facts of the transition that differ from their defaults, as plain JSON types.
        version: Version of the weights that sampled the response.
        demonstration: The response of a teacher in this state; empty without a teacher.
        milestone: Whether the action completed a subgoal of the environment; `None` if the
            environment has no milestones.
    """

    prompt_ids: NDArray[np.int32]
    response_ids: NDArray[np.int32]
    action_mask: NDArray[np.bool_]
    old_logprobs: NDArray[np.float32]
    observation: str
    response: str
    action: str
    context: str
    next_context: str
    reward: float
    judgments: NDArray[np.uint8]
    parsed: bool
    accepted: bool
    foundational: float = 0.0
    breakthrough: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    demonstration: str = ""
    milestone: bool | None = None


@dataclass(slots=True)
class Rollout:
    """One finished episode of one agent.

    Attributes:
        task_id: Id of the task.
        split: Split of the task.
        task_type: Type of the task, such as ``Heat``.
        group: Number of the rollout group G(x) within the iteration.
        index: Number of the rollout within its group, 0 to N - 1.
        policy_version: Version of the weights at the start of the rollout.
        agent_id: Id of the agent; in a team, the role.
        module_id: Id of the agent's policy.
        instruction: The instruction of the task.
        operators: Ids of the rubric operators, in the order of the judgments.
        steps: The steps in order.
        last_observation: The observation after the last action.
        won: Whether the task was completed, R(tau) = 1.
        score: The score of the environment.
        truncated: Whether the step limit ended the rollout.
        measures: Further metrics of the environment at the end, such as ``f1``.
        turns: In a team, the number of each step among all steps of the episode; otherwise empty.
        final_prompt_ids: int32 (P,), the prompt of the state after the last step; kept if the step
            limit ended the rollout and a critic needs the value of that state.
        advantages: float64 (T,), the advantage of each step; `None` before the credit rule.
    """

    task_id: str
    split: str
    task_type: str
    group: int
    index: int
    policy_version: int
    agent_id: str = DEFAULT_AGENT
    module_id: str = DEFAULT_MODULE
    instruction: str = ""
    operators: tuple[str, ...] = ()
    steps: list[Step] = field(default_factory=list)
    last_observation: str = ""
    won: bool = False
    score: float = 0.0
    truncated: bool = False
    measures: dict[str, float] = field(default_factory=dict)
    turns: list[int] = field(default_factory=list)
    final_prompt_ids: NDArray[np.int32] | None = None
    advantages: NDArray[np.float64] | None = None

    def env_steps(self) -> int:
        """Returns the number of interaction steps T_i (RLlib's name)."""
        return len(self.steps)


@dataclass(frozen=True, slots=True)
class Failure:
    """Missing rollouts of a group: its number, its task, their number, the error on one line."""

    group: int
    task_id: str
    rollouts: int
    reason: str


@dataclass(frozen=True, slots=True)
class Incident:
    """A failure, and the action taken."""

    time: float  # time of the failure, in seconds since the epoch
    kind: str  # failed part: rollout, env runner, engine, learner or driver
    which: str  # name of the failed part, such as 3 of group 0
    task_id: str  # id of the task; empty for a failure that concerns no task
    reason: str  # the error, on one line
    action: str  # the action taken: retried, dropped or a description


def assign_advantages(rollouts: Sequence[Rollout], advantages: NDArray[np.float64]) -> None:
    """Assigns the advantages of a batch, float64 (S,), to its rollouts, in their order."""
    lengths = [len(rollout.steps) for rollout in rollouts]
    if advantages.shape != (steps := sum(lengths),):
        raise ValueError(f"advantages have shape {advantages.shape}: give one for each of {steps}")
    parts = np.split(advantages, np.cumsum(lengths, dtype=np.int64))
    for rollout, part in zip(rollouts, parts, strict=False):
        rollout.advantages = part


def advantages_of(rollouts: Sequence[Rollout]) -> NDArray[np.float64]:
    """Returns the advantages of rollouts, float64 (S,); a `ValueError` if they have none."""
    parts = []
    for rollout in rollouts:
        if rollout.advantages is None:
            raise ValueError(
                f"rollout {rollout.index} of group {rollout.group} has no advantages: call"
                " assign_advantages first"
            )
        parts.append(rollout.advantages)
    return np.concatenate(parts) if parts else np.empty(0)


def by_episode(rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
    """Groups rollouts by episode, in their order: one of a single agent, or those of a team.

    The rollouts of a team share task and metrics; except in a game, also outcome and score.
    """
    by_key: dict[tuple[int, int, str], list[Rollout]] = {}
    for number, rollout in enumerate(rollouts):
        single = rollout.agent_id == DEFAULT_AGENT
        key = rollout.group, rollout.index, str(number) if single else ""
        by_key.setdefault(key, []).append(rollout)
    return list(by_key.values())


def episodes(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Returns the first rollout of each episode, in their order: for a team, the first role's."""
    return [first for first, *_ in by_episode(rollouts)]


def refuse_teams(agents: Collection[str], what: str) -> None:
    """Raises a ValueError for several agents: their judgments differ in operators."""
    if len(agents) > 1:
        raise ValueError(f"{what} reads the rollouts of one agent, not of {' and '.join(agents)}")


def by_agent(rollouts: Sequence[Rollout]) -> dict[str, list[Rollout]]:
    """Groups rollouts by agent, in their order."""
    groups: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.agent_id, []).append(rollout)
    return groups


def changed_facts(facts: Any) -> dict[str, Any]:
    """Returns the fields of a facts dataclass that differ from their defaults, as JSON types."""
    changed = {}
    facts_type: Any = type(facts)
    for name, default in _defaults(facts_type) if facts is not None else ():
        value = getattr(facts, name)
        if value != default:
            changed[name] = list(value) if isinstance(value, tuple) else value
    return changed


@cache
def _defaults(facts_type: type) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (f.name, f.default if f.default_factory is MISSING else f.default_factory())
        for f in fields(facts_type)
    )
