"""Threads for work that may never return: it is given up after a time, and holds up nothing else.

::

    threads = Threads(8, "readers")
    task = threads.submit(read, path)
    wait(task, limit=10.0, what=f"read({path!r})")
    task.result()
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

_TICK_S: Final = 1.0


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

    def overdue(self, limit: float) -> bool:
        """Whether it has run for longer than the limit, in seconds."""
        return not self.done() and self.since is not None and time.monotonic() - self.since > limit

    def give_up(self, error: Exception) -> None:
        """Ends it with an error, unless it has ended; its thread is left to itself."""
        self._owner._give_up(self, error)

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
        self._calls: SimpleQueue[tuple[Task, Callable[..., Any], tuple[Any, ...]] | None]
        self._calls = SimpleQueue()
        self._lock = threading.RLock()
        self._threads: set[threading.Thread] = set()
        self._open = 0

    def submit(self, function: Callable[..., Any], *args: Any) -> Task:
        """Calls a function in a thread."""
        task = Task(self)
        with self._lock:
            self._open += 1
            self._calls.put((task, function, args))
            self._start()
        return task

    def close(self) -> None:
        """Ends the threads that have nothing to do."""
        with self._lock:
            for _ in self._threads:
                self._calls.put(None)
            self._threads.clear()

    def _start(self) -> None:
        if len(self._threads) < min(self._most, self._open):
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.add(thread)
            thread.start()

    def _work(self) -> None:
        me = threading.current_thread()
        while (call := self._calls.get()) is not None:
            task, function, args = call
            with self._lock:
                if task.done():  # it was given up before it started
                    continue
                task._thread, task.since = me, time.monotonic()
            result, error = None, None
            try:
                result = function(*args)
            except BaseException as raised:  # it is the caller's
                error = raised
            with self._lock:
                if task.done():  # it was given up, and so was this thread
                    return
                task._thread = None
                self._open -= 1
                if error is None:
                    task.set_result(result)
                else:
                    task.set_exception(error)
            del call, task, function, args, result, error

    def _give_up(self, task: Task, error: Exception) -> None:
        with self._lock:
            if task.done():
                return
            self._open -= 1
            if task._thread is not None:
                self._threads.discard(task._thread)
            task.set_exception(error)
            self._start()


def wait(task: Task, limit: float, what: str) -> None:
    """Waits for the end of a task, and gives it up after ``limit`` seconds.

    Args:
        task: The task; its result or error, a `StuckError` where it was given up, is then there.
        limit: Seconds that it may run.
        what: What the error says that does not return.
    """
    ended = threading.Event()
    task.add_done_callback(lambda _: ended.set())
    while not ended.wait(min(limit, _TICK_S)):
        if task.overdue(limit):
            task.give_up(stuck(task, limit, what))


def stuck(task: Task, limit: float, what: str) -> StuckError:
    """The error of a task that does not return; says where it is."""
    place = task.place()
    return StuckError(
        f"{what} has not returned for {limit:g} s" + (f", at {place}" if place else "")
    )
