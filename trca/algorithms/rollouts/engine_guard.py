"""`EngineGuard`: calls an engine under a time limit and replaces an engine that fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final

from trca.common.errors import notes
from trca.common.threads import StuckError, Threads, wait
from trca.policies.engines.engine import Completion, Engine, Request, SamplingParams
from trca.records.failures import Incident

logger = logging.getLogger(__name__)

_CLOSING_S: Final = 60.0


class EngineGuard:
    """An engine, its time limit, and the function that opens another engine.

    Attributes:
        engine: The engine.
        batch_s: Seconds of the last `flush`.
    """

    def __init__(
        self, engine: Engine, timeout_s: float, open_engine: Callable[[], Engine] | None
    ) -> None:
        """Takes an open engine.

        Args:
            engine: The engine.
            timeout_s: Longest time of one generation, in seconds.
            open_engine: Opens an engine with the same weights; None if a failed engine stays.
        """
        self.engine = engine
        self.batch_s = 0.0
        self._timeout_s = timeout_s
        self._open_engine = open_engine
        self._thread = Threads(1, "trca-engine")
        self._failed = False

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Submits a request to the engine."""
        return self.engine.submit(request, sampling)

    def flush(self, requests: int) -> Exception | None:
        """Runs the submitted batch.

        Args:
            requests: Number of requests under way, for the error.

        Returns:
            The engine's error, or a `StuckError` after the time limit; None without an error.
        """
        start = time.perf_counter()
        error = self._call(self.engine.flush, requests)
        self.batch_s = time.perf_counter() - start
        return error

    def sleep(self) -> None:
        """Ends a phase of sampling: the engine may free memory."""
        error = None if self._failed else self._call(self.engine.sleep, 0)
        if error is not None:
            logger.warning("engine %s does not go to sleep: %s", self._name, one_line(error))

    def note_completions(self, completions: Iterable[Future[Any]]) -> None:
        """Notes from finished completions whether the engine works; no completion changes nothing.

        The engine counts as failed after a completion with an error.
        """
        errors = [completion.exception() for completion in completions]
        if errors:
            self._failed = any(errors)

    def overdue(self, asked: float, now: float, requests: int) -> StuckError | None:
        """The error of a request that takes too long; None within the time limit.

        Args:
            asked: Time of the request, by `time.monotonic`.
            now: Current time, by `time.monotonic`.
            requests: Number of requests under way.
        """
        if now - asked <= self._timeout_s:
            return None
        self._failed = True
        return StuckError(f"{self._words(requests)} has not returned for {self._timeout_s:g} s")

    def renew(self) -> list[Incident]:
        """Opens another engine if the last generation failed; returns the incident."""
        if not self._failed or self._open_engine is None:
            return []
        name, reason = self._name, "it does not generate any more"
        try:
            closing = self._thread.submit(self.engine.close)
            wait([closing], _CLOSING_S, lambda _: f"{name}.close()")
            self.engine = self._open_engine()
            action, self._failed = "opened again", False
        except Exception as error:
            action = f"not opened again: {one_line(error)}"
        logger.warning("engine %s: %s; %s", name, reason, action)
        return [Incident(time.time(), "engine", name, "", reason, action)]

    def close(self) -> None:
        """Closes the engine."""
        self._thread.close()
        self.engine.close()

    @property
    def _name(self) -> str:
        return type(self.engine).__name__

    def _words(self, requests: int) -> str:
        return f"engine {self._name} with {requests} requests"

    def _call(self, call: Callable[[], None], requests: int) -> Exception | None:
        """Calls the engine in a thread; returns its error."""
        task = self._thread.submit(call)
        words = self._words(requests)
        wait([task], self._timeout_s, lambda _: words)
        error = task.exception()
        self._failed = error is not None
        return error if error is None or isinstance(error, Exception) else RuntimeError(repr(error))


def one_line(error: BaseException) -> str:
    """Type, message and notes of an error on one line."""
    return " ".join([*f"{type(error).__name__}: {error}".split(), *notes(error)])
