"""Parts of an iteration of imitation: the groups with demonstrations, and rows of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from trca.algorithms.base.crediting import CreditedRollouts, Crediting
from trca.algorithms.base.iteration_sampling import IterationSampler
from trca.algorithms.imitation.env_runner import RecordedTeacher, make_teacher
from trca.algorithms.learner.rows import Rows
from trca.algorithms.rollouts.batch import GroupRequest
from trca.envs.panel import Panel
from trca.policies.models import load_tokenizer
from trca.policies.prompts.control_tokens import response_ids
from trca.records import Rollout


class DemonstrationSampler(IterationSampler):
    """Samples groups with demonstrations.

    Recorded rollouts are replayed in epochs over the file, each in a group of one rollout.
    """

    def groups(self, iteration: int) -> list[GroupRequest]:
        """The rollout groups of an iteration."""
        recordings = self._recordings
        if recordings is None:
            return super().groups(iteration)
        config = self._config
        numbers = tuple(map(str, range(len(recordings))))
        panel = Panel("recordings", config.settings.train_split, numbers)
        chosen = panel.batch(iteration, config.settings.tasks_per_iteration, config.seed or 0)
        tasks = [recordings.task_id(int(number)) for number in chosen]
        return [
            replace(request, size=1, demonstration=int(number))
            for request, number in zip(self._requests(iteration, tasks), chosen, strict=True)
        ]

    def _requests(self, iteration: int, tasks: Sequence[str], first: int = 0) -> list[GroupRequest]:
        requests = super()._requests(iteration, tasks, first)
        return [replace(request, demonstration=0) for request in requests]

    @cached_property
    def _recordings(self) -> RecordedTeacher | None:
        teacher = make_teacher(self._config)
        return teacher if isinstance(teacher, RecordedTeacher) else None


class LabelCrediting(Crediting):
    """Makes the rows of the teacher's responses, all tokens of which are trained."""

    def _rows(self, credited: CreditedRollouts, taught: list[Rollout]) -> Rows:
        return super()._rows(credited, [self._labelled(rollout) for rollout in taught])

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self._config.resolved_model())

    def _labelled(self, rollout: Rollout) -> Rollout:
        """The rollout with the teacher's responses; no sampler gave them a probability."""
        steps = []
        for step in rollout.steps:
            ids = step.response_ids
            settings: Any = self._config.settings
            if settings.demonstrations == "on_policy":  # the policy responded, not the teacher
                ids = np.array(response_ids(self._tokenizer, step.demonstration), dtype=np.int32)
            steps.append(
                replace(
                    step,
                    response_ids=ids,
                    action_mask=np.ones(len(ids), dtype=np.bool_),
                    old_logprobs=np.full(len(ids), np.nan, dtype=np.float32),
                )
            )
        return replace(rollout, steps=steps)
