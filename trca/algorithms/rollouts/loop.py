"""`RolloutLoop`: samples rollout groups to the ends of their episodes.

::

    loop = RolloutLoop(make_env, engine, prompter, tokenizer)
    batch = loop.run([GroupRequest(0, task_id, "train", size=8, key=("training", 1, 0))], params)

A rollout is retried once if its environment, prompt or engine raises or exceeds a time limit. The
retry comes after the first round, in a fresh environment and from the same seeds. A second failure
makes the rollout missing: a `Failure` has the reason, and `Limits.on_missing_rollout` decides on
the rest of its group. Each failure is an `Incident`. Other groups continue.

`play` has the coroutine of an episode, and `batch` the types.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.engine_guard import one_line
from trca.algorithms.rollouts.play import GroupFailedError, Player, Round
from trca.common.process import own_memory_mb
from trca.common.threads import run_to_end
from trca.policies.engines.engine import Engine, SamplingParams
from trca.records import Rollout
from trca.records.failures import Failure, Incident

logger = logging.getLogger(__name__)

Outcome = Sequence[Rollout] | str
"""The rollouts of an episode, or why the episode failed, on one line."""


class RolloutLoop(Player):
    """Samples rollout groups with one engine; `Player` has the arguments."""

    @property
    def engine(self) -> Engine:
        """The generation engine."""
        return self.guard.engine

    def run(self, groups: Sequence[GroupRequest], sampling: SamplingParams) -> RolloutBatch:
        """Samples every group to the ends of its episodes.

        Args:
            groups: The groups.
            sampling: Temperature and limits. Empty stop strings mean the stop strings of the
                response format.
        """
        return run_to_end(self._run(groups, sampling))

    def close(self) -> None:
        """Closes the environments and the engine."""
        run_to_end(self.pool.close())
        self.guard.close()

    async def _run(self, groups: Sequence[GroupRequest], sampling: SamplingParams) -> RolloutBatch:
        stop = sampling.stop or self.response_format.stop
        sampling = replace(sampling, stop=stop, thought=self.prompter.thought)
        batch = RolloutBatch()
        first = [(request, index) for request in groups for index in range(request.size)]
        outcomes = await self._round(first, sampling, batch)
        failed = [(r, k) for r, k in first if isinstance(outcomes[r.group, k], str)]
        if failed:
            batch.incidents += await self.guard.renew()
            outcomes |= await self._round(failed, sampling, batch, is_retry=True)
        for request in groups:
            of_group = [outcomes[request.group, index] for index in range(request.size)]
            reasons = [each for each in of_group if isinstance(each, str)]
            keeps = self.limits.keeps_incomplete(request)
            if reasons:
                lost = len(reasons) if len(reasons) < request.size and keeps else request.size
                batch.failures.append(Failure(request.group, request.task_id, lost, reasons[-1]))
            if keeps or not reasons:
                played = [each for each in of_group if not isinstance(each, str)]
                batch.rollouts += [rollout for rollouts in played for rollout in rollouts]
        batch.incidents += await self.guard.renew()
        await self.guard.sleep()
        batch.rollouts.sort(key=lambda r: (r.group, r.index))
        batch.seconds |= self.pool.take_seconds()
        batch.process_memory_mb = own_memory_mb()
        return batch

    async def _round(
        self,
        places: Sequence[tuple[GroupRequest, int]],
        sampling: SamplingParams,
        batch: RolloutBatch,
        is_retry: bool = False,
    ) -> dict[tuple[int, int], Outcome]:
        """Plays the episodes of these groups and indices; ``batch`` takes the incidents."""
        round_ = Round(len(places), sampling, is_retry)
        async with asyncio.TaskGroup() as tasks:
            outcomes = {
                (request.group, index): tasks.create_task(self._try(request, index, round_, batch))
                for request, index in places
            }
        await self.pool.close_broken()
        return {place: task.result() for place, task in outcomes.items()}

    async def _try(
        self, request: GroupRequest, index: int, round_: Round, batch: RolloutBatch
    ) -> Outcome:
        """Plays an episode; notes a failure as an incident and in the log."""
        try:
            return await self.play(request, index, round_)
        except GroupFailedError as failed:
            return one_line(failed.__cause__ or failed)
        except Exception as error:
            if round_.is_retry and not self.limits.keeps_incomplete(request):
                round_.dropped[request.group] = error
            reason, action = one_line(error), "dropped" if round_.is_retry else "retried"
            which, task = f"{index} of group {request.group}", request.task_id
            incident = Incident(time.time(), "rollout", which, task, reason, action)
            batch.incidents.append(incident)
            words = "rollout %s, task %r: %s; %s"
            logger.warning(words, which, task, reason, action, exc_info=error)
            return reason
