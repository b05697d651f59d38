"""The pool of environments that a rollout loop plays in: it makes, steps, times and keeps them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
        self._seconds = {"environment": 0.0, "judging": 0.0}

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
            self._count(time.perf_counter() - start, [env])

    def step(self, actions: Sequence[tuple[PooledEnv, str]]) -> list[Transition | Exception]:
        """Takes one step in each environment; those that wait on a network wait together.

        Args:
            actions: Environments, each once, with their actions.

        Returns:
            What each step returned, or the error that it raised, in the order of the actions.
        """
        start = time.perf_counter()
        _prefetch(actions)
        stepping = time.perf_counter()
        self._seconds["environment"] += stepping - start
        waiting = [k for k, (env, _) in enumerate(actions) if env.waits]
        futures = {}
        if len(waiting) > 1:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_MOST_THREADS, "trca-env")
            futures = {k: self._threads.submit(_step, *actions[k]) for k in waiting}
        results = [
            futures[k].result() if k in futures else _step(env, action)
            for k, (env, action) in enumerate(actions)
        ]
        self._count(time.perf_counter() - stepping, [env for env, _ in actions])
        return results

    def take_seconds(self) -> dict[str, float]:
        """Returns wall-clock seconds by ``environment`` and ``judging`` since the last call."""
        seconds, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
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

    def _count(self, seconds: float, environments: Sequence[PooledEnv]) -> None:
        """Counts wall-clock seconds, split as the stopwatches of the environments say."""
        environment = judging = 0.0
        for env in environments:
            unjudged, judged = env.take_seconds()
            environment, judging = environment + unjudged, judging + judged
        share = judging / total if (total := environment + judging) else 0.0
        self._seconds["judging"] += share * seconds
        self._seconds["environment"] += (1.0 - share) * seconds

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


def _step(env: PooledEnv, action: str) -> Transition | Exception:
    try:
        return env.env.step(action)
    except Exception as error:
        return error


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
