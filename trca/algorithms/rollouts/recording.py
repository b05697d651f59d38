"""Records an episode of an agent or a team: each response and its transition become a `Step`.

A recorder has the rollouts of an episode and the view of the agent that acts next::

    recorder = Recorder(observation, info, rollouts)
    recorder.view           # the agent's rollout, observation and info, for the next prompt
    recorder.add(turn, transition)

A step of a role of a team lasts until the role's next turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.rollouts.batch import GroupRequest
from trca.algorithms.rollouts.env_pool import PooledEnv, Transition
from trca.envs.teams.env import RoleTransition
from trca.envs.text_env import DEFAULT_AGENT
from trca.policies.engines.engine import Completion
from trca.policies.prompts import Conversation
from trca.policies.spans import Response
from trca.records import Rollout, Step, changed_facts

_NO_JUDGMENTS: Final[NDArray[np.uint8]] = np.frombuffer(b"", dtype=np.uint8)


class View(NamedTuple):
    """The state of an episode as one agent observes it, with the agent's rollout so far."""

    rollout: Rollout
    observation: str
    info: Mapping[str, Any]


class Turn(NamedTuple):
    """A response of the policy, before its transition.

    ``number`` is that of the turn within the episode, from 0; ``observation`` is before the action;
    ``prompt_ids`` are int32 (P,); ``demonstration`` is the response of a teacher, or empty.
    """

    number: int
    observation: str
    prompt_ids: NDArray[np.int32]
    completion: Completion
    response: Response
    demonstration: str = ""


class Teacher(ABC):
    """Gives responses that are played or learned in place of the policy's responses.

    Attributes:
        acts: Whether the response is played; else the policy acts, and it is the label of the step.
    """

    acts: bool = True

    def action(self, view: View) -> str | None:
        """The action that the response of a step must contain; None if any response is right."""
        return None

    @abstractmethod
    def response(
        self, request: GroupRequest, view: View, subgoal: str
    ) -> str | NDArray[np.int32] | None:
        """The response of a step, as text or as ids; None leaves the turn to the policy.

        ``subgoal`` may be empty.
        """


class Recorder:
    """Records the episode of an agent or a team: a rollout per agent, and the next agent's view."""

    def __init__(
        self, observation: str, info: Mapping[str, Any], rollouts: Sequence[Rollout]
    ) -> None:
        """Takes the observation and ``info`` of ``reset``, and an empty rollout for each agent."""
        self.rollouts = rollouts
        self._by_role = {rollout.agent_id: rollout for rollout in rollouts}
        self._is_team = DEFAULT_AGENT not in self._by_role
        self._open: dict[str, Turn] = {}
        self.view = self._next_view(observation, info)

    def add(self, turn: Turn, transition: Transition) -> Sequence[View]:
        """Records a transition; returns the views of the agents whose steps it completes."""
        observation, reward, terminated, truncated, info = transition
        rollout = self.view.rollout
        self.view = self._next_view(observation, info)
        if self._is_team:
            self._open[rollout.agent_id] = turn
            views = [self._close(ended) for ended in info["closed"]]
        else:
            _add_step(rollout, turn, observation, float(reward), info)
            views = [self.view]
        if terminated or truncated:
            for rollout in self.rollouts:
                result = info["roles"][rollout.agent_id]._asdict() if self._is_team else info
                rollout.won = bool(result["won"])
                rollout.score = float(result["score"])
                rollout.measures = dict(info.get("measures", {}))
                rollout.truncated = bool(truncated and not terminated)
        return views

    def _next_view(self, observation: str, info: Mapping[str, Any]) -> View:
        agent = info["agent"] if self._is_team else DEFAULT_AGENT
        return View(self._by_role[agent], observation, info)

    def _close(self, ended: RoleTransition) -> View:
        """Adds the step of an ended transition; returns the role's view after it."""
        rollout, turn = self._by_role[ended.agent], self._open.pop(ended.agent)
        _add_step(rollout, turn, ended.observation, ended.reward, ended._asdict())
        rollout.turns.append(turn.number)
        return View(rollout, ended.observation, ended.info)


def _add_step(
    rollout: Rollout, turn: Turn, observation: str, reward: float, transition: Mapping[str, Any]
) -> None:
    """Adds the step of a turn; ``transition`` has its context and judgments, as ``info`` has."""
    rubric = transition.get("rubric")
    step = Step(
        prompt_ids=turn.prompt_ids,
        response_ids=turn.completion.ids,
        action_mask=turn.response.action_mask,
        old_logprobs=turn.completion.logprobs,
        observation=turn.observation,
        response=turn.response.text,
        action=turn.response.action,
        context=str(transition["context"]),
        next_context=str(transition["next_context"]),
        reward=reward,
        judgments=rubric["judgments"] if rubric else _NO_JUDGMENTS,
        parsed=bool(transition["parsed"]),
        accepted=bool(transition["accepted"]),
        foundational=rubric["foundational"] if rubric else 0.0,
        breakthrough=rubric["breakthrough"] if rubric else 0.0,
        facts=changed_facts(transition.get("facts")),
        version=turn.completion.version,
        demonstration=turn.demonstration,
        milestone=transition.get("milestone"),
    )
    rollout.steps.append(step)
    rollout.last_observation = observation


@dataclass(eq=False)
class Episode:
    """An episode under way.

    ``turns`` is the number of actions so far. ``done`` is set when the episode has ended and is
    complete. ``subgoals`` and ``conversations`` are by agent.
    """

    request: GroupRequest
    index: int
    env: PooledEnv
    recorder: Recorder = field(init=False)
    turns: int = 0
    done: bool = False
    subgoals: dict[str, str] = field(default_factory=dict)
    conversations: dict[str, Conversation] = field(
        default_factory=lambda: defaultdict(Conversation)
    )

    @property
    def place(self) -> tuple[int, int]:
        """Group and index, by which episodes are ordered."""
        return self.request.group, self.index
