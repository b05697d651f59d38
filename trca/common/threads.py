"""Threads for work that may never return: it is given up after a time, and holds up nothing else.

::

    threads = Threads(8, "readers")
    task = threads.submit(read, path)
    wait([task], limit=10.0, what=lambda _: f"read({path!r})")
    task.result()
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

logger = logging.getLogger(__name__)

_TICK_S: Final = 1.0
STILL_RUNNING: Final = "is still running after"
"""Words of the warning about a slow task."""

Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""


class StuckError(TimeoutError):
    """Something did not return in its time."""


class Task(Future[Any]):
    """A call in a thread, and what it returns.

    Attributes:
        since: When it started, by `time.monotonic`; None while it waits for a thread.
    """

    def __init__(self, owner: Threads) -> None:
        super().__init__()
        self.since: float | None = None
        self._owner = owner
        self._thread: threading.Thread | None = None
        self._rest: _Calls = deque()
        self._warned = False

    def overdue(self, limit: float) -> bool:
        """Whether it has run for longer than the limit, in seconds."""
        return not self.done() and self.since is not None and time.monotonic() - self.since > limit

    def give_up(self, error: Exception) -> None:
        """Ends it with an error, unless it has ended; its thread is left to itself."""
        self._owner._give_up(self, error)

    def warn_if_slow(self, limit: float, what: Callable[[], str]) -> None:
        """Logs one warning if it has run for longer than the limit, in seconds.

        Args:
            limit: Seconds.
            what: Describes the call.
        """
        if not self._warned and self.overdue(limit):
            self._warned = True
            place = self.place()
            at = f", at {place}" if place else ""
            logger.warning("%s %s %g s%s", what(), STILL_RUNNING, limit, at)

    def place(self) -> str:
        """Where its thread is, such as ``socket.py:720 in readinto``; blank when it has ended."""
        frame = sys._current_frames().get(self._thread.ident or 0) if self._thread else None
        if frame is None:
            return ""
        code = frame.f_code
        return f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"


class Threads:
    """Threads that take calls in the order in which they come. The process never waits for them."""

    def __init__(self, most: int, name: str) -> None:
        """Starts without a thread.

        Args:
            most: The most threads at a time, without those that were given up.
            name: Prefix of their names.
        """
        self._most, self._name = most, name
        self._queue: SimpleQueue[_Calls | None] = SimpleQueue()
        self._lock = threading.RLock()
        self._threads: set[threading.Thread] = set()
        self._open = 0

    def submit(self, function: Callable[..., Any], *args: Any) -> Task:
        """Calls a function in a thread."""
        return self.submit_in_turn([(function, args)])[0]

    def submit_in_turn(self, calls: Sequence[Call]) -> list[Task]:
        """Calls functions one after the other in one thread.

        It costs one hand-over to the thread, where a `submit` of each costs one a call. When one is
        given up, those behind it go on in another thread.
        """
        tasks = [Task(self) for _ in calls]
        if tasks:
            self._put(deque((t, f, args) for t, (f, args) in zip(tasks, calls, strict=True)))
        return tasks

    def close(self) -> None:
        """Ends the threads that have nothing to do."""
        with self._lock:
            for _ in self._threads:
                self._queue.put(None)
            self._threads.clear()

    def _put(self, calls: _Calls) -> None:
        with self._lock:
            self._open += 1
            self._queue.put(calls)
            if len(self._threads) < min(self._most, self._open):
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._threads.add(thread)
                thread.start()

    def _work(self) -> None:
        while (calls := self._queue.get()) is not None:
            while calls:
                if not self._call(calls):
                    return
            with self._lock:
                self._open -= 1

    def _call(self, calls: _Calls) -> bool:
        """Makes the first of the calls; returns whether it was not given up meanwhile."""
        task, function, args = calls.popleft()
        with self._lock:
            if task.done():  # it was given up before it started
                return True
            task._rest = calls
            task._thread, task.since = threading.current_thread(), time.monotonic()
        result, error = None, None
        try:
            result = function(*args)
        except BaseException as raised:  # it is the caller's
            error = raised
        with self._lock:
            if task.done():  # it was given up, and so was this thread
                return False
            task._thread = None
            if error is None:
                task.set_result(result)
            else:
                task.set_exception(error)
        return True

    def _give_up(self, task: Task, error: Exception) -> None:
        with self._lock:
            if task.done():
                return
            if task._thread is not None:
                self._open -= 1
                self._threads.discard(task._thread)
                if task._rest:
                    self._put(task._rest)
            task.set_exception(error)


_Calls = deque[tuple[Task, Callable[..., Any], tuple[Any, ...]]]


def wait(
    tasks: Sequence[Task], limit: float, what: Callable[[int], str], slow: float = math.inf
) -> None:
    """Waits for the end of tasks, and gives up each that runs for more than ``limit`` seconds.

    Args:
        tasks: The tasks of one `Threads.submit_in_turn`. Their results or errors, a `StuckError`
            where one was given up, are then there.
        limit: Seconds that each may run.
        what: Says what it is that does not return, by its place in the tasks.
        slow: Seconds after which a warning about a task that still runs is logged.
    """
    ended = threading.Event()
    tasks[-1].add_done_callback(lambda _: ended.set())
    while not ended.wait(min(limit, slow, _TICK_S)):
        for place, task in enumerate(tasks):
            task.warn_if_slow(slow, partial(what, place))
            if task.overdue(limit):
                task.give_up(stuck(task, limit, what(place)))


def stuck(task: Task, limit: float, what: str) -> StuckError:
    """The error of a task that does not return; says where it is."""
    place = task.place()
    return StuckError(
        f"{what} has not returned for {limit:g} s" + (f", at {place}" if place else "")
    )
