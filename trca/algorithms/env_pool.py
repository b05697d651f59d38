"""The pool of environments that a rollout loop plays in: it makes, steps, times and keeps them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, SupportsFloat

import gymnasium

from trca.envs.annotate import RubricAnnotation

logger = logging.getLogger(__name__)

_MOST_THREADS: Final = 128

Transition = tuple[str, SupportsFloat, bool, bool, dict[str, Any]]
"""What ``step`` returns: observation, reward, terminated, truncated, info."""


@dataclass
class PooledEnv:
    """An environment of the pool.

    Attributes:
        env: The environment, wrapped.
        split: Split of its tasks.
        max_steps: Its step limit.
        idle_actions: Its admissible actions that change nothing.
        waits: Whether its steps wait on a network.
        operators: Ids of the rubric operators that judge it, in library order.
    """

    env: gymnasium.Env[str, str]
    split: str
    max_steps: int
    idle_actions: frozenset[str]
    waits: bool
    operators: tuple[str, ...]
    _total: _Stopwatch
    _unjudged: _Stopwatch

    def take_seconds(self) -> tuple[float, float]:
        """Returns the seconds spent in the environment and in judging since the last call."""
        total, unjudged = self._total.seconds, self._unjudged.seconds
        self._total.seconds = self._unjudged.seconds = 0.0
        return unjudged, total - unjudged


class EnvPool:
    """Environments by split, reused from episode to episode: making one costs more than a reset."""

    def __init__(self, make_env: Callable[[str], gymnasium.Env[str, str]]) -> None:
        """Starts empty.

        Args:
            make_env: Makes an environment of a split; it takes actions.
        """
        self._make_env = make_env
        self._idle: dict[str, list[PooledEnv]] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._waited = self._unjudged = self._judging = 0.0

    def take(self, split: str) -> PooledEnv:
        """Takes an idle environment of a split, or makes one."""
        idle = self._idle.setdefault(split, [])
        return idle.pop() if idle else self._make(split)

    def give_back(self, env: PooledEnv, *, broken: bool = False) -> None:
        """Takes an environment back.

        Args:
            env: The environment.
            broken: Whether an error left it in an unknown state: it is closed.
        """
        if broken:
            with suppress(Exception):
                env.env.close()
        else:
            self._idle.setdefault(env.split, []).append(env)

    def reset(
        self, env: PooledEnv, seed: int, options: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode; see `gymnasium.Env.reset`."""
        start = time.perf_counter()
        try:
            return env.env.reset(seed=seed, options=options)
        finally:
            self._read_stopwatches(env)
            self.count(time.perf_counter() - start)

    def step(self, actions: Sequence[tuple[PooledEnv, str]]) -> list[Future[Transition]]:
        """Takes one step in each environment; those that wait on a network wait in threads.

        Args:
            actions: Environments, each once, with their actions.

        Returns:
            What each step returns or raises, in the order of the actions. Environments that do not
            wait have taken theirs.
        """
        start = time.perf_counter()
        waiting = [(env, action) for env, action in actions if env.waits]
        if self._threads is None and waiting:
            self._threads = ThreadPoolExecutor(_MOST_THREADS, "trca-env")
        # In a thread too, and first in the queue: the steps behind it cannot take its thread.
        prefetched = self._threads.submit(_prefetch, waiting) if self._threads else None
        _prefetch([(env, action) for env, action in actions if not env.waits])
        futures = [
            self._threads.submit(self._step, env, action, prefetched)
            if self._threads is not None and env.waits
            else _done(self._step, env, action)
            for env, action in actions
        ]
        self.count(time.perf_counter() - start)
        return futures

    def count(self, seconds: float) -> None:
        """Adds wall-clock seconds in which the caller waited for environments."""
        self._waited += seconds

    def take_seconds(self) -> dict[str, float]:
        """Returns the counted seconds by ``environment`` and ``judging`` since the last call.

        They are split as the stopwatches of the environments say.
        """
        with self._lock:
            total = self._unjudged + self._judging
            judging = self._waited * self._judging / total if total else 0.0
            seconds = {"environment": self._waited - judging, "judging": judging}
            self._waited = self._unjudged = self._judging = 0.0
        return seconds

    def close(self) -> None:
        """Closes the idle environments."""
        for environments in self._idle.values():
            for env in environments:
                env.env.close()
        self._idle.clear()
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None

    def _step(
        self, env: PooledEnv, action: str, prefetched: Future[None] | None = None
    ) -> Transition:
        if prefetched is not None:
            prefetched.result()
        try:
            return env.env.step(action)
        finally:
            self._read_stopwatches(env)

    def _read_stopwatches(self, env: PooledEnv) -> None:
        unjudged, judging = env.take_seconds()
        with self._lock:
            self._unjudged += unjudged
            self._judging += judging

    def _make(self, split: str) -> PooledEnv:
        env = self._make_env(split)
        total = unjudged = _Stopwatch(env)
        annotation = find_annotation(env)
        if annotation is not None:
            annotation.env = unjudged = _Stopwatch(annotation.env)
        judged = env.has_wrapper_attr("judge")
        return PooledEnv(
            env=total,
            split=split,
            max_steps=env.get_wrapper_attr("max_steps"),
            idle_actions=getattr(env.unwrapped, "idle_actions", frozenset()),
            waits=getattr(env.unwrapped, "waits", False),
            operators=tuple(env.get_wrapper_attr("judge").library.ids) if judged else (),
            _total=total,
            _unjudged=unjudged,
        )


def find_annotation(env: gymnasium.Env[str, str]) -> RubricAnnotation | None:
    """Returns the wrapper that judges an environment; None where nothing judges."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, RubricAnnotation):
            return env
        env = env.env
    return None


def _prefetch(actions: Sequence[tuple[PooledEnv, str]]) -> None:
    """Lets each class of environment look up together what the actions need."""
    by_class: dict[type, list[tuple[Any, str]]] = {}
    for env, action in actions:
        unwrapped = env.env.unwrapped
        by_class.setdefault(type(unwrapped), []).append((unwrapped, action))
    for env_class, pairs in by_class.items():
        prefetch = getattr(env_class, "prefetch", None)
        if prefetch is not None:
            try:
                prefetch(pairs)
            except Exception:  # the steps look up by themselves, and say what is wrong
                logger.warning("%s.prefetch failed", env_class.__name__, exc_info=True)


def _done(
    step: Callable[[PooledEnv, str], Transition], env: PooledEnv, action: str
) -> Future[Transition]:
    future: Future[Transition] = Future()
    try:
        future.set_result(step(env, action))
    except Exception as error:
        future.set_exception(error)
    return future


class _Stopwatch(gymnasium.Wrapper[str, str, str, str]):
    """Adds up the seconds of an environment's steps and resets."""

    def __init__(self, env: gymnasium.Env[str, str]) -> None:
        super().__init__(env)
        self.seconds = 0.0

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        start = time.perf_counter()
        try:
            return self.env.reset(**kwargs)
        finally:
            self.seconds += time.perf_counter() - start

    def step(self, action: str) -> Transition:
        start = time.perf_counter()
        try:
            return self.env.step(action)
        finally:
            self.seconds += time.perf_counter() - start
