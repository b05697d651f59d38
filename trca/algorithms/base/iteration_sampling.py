"""Samples the rollout groups of an iteration: at once, ahead of time, and as replacements."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ray.rllib.env.env_runner_group import EnvRunnerGroup

from trca.algorithms.base.crediting import CreditedRollouts, Crediting, teaching_groups
from trca.algorithms.base.curriculum import Curriculum
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.sampling import SamplingAhead, sample_groups
from trca.policies.engines.engine import SamplingParams


class IterationSampler:
    """Samples the groups of each iteration on the env runners.

    With ``max_staleness``, runners sample ahead. With ``refill_groups``, further groups replace the
    groups without any advantage.
    """

    def __init__(
        self,
        config: TextAlgorithmConfig,
        runners: EnvRunnerGroup,
        curriculum: Curriculum,
        crediting: Crediting,
    ) -> None:
        """Takes the parts of an algorithm; refilling depends on the advantages of ``crediting``."""
        self._config, self._runners = config, runners
        self._curriculum, self._crediting = curriculum, crediting
        self._sampling = SamplingParams(config.settings.temperature, config.settings.max_new_tokens)
        self._ahead: SamplingAhead | None = None

    def sample(self, iteration: int) -> tuple[RolloutBatch, list[dict[str, Any]]]:
        """Samples the groups of an iteration, numbered from 0; returns metrics of the runners."""
        settings = self._config.settings
        if not settings.max_staleness:
            return self._sample(self.groups(iteration))
        if self._ahead is None:
            ahead = settings.max_staleness
            self._ahead = SamplingAhead(
                self._runners, self.groups, self._sampling, ahead, iteration
            )
        return self._ahead.take(iteration, settings.sample_timeout_s)

    def credit(
        self, batch: RolloutBatch, metrics: list[dict[str, Any]], iteration: int
    ) -> tuple[list[CreditedRollouts], int]:
        """Credits the rollouts of `sample`, and adds replacements for groups without an advantage.

        Returns the credited rollouts, and the number of replacements.
        """
        config, settings, refilled = self._config, self._config.settings, 0
        groups = len({rollout.group for rollout in batch.rollouts})
        batch.seconds["credit"] = 0.0
        while True:
            start = time.perf_counter()
            credited = self._crediting.credit(batch.rollouts)
            batch.seconds["credit"] += time.perf_counter() - start
            learned = [r for r in batch.rollouts if config.learns(r.agent_id, r.module_id)]
            missing = groups - len(teaching_groups(learned))
            count = min(missing, settings.refill_groups - refilled)
            if count <= 0:
                return credited, refilled
            size = settings.tasks_per_iteration
            tasks = self._curriculum.more(iteration, size, refilled, count)
            more, metrics_of_more = self._sample(self._requests(iteration, tasks, size + refilled))
            batch.add(more)
            metrics += metrics_of_more
            refilled += count

    def groups(self, iteration: int) -> list[GroupRequest]:
        """The rollout groups of an iteration, without replacements."""
        tasks = self._curriculum.tasks(iteration, self._config.settings.tasks_per_iteration)
        return self._requests(iteration, tasks)

    def _sample(self, groups: Sequence[GroupRequest]) -> tuple[RolloutBatch, list[dict[str, Any]]]:
        return sample_groups(
            self._runners, groups, self._sampling, self._config.settings.sample_timeout_s
        )

    def _requests(self, iteration: int, tasks: Sequence[str], first: int = 0) -> list[GroupRequest]:
        settings, key = self._config.settings, ("training", self._config.seed or 0, iteration)
        progress = min(1.0, iteration / settings.iterations)
        return [
            GroupRequest(k, task, settings.train_split, settings.group_size, key, progress)
            for k, task in enumerate(tasks, first)
        ]
