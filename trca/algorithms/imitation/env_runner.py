"""`ImitationRunner`: an env runner that plays or labels training episodes by a teacher.

A teacher gives the responses that imitation plays or learns in place of the policy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium

from trca.algorithms.rollouts.batch import GroupRequest
from trca.algorithms.rollouts.env_runner import TextEnvRunner
from trca.algorithms.rollouts.recording import Teacher, View
from trca.algorithms.rules.imitation import ImitationParameters
from trca.algorithms.settings.policy_config import PolicyConfig
from trca.common.files import FileVersion, find, versions
from trca.envs.demonstrations import DEMONSTRATION, Demonstration, Demonstrations
from trca.envs.responses import RESPONSE_FORMATS, ResponseFormat
from trca.envs.text_env import DEFAULT_AGENT
from trca.records import Rollout, read_rollouts


@dataclass(frozen=True)
class DemonstratorTeacher:
    """Responses with the actions of the environment's demonstrator.

    Attributes:
        response_format: Format of the responses.
        acts: Whether the demonstrator acts; otherwise it labels the states of the policy.
    """

    response_format: ResponseFormat
    acts: bool = True

    def action(self, view: View) -> str:
        """The demonstrator's action."""
        demonstration: Demonstration = view.info[DEMONSTRATION]
        return demonstration.action

    def response(self, request: GroupRequest, view: View, subgoal: str) -> str:
        """See `trca.algorithms.rollouts.recording.Teacher`; reads ``info["demonstration"]``."""
        demonstration: Demonstration = view.info[DEMONSTRATION]
        response, _ = demonstration.respond(self.response_format, subgoal)
        return response


class RecordedTeacher:
    """The responses of recorded rollouts.

    Attributes:
        acts: True: the responses are played.
        recordings: Task and number of each recording, in the order of the file.
    """

    acts = True

    def __init__(self, rollouts: Iterable[Rollout], path: Path) -> None:
        """Keeps the successful rollouts of a file; the path is for errors.

        Raises:
            ValueError: If no rollout is successful, or a rollout is of a role of a team.
        """
        self._path = path
        rollouts = list(rollouts)
        if roles := sorted({rollout.agent_id for rollout in rollouts} - {DEFAULT_AGENT}):
            raise ValueError(
                f"{path} has rollouts of a team: {', '.join(roles)}. Name a file of single agents"
            )
        self._steps = [
            (rollout.task_id, [(step.observation, step.response) for step in rollout.steps])
            for rollout in rollouts
            if rollout.won
        ]
        if not self._steps:
            raise ValueError(f"{path} has no successful rollout: name another file")

    def __len__(self) -> int:
        return len(self._steps)

    def action(self, view: View) -> None:
        """None: a recorded response may have no readable action."""

    def task_id(self, number: int) -> str:
        """The task of a recording."""
        return self._steps[number][0]

    def response(self, request: GroupRequest, view: View, subgoal: str) -> str:
        """See `trca.algorithms.rollouts.recording.Teacher`.

        Raises:
            ValueError: If the environment shows another observation than the recording.
        """
        assert request.demonstration is not None
        (_, steps), turn = self._steps[request.demonstration], len(view.rollout.steps)
        if turn >= len(steps) or steps[turn][0] != view.observation:
            raise ValueError(
                f"recording {request.demonstration} of {self._path} does not fit task"
                f" {request.task_id!r} at step {turn}: the environment shows another observation."
                " Use the settings of the environment that recorded it"
            )
        return steps[turn][1]


def make_teacher(config: Any) -> Teacher:
    """The teacher of an `ImitationConfig`.

    Raises:
        OSError: If the file of recorded rollouts cannot be read.
        ValueError: If the file is not a file of rollouts, or has no successful rollout.
    """
    if config.settings.demonstrations == "recorded":
        path = find(config.settings.recorded_rollouts)
        return _recorded(path, versions(path))
    acts = config.settings.demonstrations == "demonstrator"
    return DemonstratorTeacher(RESPONSE_FORMATS.get(config.settings.response_format), acts)


@lru_cache(4)
def _recorded(path: Path, file: tuple[FileVersion, ...]) -> RecordedTeacher:
    """The teacher of a file; a process reads a version of the file once."""
    return RecordedTeacher(read_rollouts(path), path)


class ImitationRunner(TextEnvRunner):
    """Samples training groups with a teacher, and evaluation groups with the policy."""

    config: PolicyConfig[ImitationParameters]

    def _teacher(self) -> Teacher:
        return make_teacher(self.config)

    def _make_env(
        self, split: str, changes: Mapping[str, Any] | None = None
    ) -> gymnasium.Env[str, str]:
        config, env = self.config, super()._make_env(split, changes)
        if config.settings.demonstrations == "recorded" or split != config.settings.train_split:
            return env
        return Demonstrations(
            env,
            config.settings.demonstrator_randomness,
            config.settings.deliberate_actions,
            plans=RESPONSE_FORMATS.get(config.settings.response_format).write_plan is not None,
        )
