"""`RolloutLoop`: samples rollout groups to the ends of their episodes.

::

    loop = RolloutLoop(make_env, engine, prompter, tokenizer)
    batch = loop.run([GroupRequest(0, task_id, "train", size=8, key=("training", 1, 0))], params)

A rollout is retried once if its environment, prompt or engine raises or exceeds a time limit. The
retry comes after the first round, in a fresh environment and from the same seeds. A second failure
makes the rollout missing: a `Failure` has the reason, and `Limits.on_missing_rollout` decides on
the rest of its group. Each failure is an `Incident`. Other groups continue.

`scheduler` plays the episodes of a round, `episode` turns states into prompts and responses into
actions, `recording` makes steps, `engine_guard` limits the engine's time, `batch` has the types.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import gymnasium

from trca.algorithms.rollouts.batch import NO_LIMITS, GroupRequest, Limits, RolloutBatch
from trca.algorithms.rollouts.callbacks import RunnerCallbacks
from trca.algorithms.rollouts.engine_guard import EngineGuard, one_line
from trca.algorithms.rollouts.env_pool import EnvPool
from trca.algorithms.rollouts.episode import Episode, PolicyInterface
from trca.algorithms.rollouts.scheduler import Scheduler
from trca.algorithms.rollouts.teacher import Teacher
from trca.common.memory import own_memory_mb
from trca.envs.responses import ACTION_FORMAT, ResponseFormat
from trca.policies.engines.engine import Engine, SamplingParams
from trca.policies.prompts import Prompter
from trca.records import DEFAULT_MODULE
from trca.records.failures import Failure, Incident

logger = logging.getLogger(__name__)


class RolloutLoop:
    """Samples rollout groups with one engine.

    Attributes:
        scheduler_class: Plays the episodes of a round.
        prompter: Renders prompts.
        tokenizer: Tokenizer of the engine's model.
        pool: The environments.
    """

    scheduler_class: ClassVar[type[Scheduler]] = Scheduler

    def __init__(
        self,
        make_env: Callable[..., gymnasium.Env[str, str]],
        engine: Engine,
        prompter: Prompter,
        tokenizer: Any,
        response_format: ResponseFormat = ACTION_FORMAT,
        limits: Limits = NO_LIMITS,
        open_engine: Callable[[], Engine] | None = None,
        keep_final_prompts: bool = False,
        module_of: Callable[[str, GroupRequest], str] = lambda agent, request: DEFAULT_MODULE,
        teacher: Teacher | None = None,
        callbacks: RunnerCallbacks | None = None,
    ) -> None:
        """Starts with an empty pool.

        Args:
            make_env: See `EnvPool`.
            engine: The generation engine.
            prompter: Renders prompts.
            tokenizer: Tokenizer of the engine's model.
            response_format: Format of actions in responses.
            limits: Time limits, and the policy for incomplete groups.
            open_engine: Opens an engine with the same weights in place of a failed engine; None
                keeps the failed engine.
            keep_final_prompts: Whether truncated training rollouts keep the prompt of their last
                state, which a critic reads.
            module_of: Returns the id of the policy that acts for an agent of a group.
            teacher: Gives the responses of groups with a demonstration.
            callbacks: RLlib's callbacks of the env runner.
        """
        self.prompter, self.tokenizer = prompter, tokenizer
        self.pool = EnvPool(make_env, limits.env_step_timeout_s)
        self._limits = limits
        self._guard = EngineGuard(engine, limits.generation_timeout_s, open_engine)
        self._interface = PolicyInterface(
            prompter, tokenizer, response_format, keep_final_prompts, module_of, teacher, callbacks
        )

    @property
    def engine(self) -> Engine:
        """The generation engine."""
        return self._guard.engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._guard.engine = engine

    def run(self, groups: Sequence[GroupRequest], sampling: SamplingParams) -> RolloutBatch:
        """Samples every group to the ends of its episodes.

        Args:
            groups: The groups.
            sampling: Temperature and limits. Empty stop strings mean the stop strings of the
                response format.
        """
        stop = sampling.stop or self._interface.response_format.stop
        sampling = replace(sampling, stop=stop, thought=self.prompter.thought)
        batch, interface = RolloutBatch(), self._interface
        first = [Episode(interface, r, index) for r in groups for index in range(r.size)]
        self._play(first, sampling, batch)
        retries = [Episode(interface, e.request, e.index, is_retry=True) for e in first if e.error]
        if retries:
            batch.incidents += self._guard.renew()
            self._play(retries, sampling, batch)
        for request in groups:
            self._collect(request, first + retries, batch)
        batch.incidents += self._guard.renew()
        self._guard.sleep()
        batch.rollouts.sort(key=lambda r: (r.group, r.index))
        batch.seconds |= self.pool.take_seconds()
        batch.process_memory_mb = own_memory_mb()
        return batch

    def close(self) -> None:
        """Closes the environments and the engine."""
        self.pool.close()
        self._guard.close()

    def _play(
        self, episodes: Sequence[Episode], sampling: SamplingParams, batch: RolloutBatch
    ) -> None:
        """Plays a round of episodes: resets all, starts all, and plays them to their ends.

        Args:
            episodes: The first episodes, or the retries.
            sampling: Temperature and limits.
            batch: Takes the incidents and the seconds.
        """
        fail = partial(_fail, batch)
        failed_groups: dict[int, str] = {}
        for episode in episodes:
            group = episode.request.group
            if group in failed_groups:
                episode.error = failed_groups[group]
                continue
            try:
                episode.reset(self.pool)
            except Exception as error:
                fail(episode, error)
                failed_groups[group] = episode.error
        for episode in [e for e in episodes if not e.error]:
            try:
                episode.start(self.engine.version)
            except Exception as error:
                fail(episode, error)
        scheduler = self.scheduler_class(
            self.pool, self._guard, self._limits, sampling, batch.seconds, fail
        )
        scheduler.play([e for e in episodes if not e.error])
        for episode in episodes:
            if episode.env is not None:
                self.pool.give_back(episode.env, broken=not episode.done)

    def _collect(
        self, request: GroupRequest, episodes: Sequence[Episode], batch: RolloutBatch
    ) -> None:
        """Adds the rollouts of a group to a batch, or the failure of the missing rollouts."""
        of_group = [e for e in episodes if e.request is request]
        done = [e for e in of_group if e.done]
        missing, keeps = request.size - len(done), self._limits.keeps_incomplete(request)
        if missing:
            lost = missing if done and keeps else request.size
            reason = next(e.error for e in reversed(of_group) if e.error)
            batch.failures.append(Failure(request.group, request.task_id, lost, reason))
        if not missing or keeps:
            batch.rollouts += [rollout for e in done for rollout in e.recorder.rollouts]


def _fail(batch: RolloutBatch, episode: Episode, error: Exception) -> None:
    """Notes why an episode failed, as an incident of a batch and in the log."""
    request, action = episode.request, "dropped" if episode.is_retry else "retried"
    episode.error = one_line(error)
    which = f"{episode.index} of group {request.group}"
    incident = Incident(time.time(), "rollout", which, request.task_id, episode.error, action)
    batch.incidents.append(incident)
    logger.warning(
        "rollout %s, task %r: %s; %s",
        which,
        request.task_id,
        episode.error,
        action,
        exc_info=error,
    )
