"""`Rollout` and `Step`: the records of one episode of one agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.envs.text_env import DEFAULT_AGENT

DEFAULT_MODULE: Final = "default_policy"
"""Id of the policy where there is one (RLlib's name)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One interaction step. Token in, token out: the ids are the sampled ones.

    Attributes:
        prompt_ids: int32 (P,), what the policy read.
        response_ids: int32 (R,), what it sampled.
        action_mask: bool (R,), True on the tokens that overlap the action, tags included.
        old_logprobs: float32 (R,), the sampler's log-probabilities of the response; NaN where it
            does not say them.
        observation: The observation before the action.
        response: The response as text.
        action: The action for the environment (blank where none could be read).
        context: Structural key of the state before the action.
        next_context: Structural key of the state after it.
        reward: Environment reward r_{i,t}.
        judgments: uint8 (M,), read-only, one 0/1 per rubric operator in library order.
        parsed: Whether an action could be read from the response.
        accepted: Whether the environment carried it out.
        foundational: r^F under the budgets of the algorithm.
        breakthrough: r^B.
        facts: Facts of the transition that differ from their defaults, as plain JSON types.
        version: Version of the weights that sampled the response.
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


@dataclass(slots=True)
class Rollout:
    """One finished episode of one agent at one task.

    Attributes:
        task_id: The task.
        split: Its split.
        task_type: Its type, such as ``Heat``.
        group: Number of the rollout group G(x) within the iteration.
        index: Number of the rollout within its group, 0 to N - 1.
        policy_version: Version of the weights at its start.
        agent_id: The agent that acted; in a team, the role.
        module_id: The policy that acted for it.
        instruction: The task in words.
        operators: Ids of the rubric operators, in the order of the judgments.
        steps: The steps in order.
        last_observation: The observation after the last action.
        won: Whether the task was completed, R(tau) = 1.
        score: The environment's own score.
        truncated: Whether the step limit ended it.
        measures: Other results of the environment at the end, such as ``f1``.
        turns: In a team, the number of each step among all steps of the episode; else empty.
        final_prompt_ids: int32 (P,), what the policy would have read next; kept where the step
            limit ended the rollout and a critic asks for the value of that state.
        advantages: float64 (T,), the advantage of each step, once a credit rule has given it.
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
        """Number of interaction steps T_i (RLlib's name)."""
        return len(self.steps)


def assign_advantages(rollouts: Sequence[Rollout], advantages: NDArray[np.float64]) -> None:
    """Puts the advantages of a batch on its rollouts.

    Args:
        rollouts: The rollouts of the batch, in its order.
        advantages: float64 (S,), one a step.

    Raises:
        ValueError: For another number of advantages than steps.
    """
    steps = sum(len(rollout.steps) for rollout in rollouts)
    if advantages.shape != (steps,):
        raise ValueError(f"advantages have shape {advantages.shape}: give one for each of {steps}")
    start = 0
    for rollout in rollouts:
        end = start + len(rollout.steps)
        rollout.advantages = advantages[start:end]
        start = end


def advantages_of(rollouts: Sequence[Rollout]) -> NDArray[np.float64]:
    """Returns the advantages that lie on rollouts, float64 (S,), one a step.

    Raises:
        ValueError: For a rollout that no credit rule has given advantages.
    """
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
    """The rollouts of each episode, in their order: several where a team plays.

    The rollouts of a team share task, outcome, score and measures; the steps of the episode are
    those of all its roles.
    """
    found: dict[tuple[int, int, str], list[Rollout]] = {}
    for number, rollout in enumerate(rollouts):
        alone = rollout.agent_id == DEFAULT_AGENT
        key = rollout.group, rollout.index, str(number) if alone else ""
        found.setdefault(key, []).append(rollout)
    return list(found.values())


def episodes(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """One rollout of each episode, in their order: that of the team's first role."""
    return [first for first, *_ in by_episode(rollouts)]


def refuse_teams(rollouts: Sequence[Rollout], what: str) -> None:
    """Refuses rollouts of several agents, whose judgments have different operators.

    Args:
        rollouts: The rollouts.
        what: What cannot read them.

    Raises:
        ValueError: When there is more than one agent; names them.
    """
    agents = by_agent(rollouts)
    if len(agents) > 1:
        raise ValueError(f"{what} reads the rollouts of one agent, not of {' and '.join(agents)}")


def by_agent(rollouts: Sequence[Rollout]) -> dict[str, list[Rollout]]:
    """The rollouts of each agent, in their order."""
    found: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        found.setdefault(rollout.agent_id, []).append(rollout)
    return found
