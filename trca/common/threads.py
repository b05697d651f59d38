"""Threads for calls that may never return: a call is abandoned after a time limit.

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
    """A call did not return within its time limit."""


class Task(Future[Any]):
    """A call in a thread, and its result.

    Attributes:
        since: Start of the call, by `time.monotonic`; `None` while the call waits for a thread.
    """

    def __init__(self, owner: Threads) -> None:
        super().__init__()
        self.since: float | None = None
        self._owner = owner
        self._thread: threading.Thread | None = None
        self._rest: _Calls = deque()
        self._warned = False

    def overdue(self, limit: float) -> bool:
        """Whether the call has run for longer than the limit, in seconds."""
        return not self.done() and self.since is not None and time.monotonic() - self.since > limit

    def give_up(self, error: Exception) -> None:
        """Ends an unfinished task with an error, and abandons its thread."""
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
        """Returns the thread's current line, such as ``socket.py:720 in readinto``.

        Blank if the thread has ended.
        """
        frame = sys._current_frames().get(self._thread.ident or 0) if self._thread else None
        if frame is None:
            return ""
        code = frame.f_code
        return f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"


class Threads:
    """Daemon threads that run calls in order of submission. The process never waits for them."""

    def __init__(self, most: int, name: str) -> None:
        """Creates the pool without threads.

        Args:
            most: Largest number of threads, without abandoned threads.
            name: Name of the threads.
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
        """Calls functions sequentially in one thread.

        All calls cost one hand-over to the thread, instead of one hand-over per `submit`. After an
        abandoned call, the remaining calls run in another thread.
        """
        tasks = [Task(self) for _ in calls]
        if tasks:
            self._put(deque((t, f, args) for t, (f, args) in zip(tasks, calls, strict=True)))
        return tasks

    def close(self) -> None:
        """Ends the idle threads."""
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
        """Runs the first call. Returns False if the call was abandoned while it ran."""
        task, function, args = calls.popleft()
        with self._lock:
            if task.done():  # abandoned before its start
                return True
            task._rest = calls
            task._thread, task.since = threading.current_thread(), time.monotonic()
        result, error = None, None
        try:
            result = function(*args)
        except BaseException as raised:  # passed on to the caller
            error = raised
        with self._lock:
            if task.done():  # abandoned, together with this thread
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
    """Waits for the end of tasks, and abandons each task that runs for more than ``limit`` seconds.

    Args:
        tasks: The tasks of one `Threads.submit_in_turn`. Afterwards every task has a result or an
            error; the error of an abandoned task is a `StuckError`.
        limit: Time limit of a task in seconds.
        what: Returns the description of a task, by its index, for the error message.
        slow: Seconds after which a warning about a running task is logged.
    """
    ended = threading.Event()
    tasks[-1].add_done_callback(lambda _: ended.set())
    while not ended.wait(min(limit, slow, _TICK_S)):
        for place, task in enumerate(tasks):
            task.warn_if_slow(slow, partial(what, place))
            if task.overdue(limit):
                task.give_up(stuck(task, limit, what(place)))


def stuck(task: Task, limit: float, what: str) -> StuckError:
    """Returns the error of a task that does not return, with the thread's current line."""
    place = task.place()
    return StuckError(
        f"{what} has not returned for {limit:g} s" + (f", at {place}" if place else "")
    )
