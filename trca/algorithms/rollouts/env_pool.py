"""`EnvPool`: makes, steps and times the environments of a rollout loop, and reuses them.

All calls of environments run in threads, so that the loop can give up a call that never returns.
Environments that wait on a network have a thread each. All further environments share one thread,
which takes the steps of a turn in order as one call: a hand-over costs as much as a fast step.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, SupportsFloat

import gymnasium

from trca.common.threads import Call, StuckError, Task, Threads, stuck, wait
from trca.envs.annotate import NO_OPERATORS, Operators, RubricAnnotation
from trca.envs.isolated import IsolatedEnv
from trca.envs.teams.env import TeamEnv
from trca.envs.text_env import DEFAULT_AGENT, TextEnv, as_action

logger = logging.getLogger(__name__)

_MOST_THREADS: Final = 128
SLOW_S: Final = 30.0
"""Seconds after which a call of an environment that still runs is logged."""

Start = tuple[str, dict[str, Any]]
"""What ``reset`` returns: observation, info."""
Transition = tuple[str, SupportsFloat, bool, bool, dict[str, Any]]
"""What ``step`` returns: observation, reward, terminated, truncated, info."""


@dataclass
class PooledEnv:
    """An environment of the pool.

    Attributes:
        env: The environment, wrapped.
        kind: Split and arguments of the environment, by which it is reused.
        max_steps: Its step limit.
        idle_actions: Its admissible actions that change nothing.
        waits: Whether its steps and resets wait on a network.
        prefetches: Whether its class can look up the needs of several steps together.
        operators: Ids of the rubric operators that judge each agent, in library order.
        name: Its id, or its class.
        stuck: Whether a call never returned.
    """

    env: gymnasium.Env[str, str]
    kind: str
    max_steps: int
    idle_actions: frozenset[str]
    waits: bool
    prefetches: bool
    operators: Mapping[str, tuple[str, ...]]
    name: str
    _stopwatch: _Stopwatch | None
    stuck: bool = False

    def shares(self, seconds: float) -> tuple[float, float]:
        """Splits the seconds of the last call into those of the environment and of judging."""
        if self._stopwatch is None:
            return seconds, 0.0
        unjudged, self._stopwatch.seconds = self._stopwatch.seconds, 0.0
        return unjudged, seconds - unjudged


class EnvPool:
    """Environments by split and arguments.

    An environment is reused: making it costs more than a reset.
    """

    def __init__(
        self, make_env: Callable[..., gymnasium.Env[str, str]], timeout_s: float = math.inf
    ) -> None:
        """Starts empty.

        Args:
            make_env: Makes an environment of a split, which takes actions; the second argument, if
                there is one, has changes of the environment's arguments.
            timeout_s: Longest time of a step or a reset, in seconds.
        """
        self._make_env = make_env
        self._timeout_s = timeout_s
        self._idle: dict[str, list[PooledEnv]] = {}
        self._one = Threads(1, "trca-env")
        self._many = Threads(_MOST_THREADS, "trca-env")
        self._running: dict[int, tuple[PooledEnv, str, Task]] = {}
        self._lock = threading.Lock()
        self._waited = self._unjudged = self._judging = 0.0

    def take(
        self, split: str, changes: Mapping[str, Any] | None = None, *, fresh: bool = False
    ) -> PooledEnv:
        """Takes an environment of a split, and makes it if necessary, without a time limit.

        Args:
            split: The split.
            changes: Changes of the environment's arguments.
            fresh: Whether to make a new environment although another is idle.
        """
        kind = f"{split} {changes}" if changes else split
        idle = self._idle.setdefault(kind, [])
        if idle and not fresh:
            return idle.pop()
        arguments = (split, changes) if changes else (split,)
        made: PooledEnv = self._one.submit(self._make, kind, *arguments).result()
        return made

    def give_back(self, env: PooledEnv, *, broken: bool = False) -> None:
        """Takes an environment back.

        Args:
            env: The environment.
            broken: Whether an error left it in an unknown state. A broken environment is closed
                unless it is stuck. The child process of an `IsolatedEnv` is killed.
        """
        if broken:
            played = env.env.unwrapped
            if isinstance(played, TeamEnv):
                played = played.inner.unwrapped
            if isinstance(played, IsolatedEnv):
                played.kill()
            elif not env.stuck:
                self._close(env)
        else:
            self._idle.setdefault(env.kind, []).append(env)

    def reset(self, env: PooledEnv, seed: int, options: dict[str, Any]) -> Callable[[], Start]:
        """Starts an episode; see `gymnasium.Env.reset`.

        Returns:
            A function that waits for the result of ``reset``. An environment that does not wait on
                a network is reset on return.

        Raises:
            StuckError: If the reset exceeds the time limit, here or in the returned function.
        """
        task = (self._many if env.waits else self._one).submit(self._reset, env, seed, options)

        def started() -> Start:
            start = time.perf_counter()
            self._wait(task, env, f"reset(options={options})")
            self.count(time.perf_counter() - start)
            result: Start = task.result()
            return result

        if not env.waits:
            started()
        return started

    def step(self, actions: Sequence[tuple[PooledEnv, str]]) -> list[Task]:
        """Takes one step in each environment.

        Args:
            actions: Environments, each once, with their actions.

        Returns:
            The result or error of each step, in the order of the actions. Environments that do not
            wait on a network have taken their steps on return.
        """
        start = time.perf_counter()
        steps = self._step_side_by_side([pair for pair in actions if pair[0].waits])
        steps |= self._step_in_turn([pair for pair in actions if not pair[0].waits])
        self.count(time.perf_counter() - start)
        return [steps[id(env)] for env, _ in actions]

    def give_up_stuck(self) -> None:
        """Logs slow steps; ends the steps that take too long with a `StuckError`."""
        for env, action, task in self._running.values():
            task.warn_if_slow(SLOW_S, partial(_step_words, env, action))
            if task.overdue(self._timeout_s):
                task.give_up(stuck(task, self._timeout_s, _step_words(env, action)))
                env.stuck = True

    def count(self, seconds: float) -> None:
        """Adds wall-clock seconds of the caller's wait for environments."""
        self._waited += seconds

    def take_seconds(self) -> dict[str, float]:
        """Returns the counted seconds in ``environment`` and ``judging`` since the last call.

        The stopwatch below the rubric of each environment gives the ratio of the two.
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
                self._close(env)
        self._idle.clear()
        self._one.close()
        self._many.close()

    def _step_in_turn(self, actions: Sequence[tuple[PooledEnv, str]]) -> dict[int, Task]:
        """Takes steps in sequence."""
        if not actions:
            return {}
        prefetches = _prefetches(actions)
        calls: list[Call] = [(_prefetch, (prefetches,))] if prefetches else []
        first = len(calls)
        calls += [(self._step, action) for action in actions]
        tasks = self._one.submit_in_turn(calls)

        def words(call: int) -> str:
            if call < first:
                return _words(actions[0][0], "prefetch()")
            return _step_words(*actions[call - first])

        wait(tasks, self._timeout_s, words, SLOW_S)
        steps = {}
        for (env, _), task in zip(actions, tasks[first:], strict=True):
            env.stuck = isinstance(task.exception(), StuckError)
            steps[id(env)] = task
        return steps

    def _step_side_by_side(self, actions: Sequence[tuple[PooledEnv, str]]) -> dict[int, Task]:
        """Starts each step in a thread."""
        prefetches = _prefetches(actions)
        prefetched = self._many.submit(_prefetch, prefetches) if prefetches else None
        steps = {}
        for env, action in actions:
            task = steps[id(env)] = self._many.submit(self._step, env, action, prefetched)
            self._running[id(env)] = env, action, task
        return steps

    def _close(self, env: PooledEnv) -> None:
        self._wait(self._one.submit(env.env.close), env, "close()")

    def _wait(self, call: Task, env: PooledEnv, call_words: str) -> None:
        wait([call], self._timeout_s, lambda _: _words(env, call_words), SLOW_S)
        env.stuck = env.stuck or isinstance(call.exception(), StuckError)

    def _reset(self, env: PooledEnv, seed: int, options: dict[str, Any]) -> Start:
        start = time.perf_counter()
        try:
            return env.env.reset(seed=seed, options=options)
        finally:
            self._note(env, time.perf_counter() - start)

    def _step(self, env: PooledEnv, action: str, prefetched: Task | None = None) -> Transition:
        if prefetched is not None:
            prefetched.exception()  # waits for the prefetch
        start = time.perf_counter()
        try:
            return env.env.step(action)
        finally:
            self._note(env, time.perf_counter() - start)

    def _note(self, env: PooledEnv, seconds: float) -> None:
        """Notes the seconds of a call of an environment."""
        unjudged, judging = env.shares(seconds)
        with self._lock:
            self._unjudged += unjudged
            self._judging += judging

    def _make(self, kind: str, *arguments: Any) -> PooledEnv:
        env = self._make_env(*arguments)
        stopwatch, annotation = None, find_annotation(env)
        if annotation is not None:
            annotation.env = stopwatch = _Stopwatch(annotation.env)
        mro = type(env.unwrapped).__mro__
        return PooledEnv(
            env=env,
            kind=kind,
            max_steps=env.get_wrapper_attr("max_steps"),
            idle_actions=getattr(env.unwrapped, "idle_actions", frozenset()),
            waits=getattr(env.unwrapped, "waits", False),
            prefetches=any("prefetch" in vars(c) for c in mro if c is not TextEnv),
            operators={agent: tuple(each.ids) for agent, each in operators_of(env).items()},
            name=env.spec.id if env.spec else type(env.unwrapped).__name__,
            _stopwatch=stopwatch,
        )


def find_annotation(env: gymnasium.Env[str, str]) -> RubricAnnotation | None:
    """Returns the wrapper that judges an environment; None without a rubric."""
    if isinstance(env.unwrapped, TeamEnv):
        env = env.unwrapped.inner
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, RubricAnnotation):
            return env
        env = env.env
    return None


def operators_of(env: gymnasium.Env[str, str]) -> Mapping[str, Operators]:
    """Returns the rubric operators of each agent that plays an environment."""
    if isinstance(env.unwrapped, TeamEnv):
        return env.unwrapped.operators
    annotation = find_annotation(env)
    return annotation.operators if annotation else {DEFAULT_AGENT: NO_OPERATORS}


def _prefetches(
    actions: Sequence[tuple[PooledEnv, str]],
) -> list[tuple[type, list[tuple[Any, str]]]]:
    """The classes that can prefetch, each with its environments and their actions."""
    by_class: dict[type, list[tuple[Any, str]]] = {}
    for env, action in actions:
        if env.prefetches:
            unwrapped = env.env.unwrapped
            by_class.setdefault(type(unwrapped), []).append((unwrapped, as_action(action)))
    return list(by_class.items())


def _prefetch(prefetches: list[tuple[Any, list[tuple[Any, str]]]]) -> None:
    for env_class, pairs in prefetches:
        try:
            env_class.prefetch(pairs)
        except Exception:  # the steps repeat the lookup and raise its error
            logger.warning("%s.prefetch failed", env_class.__name__, exc_info=True)


def _words(env: PooledEnv, call: str) -> str:
    return f"environment {env.name}: {call}"


def _step_words(env: PooledEnv, action: str) -> str:
    return _words(env, f"step({action!r})")


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
