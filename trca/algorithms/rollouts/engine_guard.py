"""`EngineGuard`: awaits completions under a time limit, and replaces an engine that fails."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple

from trca.algorithms.rollouts.env_pool import Clock
from trca.common.errors import notes
from trca.common.threads import StuckError, Threads
from trca.policies.engines.engine import Completion, Engine, Request, SamplingParams
from trca.records.rollout import Incident

logger = logging.getLogger(__name__)

_CLOSING_S: Final = 60.0


class _Waiting(NamedTuple):
    """A request for the next batch, and the receiver of its finished completion."""

    request: Request
    sampling: SamplingParams
    answer: asyncio.Future[Future[Completion]]
    limit: asyncio.Timeout

    def fail(self, error: BaseException) -> None:
        """Answers with an error, which may be one that asyncio's futures refuse."""
        failed: Future[Completion] = Future()
        failed.set_exception(error)
        self.answer.set_result(failed)


class EngineGuard:
    """An engine, its time limit, and the function that opens another engine.

    ``patience`` is the longest wait for the second half of a batch, as a share of the time of the
    last batch.
    """

    patience = 0.1

    def __init__(
        self,
        engine: Engine,
        timeout_s: float,
        open_engine: Callable[[], Engine] | None,
        clock: Clock,
    ) -> None:
        """Takes an open engine; without ``open_engine`` a failed engine stays."""
        self.engine = engine
        self._timeout_s = timeout_s
        self._open_engine = open_engine
        self._clock = clock
        self._thread = Threads(1, "trca-engine")
        self._failed: set[str] = set()  # policies whose last request failed
        self._asked = self._playing = 0
        self._waiting: list[_Waiting] = []
        self._news = asyncio.Event()
        self._batches: asyncio.Task[None] | None = None
        self._patient_until = 0.0

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Announces the requests of an episode: a batch of an engine waits for them."""
        self._playing += 1
        try:
            yield
        finally:
            self._playing -= 1
            self._news.set()

    async def generate(self, request: Request, sampling: SamplingParams) -> Completion:
        """Returns the completion of a request, or raises its error or the engine's.

        Raises:
            StuckError: If the engine exceeds the time limit.
        """
        answer: asyncio.Future[Future[Completion]] = asyncio.get_running_loop().create_future()
        self._asked += 1
        try:
            with self._clock.during("generation"):
                batched = self.engine.in_batches
                async with asyncio.timeout(None if batched else self._timeout_s) as limit:
                    if batched:
                        self._wait_for_batch(_Waiting(request, sampling, answer, limit))
                    else:
                        self._submit(request, sampling, answer)
                    completion = (await answer).result()
        except Exception:
            self._failed.add(request.module)
            if not limit.expired():
                raise
            words = self._words(self._asked)
            raise StuckError(f"{words} has not returned for {self._timeout_s:g} s") from None
        finally:
            self._asked -= 1
        self._failed.discard(request.module)
        return completion

    async def sleep(self) -> None:
        """Ends a phase of sampling: the engine may free memory."""
        if not self._failed and (error := await self._call(self.engine.sleep, 0)):
            logger.warning("engine %s cannot free its memory: %s", self._name, one_line(error))

    async def renew(self) -> list[Incident]:
        """Opens another engine if the last generation failed; returns the incident."""
        if not self._failed or self._open_engine is None:
            return []
        name, reason = self._name, "generation failed"
        try:
            close = [(self.engine.close,)]
            await self._thread.run(close, lambda _: f"{name}.close()", _CLOSING_S)
            self.engine = self._open_engine()
            action = "opened again"
            self._failed.clear()
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

    def _submit(
        self,
        request: Request,
        sampling: SamplingParams,
        answer: asyncio.Future[Future[Completion]],
    ) -> None:
        future = self.engine.submit(request, sampling)
        future.add_done_callback(partial(_answer, asyncio.get_running_loop(), answer))

    def _wait_for_batch(self, waiting: _Waiting) -> None:
        if self._batches is None or self._batches.done():
            self._waiting, self._news = [], asyncio.Event()
            self._batches = asyncio.create_task(self._run_batches())
        self._waiting.append(waiting)
        self._news.set()

    async def _run_batches(self) -> None:
        """Runs batches as long as requests wait."""
        while self._waiting:
            await self._due()
            batch, self._waiting = self._waiting, []
            batch = [each for each in batch if not each.answer.done()]  # the others were given up
            if not batch:
                continue
            for each in batch:
                try:
                    self._submit(each.request, each.sampling, each.answer)
                except Exception as error:
                    each.fail(error)
            start = time.perf_counter()
            failure = await self._call(self.engine.flush, len(batch))
            ended = time.perf_counter()
            self._patient_until = ended + self.patience * (ended - start)
            for each in batch:
                if each.answer.done():
                    continue
                if failure is not None:
                    each.fail(failure)
                else:
                    each.limit.reschedule(asyncio.get_running_loop().time() + self._timeout_s)

    async def _due(self) -> None:
        """Waits until the next batch holds half of the episodes and the rest had their time.

        The rest steps during the batch.
        """
        while (stepping := self._playing - len(self._waiting)) > 0:
            rest_s = self._patient_until - time.perf_counter()
            if rest_s <= 0 and len(self._waiting) >= stepping:
                return
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(rest_s if rest_s > 0 else None):
                    await self._news.wait()

    async def _call(self, call: Callable[[], None], requests: int) -> BaseException | None:
        """Calls the engine in a thread; returns its error.

        The engine makes one call at a time: after a cancellation the next call waits.
        """
        words = self._words(requests)
        [made] = await self._thread.run([(call,)], lambda _: words, self._timeout_s, abandon=False)
        return made.exception()


def _answer(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any], future: Any) -> None:
    """Hands a finished completion over to the event loop, if it runs."""

    def answer_now() -> None:
        if not answer.done():
            answer.set_result(future)

    with suppress(RuntimeError):  # the event loop was closed
        loop.call_soon_threadsafe(answer_now)


def one_line(error: BaseException) -> str:
    """Type, message and notes of an error on one line."""
    return " ".join([*f"{type(error).__name__}: {error}".split(), *notes(error)])
