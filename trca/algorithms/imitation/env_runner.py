"""`ImitationRunner`: an env runner that plays or labels training episodes by a teacher."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium

from trca.algorithms.imitation.teachers import DemonstratorTeacher, RecordedTeacher
from trca.algorithms.rollouts.env_runner import TextEnvRunner
from trca.algorithms.rollouts.recording import Teacher
from trca.algorithms.rules.imitation import ImitationParameters
from trca.algorithms.settings.policy_config import PolicyConfig
from trca.common.files import FileVersion, find, versions
from trca.envs.demonstrations import Demonstrations
from trca.envs.responses import RESPONSE_FORMATS
from trca.records import read_rollouts


def make_teacher(config: Any) -> Teacher:
    """The teacher of an imitation run.

    Args:
        config: An `ImitationConfig`.

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
