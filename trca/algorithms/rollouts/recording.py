"""Records an episode of one agent: each response and its transition become a `Step`.

A recorder has the rollouts of an episode and the view of the agent that acts next::

    recorder = AgentRecorder(observation, info, new_rollout)
    recorder.view           # the agent's rollout, observation and info, for the next prompt
    recorder.add(turn, transition)

`trca.algorithms.rollouts.team_recording` has the recorder of a team.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.rollouts.env_pool import Transition
from trca.envs.text_env import DEFAULT_AGENT
from trca.policies.engines.engine import Completion
from trca.policies.spans import Response
from trca.records import Rollout, Step, changed_facts

NewRollout = Callable[[str, str], Rollout]
"""Makes the empty rollout of an agent from the agent's id and the instruction."""

_NO_JUDGMENTS: Final[NDArray[np.uint8]] = np.frombuffer(b"", dtype=np.uint8)


class View(NamedTuple):
    """The state of an episode as one agent observes it.

    Attributes:
        rollout: The agent's rollout so far.
        observation: The agent's observation.
        info: The agent's ``info``.
    """

    rollout: Rollout
    observation: str
    info: Mapping[str, Any]


class Turn(NamedTuple):
    """A response of the policy, before its transition.

    Attributes:
        number: Number of the turn within the episode, from 0.
        observation: The observation before the action.
        prompt_ids: int32 (P,), the prompt.
        completion: The sampled completion.
        response: The completion as a response with its action.
        demonstration: The response of a teacher; blank without a teacher.
    """

    number: int
    observation: str
    prompt_ids: NDArray[np.int32]
    completion: Completion
    response: Response
    demonstration: str = ""


class Recorder(Protocol):
    """Records the episode of an agent or of a team."""

    @property
    def rollouts(self) -> Sequence[Rollout]:
        """The rollouts, one per agent."""
        ...

    @property
    def view(self) -> View:
        """The view of the agent that acts next."""
        ...

    def add(self, turn: Turn, transition: Transition) -> Sequence[View]:
        """Records a transition; returns the views of the agents whose steps it completes."""
        ...


class AgentRecorder:
    """Records the episode of one agent.

    Attributes:
        rollouts: The agent's rollout.
        view: The agent's view.
    """

    def __init__(self, observation: str, info: Mapping[str, Any], new_rollout: NewRollout) -> None:
        """Takes the result of ``reset``."""
        rollout = new_rollout(DEFAULT_AGENT, info["task"])
        self.rollouts: Sequence[Rollout] = (rollout,)
        self.view = View(rollout, observation, info)

    def add(self, turn: Turn, transition: Transition) -> Sequence[View]:
        """Records a transition; returns the agent's new view."""
        observation, reward, terminated, truncated, info = transition
        rollout = self.view.rollout
        step = make_step(
            turn,
            reward=float(reward),
            parsed=info["parsed"],
            accepted=info["accepted"],
            context=info["context"],
            next_context=info["next_context"],
            facts=info.get("facts"),
            rubric=info.get("rubric"),
            milestone=info.get("milestone"),
        )
        rollout.steps.append(step)
        rollout.last_observation = observation
        if terminated or truncated:
            finish(self.rollouts, transition)
        self.view = View(rollout, observation, info)
        return (self.view,)


def make_step(
    turn: Turn,
    *,
    reward: float,
    parsed: bool,
    accepted: bool,
    context: Any,
    next_context: Any,
    facts: Any,
    rubric: Mapping[str, Any] | None,
    milestone: bool | None = None,
) -> Step:
    """Makes the step of a turn; the keyword arguments describe the transition as ``info`` does."""
    return Step(
        prompt_ids=turn.prompt_ids,
        response_ids=turn.completion.ids,
        action_mask=turn.response.action_mask,
        old_logprobs=turn.completion.logprobs,
        observation=turn.observation,
        response=turn.response.text,
        action=turn.response.action,
        context=str(context),
        next_context=str(next_context),
        reward=reward,
        judgments=rubric["judgments"] if rubric else _NO_JUDGMENTS,
        parsed=bool(parsed),
        accepted=bool(accepted),
        foundational=rubric["foundational"] if rubric else 0.0,
        breakthrough=rubric["breakthrough"] if rubric else 0.0,
        facts=changed_facts(facts),
        version=turn.completion.version,
        demonstration=turn.demonstration,
        milestone=milestone,
    )


def finish(rollouts: Iterable[Rollout], transition: Transition) -> None:
    """Writes the outcome of an episode into its rollouts.

    Args:
        rollouts: The rollouts of the episode.
        transition: The last transition.
    """
    _, _, terminated, truncated, info = transition
    for rollout in rollouts:
        rollout.won = bool(info["won"])
        rollout.score = float(info["score"])
        rollout.measures = dict(info.get("measures", {}))
        rollout.truncated = bool(truncated and not terminated)
