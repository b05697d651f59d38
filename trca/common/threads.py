"""Daemon threads for calls that may never return, and event loops that wait for them.

::

    threads = Threads(8, "readers")
    text = threads.submit(read, path).result()                            # waits in this thread
    first, second = await threads.run([(read, a), (read, b)], words, 10)  # waits in an event loop
    first.result()  # raises a `StuckError` if the call took more than 10 seconds
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

logger = logging.getLogger(__name__)

_TICK_S: Final = 1.0
STILL_RUNNING: Final = "is still running after"
"""Words of the warning about a slow call."""

T = TypeVar("T")


class StuckError(TimeoutError):
    """A call did not return within its time limit."""


class Call(Future[Any]):
    """A call in a thread, and its outcome.

    Attributes:
        rest: The later calls for the same thread.
        since: Start of the call, by `time.monotonic`; 0 before the start.
    """

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], rest: deque[Call]):
        super().__init__()
        self.rest = rest
        self.since = 0.0
        self.warned = False
        self._function, self._args = function, args
        self._thread: threading.Thread | None = None

    def run(self) -> bool:
        """Makes the call in this thread. Returns False if the call was abandoned meanwhile."""
        self._thread, self.since = threading.current_thread(), time.monotonic()
        if not self.set_running_or_notify_cancel():
            return True
        try:
            result = self._function(*self._args)
        except Exception as error:
            return _ended(self.set_exception, error)
        except BaseException as error:  # such as `SystemExit`, which ends an event loop
            return _ended(self.set_exception, RuntimeError(repr(error)))
        return _ended(self.set_result, result)

    def place(self) -> str:
        """The thread's current line, such as ``, at socket.py:720 in readinto``; may be empty."""
        frame = sys._current_frames().get(self._thread.ident or 0) if self._thread else None
        if frame is None:
            return ""
        code = frame.f_code
        return f", at {Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"


class Threads:
    """Daemon threads that make calls in order of submission. The process never waits for them."""

    def __init__(self, most: int, name: str) -> None:
        """Creates the pool for at most ``most`` threads, without abandoned threads."""
        self._most, self._name = most, name
        self._turns: SimpleQueue[deque[Call] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0
        self._closed = False

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Calls a function in a thread, without a time limit."""
        return self._submit([(function, *args)])[0]

    async def run(
        self,
        calls: Sequence[tuple[Any, ...]],
        words: Callable[[int], str],
        limit_s: float = math.inf,
        slow_s: float = math.inf,
        *,
        abandon: bool = True,
    ) -> list[Call]:
        """Calls functions one after the other in one thread, and waits for the last.

        All calls cost one hand-over to a thread. A call that exceeds the limit is abandoned with
        its thread, and another thread makes the rest of the calls. After a cancellation, calls that
        have not started are not made.

        Args:
            calls: Functions with their arguments; at least one.
            words: Returns the description of a call, by its index, for messages.
            limit_s: Time limit of a call, in seconds.
            slow_s: Seconds after which a warning about a running call is logged.
            abandon: Whether a cancellation abandons a running call. Otherwise the next calls of
                the thread wait for its end.

        Returns:
            The calls. Each has a result or an error; the error of an abandoned call is a
            `StuckError` with the thread's current line.
        """
        made = self._submit(calls)
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def end(_: object) -> None:
            with suppress(RuntimeError):  # the event loop was closed
                loop.call_soon_threadsafe(ended.set)

        made[-1].add_done_callback(end)
        while not ended.is_set():
            try:
                async with asyncio.timeout(min(limit_s, slow_s, _TICK_S)):
                    await ended.wait()
            except TimeoutError:
                for number, call in enumerate(made):
                    if not call.running():
                        continue
                    seconds = time.monotonic() - call.since
                    if seconds > limit_s:
                        late = f"{words(number)} has not returned for {limit_s:g} s{call.place()}"
                        self._abandon(call, StuckError(late))
                    elif seconds > slow_s and not call.warned:
                        call.warned = True
                        slow = words(number), STILL_RUNNING, slow_s, call.place()
                        logger.warning("%s %s %g s%s", *slow)
            except asyncio.CancelledError:
                begun = [call for call in made if not call.cancel()]
                for call in begun if abandon else ():
                    self._abandon(call, StuckError("the wait for the call was cancelled"))
                raise
        return made

    def close(self) -> None:
        """Ends the threads after their calls. No further call can be made."""
        for _ in range(self._count):
            self._turns.put(None)
        self._count, self._closed = 0, True

    def _submit(self, calls: Sequence[tuple[Any, ...]]) -> list[Call]:
        if self._closed:
            raise RuntimeError(f"the threads {self._name} are closed")
        turn = deque[Call]()
        made = [Call(function, args, turn) for function, *args in calls]
        turn.extend(made)
        if self._idle.acquire(blocking=False) or self._count == self._most:
            self._turns.put(turn)
        else:
            self._count += 1
            self._start(turn)
        return made

    def _start(self, turn: deque[Call]) -> None:
        threading.Thread(target=self._work, args=(turn,), name=self._name, daemon=True).start()

    def _work(self, turn: deque[Call] | None) -> None:
        while turn is not None:
            while turn:
                if not turn.popleft().run():
                    return
            self._idle.release()
            turn = self._turns.get()

    def _abandon(self, call: Call, error: StuckError) -> None:
        """Ends a running call with an error, and replaces its thread."""
        if _ended(call.set_exception, error):
            self._start(call.rest)


def _ended(end: Callable[[Any], None], outcome: Any) -> bool:
    """Ends a call with an outcome. Returns False if the call has an outcome."""
    try:
        end(outcome)
    except InvalidStateError:
        return False
    return True


def run_to_end(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in a new event loop: in this thread, or in another if this one has a loop.

    A notebook is such a thread. Ctrl-C cancels the coroutine.
    """
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def run() -> T:
        with runner:
            return runner.run(main)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    loop, thread = runner.get_loop(), Threads(1, "trca-loop")
    try:
        result: Future[T] = thread.submit(run)
        thread.close()
        return result.result()
    except BaseException:
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(lambda: [t.cancel() for t in asyncio.all_tasks(loop)])
        raise
