"""`Scheduler`: plays episodes at the same time, each at its own speed.

An episode continues as soon as its completion or its step arrives. Environments step while the
engine generates, and no turn waits for the slowest environment.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from trca.algorithms.rollouts.batch import Limits
from trca.algorithms.rollouts.engine_guard import EngineGuard
from trca.algorithms.rollouts.env_pool import EnvPool
from trca.algorithms.rollouts.episode import Episode
from trca.common.threads import StuckError
from trca.policies.engines.engine import SamplingParams

_TICK_S: Final = 1.0
_PATIENCE: Final = 0.1
"""Longest wait for the second half of a batch, as a share of the last batch's time."""

Arrival = tuple[Episode, Future[Any]]
"""An episode with its finished completion or step."""


class Scheduler:
    """Plays one round of episodes."""

    def __init__(
        self,
        pool: EnvPool,
        guard: EngineGuard,
        limits: Limits,
        sampling: SamplingParams,
        seconds: dict[str, float],
        fail: Callable[[Episode, Exception], None],
    ) -> None:
        """Starts without an episode.

        Args:
            pool: The environments.
            guard: The engine.
            limits: Time limits.
            sampling: Temperature and limits of the completions.
            seconds: Seconds by activity; the scheduler adds to ``generation``.
            fail: Called with each episode that fails and its error.
        """
        self._pool, self._guard, self._limits = pool, guard, limits
        self._sampling, self._seconds, self._fail = sampling, seconds, fail
        self._tick = min(limits.generation_timeout_s, limits.env_step_timeout_s, _TICK_S)
        self._arrived: SimpleQueue[Arrival] = SimpleQueue()
        self._generating: set[Episode] = set()
        self._stepping: set[Episode] = set()
        self._dropped: set[int] = set()
        self._unflushed = 0
        self._flushed = self._checked = -math.inf

    def play(self, episodes: Sequence[Episode]) -> None:
        """Plays started episodes to their ends."""
        ready = list(episodes)
        while True:
            start = time.perf_counter()
            self._submit_all(ready)
            # A batch starts when it holds half of the episodes and the rest had their time. The
            # rest steps during the batch.
            patience = self._guard.batch_s * _PATIENCE if self._stepping else 0.0
            due = self._unflushed >= len(self._stepping) and start - self._flushed >= patience
            if self._unflushed and due:
                self._flush()
            if self._generating:
                self._seconds["generation"] += time.perf_counter() - start
            elif not self._stepping:
                return
            wait_s = min(self._tick, patience) if self._unflushed and patience else self._tick
            answered, ready = self._take(self._arrivals(wait_s))
            self._give_up_overdue()
            answered = [e for e in answered if e.request.group not in self._dropped]
            self._stepping.update(answered)
            self._act(answered)

    def _submit_all(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            if episode.request.group in self._dropped:
                continue
            try:
                self._unflushed += self._submit(episode)
                self._generating.add(episode)
            except Exception as error:
                self._give_up(episode, error)

    def _submit(self, episode: Episode) -> int:
        """Sends the next prompt of an episode to the engine, unless a teacher responds.

        Returns:
            Number of requests to the engine.
        """
        if episode.turns == 0:
            episode.started = time.monotonic()
        late = self._too_long(episode)
        if late is not None:
            raise late
        request = episode.next_request()
        episode.asked = time.monotonic()
        demonstrated = episode.demonstrated()
        if demonstrated is None:
            self._pend(episode, self._guard.submit(request, self._sampling))
            return 1
        completion: Future[Any] = Future()
        completion.set_result(demonstrated)
        self._pend(episode, completion)
        return 0

    def _flush(self) -> None:
        """Lets the engine generate; after an error, gives up the episodes without a completion."""
        self._unflushed = 0
        error = self._guard.flush(len(self._generating))
        if error is not None:
            for episode in [e for e in _in_order(self._generating) if e.waits()]:
                self._give_up(episode, error)
        self._flushed = time.perf_counter()

    def _arrivals(self, timeout_s: float) -> list[Arrival]:
        """Waits for one completion or step; returns all that arrived, in the order of episodes.

        Returns none after the timeout.
        """
        start = time.perf_counter()
        arrivals: list[Arrival] = []
        with suppress(Empty):
            arrivals.append(self._arrived.get(timeout=timeout_s))
        waited = time.perf_counter() - start
        if self._generating:
            self._seconds["generation"] += waited
        else:
            self._pool.count(waited)
        with suppress(Empty):
            while True:
                arrivals.append(self._arrived.get_nowait())
        return sorted(arrivals, key=lambda arrival: arrival[0].place)

    def _take(self, arrivals: Sequence[Arrival]) -> tuple[list[Episode], list[Episode]]:
        """Reads completions and records steps.

        Returns:
            The episodes with an action to take, and those ready for the next prompt.
        """
        self._guard.note_completions(
            [f for e, f in arrivals if e in self._generating and f is e.pending]
        )
        answered: list[Episode] = []
        ready: list[Episode] = []
        for episode, future in arrivals:
            if future is not episode.pending:  # the episode was given up
                continue
            try:
                if episode in self._generating:
                    self._generating.discard(episode)
                    episode.read(future.result())
                    answered.append(episode)
                else:
                    self._stepping.discard(episode)
                    episode.record(future.result())
                    ready += [] if episode.done else [episode]
            except Exception as error:
                self._give_up(episode, error)
        return answered, ready

    def _act(self, episodes: Sequence[Episode]) -> None:
        """Takes the action of each episode."""
        actions = [(e.env, e.action) for e in episodes if e.env is not None]
        for episode, step in zip(episodes, self._pool.step(actions), strict=True):
            self._pend(episode, step)

    def _pend(self, episode: Episode, future: Future[Any]) -> None:
        """Waits for a completion or step of an episode."""
        episode.pending = future
        future.add_done_callback(partial(_put, self._arrived, episode))

    def _give_up(self, episode: Episode, error: Exception) -> None:
        self._generating.discard(episode)
        episode.pending = None
        self._fail(episode, error)
        if episode.is_retry and not self._limits.keeps_incomplete(episode.request):
            self._dropped.add(episode.request.group)

    def _give_up_overdue(self) -> None:
        """Gives up the steps and episodes that take too long.

        Checks once per tick: a check after each arrival costs more than a fast step.
        """
        now = time.monotonic()
        if now - self._checked < self._tick:
            return
        self._checked = now
        self._pool.give_up_stuck()
        requests = len(self._generating)
        for episode in [e for e in _in_order(self._generating) if e.waits()]:
            late = self._guard.overdue(episode.asked, now, requests) or self._too_long(episode)
            if late is not None:
                self._give_up(episode, late)

    def _too_long(self, episode: Episode) -> StuckError | None:
        """The error of an episode that takes too long; None within the time limit."""
        limit = self._limits.rollout_timeout_s
        if time.monotonic() - episode.started <= limit:
            return None
        return StuckError(f"the rollout has not ended in {limit:g} s, after {episode.turns} steps")


def _in_order(episodes: Iterable[Episode]) -> list[Episode]:
    return sorted(episodes, key=lambda episode: episode.place)


def _put(arrived: SimpleQueue[Arrival], episode: Episode, future: Future[Any]) -> None:
    arrived.put((episode, future))
