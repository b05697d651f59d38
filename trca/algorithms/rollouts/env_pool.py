"""`EnvPool`: makes, steps and times the environments of a rollout loop, and reuses them.

All calls of environments run in threads, so that the loop can give up a call that never returns.
Environments that wait on a network have a thread each. All further environments share one thread,
which takes the steps of a turn in order as one call: a hand-over costs as much as a fast step.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, SupportsFloat

import gymnasium

from trca.common.threads import Call, Threads
from trca.envs.annotate import NO_OPERATORS, Operators
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


class Clock:
    """Wall-clock seconds of ``generation``, and of ``environment`` while nothing generates."""

    def __init__(self) -> None:
        self._seconds = {"generation": 0.0, "environment": 0.0}
        self._running = Counter[str]()
        self._since = 0.0

    @contextmanager
    def during(self, activity: str) -> Iterator[None]:
        """Counts the time of a block, which may overlap with others."""
        self._change(activity, 1)
        try:
            yield
        finally:
            self._change(activity, -1)

    def take(self) -> dict[str, float]:
        """Returns the seconds by activity since the last call."""
        taken = dict(self._seconds)
        self._seconds = dict.fromkeys(taken, 0.0)
        return taken

    def _change(self, activity: str, count: int) -> None:
        now = time.perf_counter()
        counted = next((each for each in self._seconds if self._running[each]), None)
        if counted is not None:
            self._seconds[counted] += now - self._since
        self._since = now
        self._running[activity] += count


class PooledEnv:
    """An environment of the pool.

    Attributes:
        env: The environment, wrapped.
        kind: Split and arguments of the environment, by which it is reused.
        idle_actions: Its admissible actions that change nothing.
        waits: Whether its steps and resets wait on a network.
        prefetches: Whether its class can look up the needs of several steps together.
        operators: Ids of the rubric operators that judge each agent, in library order.
        busy: Whether a call runs; always after a call that never returned.
        seconds: Seconds of its calls.
    """

    def __init__(self, env: gymnasium.Env[str, str], kind: str) -> None:
        inner = env.unwrapped
        self.env, self.kind = env, kind
        self.max_steps: int = env.get_wrapper_attr("max_steps")
        self.idle_actions: frozenset[str] = getattr(inner, "idle_actions", frozenset())
        self.waits: bool = getattr(inner, "waits", False)
        own_classes = (each for each in type(inner).__mro__ if each is not TextEnv)
        self.prefetches = any("prefetch" in vars(each) for each in own_classes)
        self.operators: Mapping[str, tuple[str, ...]] = {
            agent: tuple(each.ids) for agent, each in operators_of(env).items()
        }
        self.name = env.spec.id if env.spec else type(inner).__name__
        self.busy = False
        self.seconds = self._judged = 0.0

    def call(self, method: Callable[..., Any], *args: Any) -> Any:
        """Calls a method of the environment, and counts the seconds."""
        self.busy, start = True, time.perf_counter()
        try:
            return method(*args)
        finally:
            self.seconds += time.perf_counter() - start
            self.busy = False

    def take_seconds(self) -> tuple[float, float]:
        """Returns the seconds of its calls since the last call, and the part of the rubric."""
        seconds, judged = self.seconds, _attribute(self.env, "judging_s", 0.0)
        judging, self.seconds, self._judged = judged - self._judged, 0.0, judged
        return seconds, judging


class EnvPool:
    """Environments by split and arguments, reused: making one costs more than a reset."""

    def __init__(
        self, make_env: Callable[..., gymnasium.Env[str, str]], timeout_s: float = math.inf
    ) -> None:
        """``make_env`` takes a split and, if there are any, changes of the arguments."""
        self.clock = Clock()
        self._make_env = make_env
        self._timeout_s = timeout_s
        self._made: list[PooledEnv] = []
        self._idle: list[PooledEnv] = []
        self._broken: list[PooledEnv] = []
        self._open_threads()

    async def take(
        self, split: str, changes: Mapping[str, Any] | None = None, *, fresh: bool = False
    ) -> PooledEnv:
        """Takes an environment of a split, and makes it if necessary, without a time limit.

        ``fresh`` makes a new environment although another is idle.
        """
        kind = f"{split} {changes}" if changes else split
        env = next((each for each in self._idle if each.kind == kind and not fresh), None)
        if env is not None:
            self._idle.remove(env)
            return env
        arguments = (split, changes) if changes else (split,)
        [call] = await self._one.run(
            [(lambda: PooledEnv(self._make_env(*arguments), kind),)], lambda _: "make_env()"
        )
        self._made.append(call.result())
        return self._made[-1]

    def give_back(self, env: PooledEnv, *, broken: bool = False) -> None:
        """Takes an environment back, which is ``broken`` if an error left it in an unknown state.

        `close_broken` closes a broken environment, unless a call never returned. The child process
        of an `IsolatedEnv` is killed.
        """
        if not broken:
            self._idle.append(env)
            return
        self._made.remove(env)
        played = env.env.unwrapped
        if isinstance(played, TeamEnv):
            played = played.inner.unwrapped
        if isinstance(played, IsolatedEnv):
            played.kill()
        elif not env.busy:
            self._broken.append(env)

    async def reset(self, env: PooledEnv, seed: int, options: dict[str, Any]) -> Start:
        """Starts an episode as `gymnasium.Env.reset`; a `StuckError` after the time limit."""
        threads = self._many if env.waits else self._one
        reset = partial(env.env.reset, seed=seed, options=options)
        result: Start = await self._call(threads, env, f"reset(options={options})", reset)
        return result

    async def step(self, env: PooledEnv, action: str) -> Transition:
        """Takes a step as `gymnasium.Env.step`; a `StuckError` after the time limit."""
        if env.waits:
            if env.prefetches:
                await self._prefetch.join((env, action))
            words = f"step({action!r})"
            result: Transition = await self._call(self._many, env, words, env.env.step, action)
        else:
            with self.clock.during("environment"):
                call = await self._turn.join((env, action))
            result = call.result()
        return result

    async def close_broken(self) -> None:
        """Closes the broken environments."""
        broken, self._broken = self._broken, []
        for env in broken:
            with suppress(Exception):
                await self._call(self._one, env, "close()", env.env.close)

    def leave_calls(self) -> None:
        """Leaves the calls of an ended event loop to their threads; new threads make later calls.

        A second Ctrl-C ends a loop before it has cancelled its calls, and one may never return.
        """
        self._close_threads()
        self._open_threads()

    async def close(self) -> None:
        """Closes all environments."""
        self._broken += self._idle
        self._idle.clear()
        await self.close_broken()
        self._close_threads()

    def _open_threads(self) -> None:
        self._one = Threads(1, "trca-env")
        self._many = Threads(_MOST_THREADS, "trca-env")
        self._turn = _Together(self._step_all)
        self._prefetch = _Together(self._prefetch_all)

    def _close_threads(self) -> None:
        self._one.close()
        self._many.close()

    def take_seconds(self) -> dict[str, float]:
        """Returns the seconds of all activities since the last call.

        Those of environments are split into ``environment`` and ``judging``, by the seconds of the
        rubrics.
        """
        seconds = self.clock.take()
        taken = [env.take_seconds() for env in self._made]
        total, judged = (sum(column) for column in zip((0.0, 0.0), *taken, strict=True))
        judging = seconds["environment"] * judged / total if total else 0.0
        return seconds | {"environment": seconds["environment"] - judging, "judging": judging}

    async def _call(
        self, threads: Threads, env: PooledEnv, words: str, method: Callable[..., Any], *args: Any
    ) -> Any:
        """Calls a method of an environment in a thread."""
        with self.clock.during("environment"):
            [call] = await threads.run(
                [(env.call, method, *args)], lambda _: _words(env, words), self._timeout_s, SLOW_S
            )
        return call.result()

    async def _step_all(self, steps: Sequence[tuple[PooledEnv, str]]) -> list[Call]:
        """Takes the steps of a turn one after the other, in the shared thread."""
        calls: list[tuple[Any, ...]] = []
        if any(env.prefetches for env, _ in steps):
            calls.append((_prefetch, steps))
        first = len(calls)
        calls += [(env.call, env.env.step, action) for env, action in steps]

        def words(number: int) -> str:
            if number < first:
                return _words(steps[0][0], "prefetch()")
            env, action = steps[number - first]
            return _words(env, f"step({action!r})")

        return (await self._one.run(calls, words, self._timeout_s, SLOW_S))[first:]

    async def _prefetch_all(self, steps: Sequence[tuple[PooledEnv, str]]) -> list[None]:
        """Looks up the needs of the steps of a turn."""
        words = _words(steps[0][0], "prefetch()")
        await self._many.run([(_prefetch, steps)], lambda _: words, self._timeout_s, SLOW_S)
        return [None] * len(steps)


class _Together:
    """Does at once what coroutines ask for in the same pass of the event loop."""

    def __init__(self, do_all: Callable[[list[Any]], Awaitable[Sequence[Any]]]) -> None:
        self._do_all = do_all
        self._items: list[Any] = []
        self._task: asyncio.Task[Sequence[Any]] | None = None

    async def join(self, item: Any) -> Any:
        """Adds an item to the next call of `do_all`; returns its part of the result."""
        if self._task is None or self._task.done():  # done: cancelled before its start
            self._items = []
            self._task = asyncio.create_task(self._start(self._items))
        number = len(self._items)
        self._items.append(item)
        return (await asyncio.shield(self._task))[number]

    async def _start(self, items: list[Any]) -> Sequence[Any]:
        self._task = None
        return await self._do_all(items)


def operators_of(env: gymnasium.Env[str, str]) -> Mapping[str, Operators]:
    """Returns the rubric operators of each agent that plays an environment."""
    unjudged = {DEFAULT_AGENT: NO_OPERATORS}
    operators: Mapping[str, Operators] = _attribute(env, "operators", unjudged)
    return operators


def _attribute(env: gymnasium.Env[str, str], name: str, default: Any) -> Any:
    """An attribute of an environment or a wrapper, such as those of `RubricAnnotation`."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else default


def _prefetch(steps: Sequence[tuple[PooledEnv, str]]) -> None:
    """Lets each class that can prefetch look up the needs of its environments' actions."""
    by_class: dict[Any, list[tuple[Any, str]]] = {}
    for env, action in steps:
        if env.prefetches:
            inner = env.env.unwrapped
            by_class.setdefault(type(inner), []).append((inner, as_action(action)))
    for env_class, pairs in by_class.items():
        try:
            env_class.prefetch(pairs)
        except Exception:  # the steps repeat the lookup and raise its error
            logger.warning("%s.prefetch failed", env_class.__name__, exc_info=True)


def _words(env: PooledEnv, call: str) -> str:
    return f"environment {env.name}: {call}"
