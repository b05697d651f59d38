"""Records an episode of a team: a step of a role lasts until the role's next turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trca.algorithms.rollouts.env_pool import Transition
from trca.algorithms.rollouts.recording import NewRollout, Turn, View, finish, make_step
from trca.envs.teams.env import RoleTransition
from trca.records import Rollout


class TeamRecorder:
    """Records the episode of a team.

    Attributes:
        view: The view of the role with the turn.
    """

    def __init__(
        self,
        observation: str,
        info: Mapping[str, Any],
        new_rollout: NewRollout,
        roles: Iterable[str],
        instruction: str,
    ) -> None:
        """Takes the result of ``reset``.

        Args:
            observation: Observation of the first role.
            info: ``info`` of the first role.
            new_rollout: Makes the empty rollout of a role.
            roles: The roles in order.
            instruction: The instruction, which some roles may not see.
        """
        self._by_role = {role: new_rollout(role, instruction) for role in roles}
        self._open: dict[str, Turn] = {}
        self.view = View(self._by_role[info["agent"]], observation, info)

    @property
    def rollouts(self) -> Sequence[Rollout]:
        """The rollouts, one per role."""
        return tuple(self._by_role.values())

    def add(self, turn: Turn, transition: Transition) -> Sequence[View]:
        """Records a transition; returns the views of the roles whose steps it completes."""
        observation, _, terminated, truncated, info = transition
        self._open[self.view.rollout.agent_id] = turn
        views = [self._close(ended) for ended in info["closed"]]
        if terminated or truncated:
            finish(self._by_role.values(), transition)
        self.view = View(self._by_role[info["agent"]], observation, info)
        return views

    def _close(self, ended: RoleTransition) -> View:
        """Adds the step of an ended transition; returns the role's view after it."""
        rollout, turn = self._by_role[ended.agent], self._open.pop(ended.agent)
        step = make_step(
            turn,
            reward=ended.reward,
            parsed=ended.parsed,
            accepted=ended.accepted,
            context=ended.context,
            next_context=ended.next_context,
            facts=ended.facts,
            rubric=ended.rubric,
        )
        rollout.steps.append(step)
        rollout.turns.append(turn.number)
        rollout.last_observation = ended.observation
        return View(rollout, ended.observation, ended.info)
