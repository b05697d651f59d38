"""vLLM behind one small interface: in this process, or in separate processes.

vLLM's classes change between versions; only this module and `vllm_worker` use them.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from multiprocessing import resource_tracker
from queue import Empty, SimpleQueue
from typing import Any

import vllm
import vllm.v1.engine.output_processor
from vllm.engine.arg_utils import AsyncEngineArgs, EngineArgs
from vllm.inputs.engine import tokens_input
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.llm_engine import LLMEngine
from vllm.v1.engine.logprobs import LogprobsProcessor

from trca.policies.engines.engine import SamplingParams

_SEEDS = 2**63
_SLEEP_LEVEL = 1
"""Level 2 would drop the weights, which an evaluation or an adapter's base needs again."""


class _BareLogprobs(LogprobsProcessor):  # type: ignore[misc]
    """Keeps log-probabilities without the text of each token.

    vLLM decodes each token one to three times for the text, on the thread that steps the engine or
    waits for it. For a small model this doubles the time.
    """

    @classmethod
    def from_new_request(cls, tokenizer: Any, request: Any) -> Any:
        """Makes a processor without tokenizer."""
        return super().from_new_request(None, request)


vllm.v1.engine.output_processor.LogprobsProcessor = _BareLogprobs


def sampling_params(sampling: SamplingParams, seed: int, ends: Sequence[int]) -> Any:
    """Returns vLLM's parameters of a request."""
    return vllm.SamplingParams(
        temperature=sampling.temperature,
        max_tokens=sampling.max_new_tokens,
        seed=int(seed) % _SEEDS,
        stop=list(sampling.stop),
        stop_token_ids=list(ends),
        include_stop_str_in_output=True,
        skip_special_tokens=False,
        detokenize=bool(sampling.stop),
        logprobs=0,
        flat_logprobs=True,
        skip_clone=True,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


class _Server:
    """Pushes of weights, for both kinds of engines."""

    _engine: Any

    def load(self, path: str) -> None:
        """Loads weights between two steps; running requests restart with the new weights."""
        self._push(lambda: self._engine.collective_rpc("load_trca_weights", args=(path,)))

    def adapter(self, push: int, folder: str) -> Any:
        """Loads an adapter; returns its request object for `submit`.

        The adapter is named by its push: vLLM loads a name and a number only once.
        """
        request = LoRARequest(f"push {push}", push, folder)
        self._push(lambda: self._engine.add_lora(request))
        return request

    def _push(self, load: Callable[[], Any]) -> None:
        raise NotImplementedError


class InProcess(_Server):
    """An engine in this process. One thread steps the engine and runs jobs between the steps."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        """Starts the engine with arguments of vLLM's ``EngineArgs``."""
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._running: dict[str, Future[Any]] = {}
        self._ids = count()
        self._open = True
        self._error: BaseException | None = None
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(arguments, started), name="trca-vllm", daemon=True
        )
        self._thread.start()
        started.result()

    def submit(self, ids: list[int], params: Any, salt: str, adapter: Any) -> Future[Any]:
        """Starts a request; see `Separate.submit`."""
        future: Future[Any] = Future()
        name = str(next(self._ids))

        def add() -> None:
            try:
                if self._error is not None:
                    raise RuntimeError(f"vLLM died: {self._error!r}")
                if not self._open:  # between two requests of a completion
                    raise RuntimeError("the engine was closed")
                prompt = tokens_input(ids, cache_salt=salt)
                self._engine.add_request(name, prompt, params, lora_request=adapter)
                self._running[name] = future
            except Exception as error:
                future.set_exception(error)

        self._jobs.put(add)
        return future

    def sleep(self) -> None:
        """Frees the GPU; running requests are lost."""

        def sleep() -> None:
            self._engine.sleep(level=_SLEEP_LEVEL)
            self._lose("the engine sleeps")

        self._call(sleep)

    def wake(self) -> None:
        """Takes the GPU back."""
        self._call(lambda: self._engine.wake_up())

    def close(self) -> None:
        """Stops the engine; running requests are lost."""

        def stop() -> None:
            self._open = False
            self._lose("the engine was closed")

        self._jobs.put(stop)
        self._thread.join()

    def _run(self, arguments: dict[str, Any], started: Future[None]) -> None:
        try:
            self._engine = LLMEngine.from_engine_args(EngineArgs(**arguments))
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(None)
        while self._open or not self._jobs.empty():
            try:
                job = self._jobs.get(block=not self._running)
            except Empty:
                job = self._step
            job()
        self._engine.engine_core.shutdown()

    def _step(self) -> None:
        try:
            outputs = self._engine.step()
        except Exception as error:
            self._error = error
            self._lose(f"vLLM died: {error!r}")
            return
        for output in outputs:
            if output.finished:
                self._running.pop(output.request_id).set_result(output)

    def _lose(self, reason: str) -> None:
        for future in self._running.values():
            future.set_exception(RuntimeError(reason))
        self._running.clear()

    def _push(self, load: Callable[[], Any]) -> None:
        def push() -> None:
            load()
            if not self._engine.reset_prefix_cache(reset_running_requests=True):
                raise RuntimeError("vLLM did not empty its prefix cache after a push of weights")

        self._call(push)

    def _call(self, job: Callable[[], Any]) -> None:
        """Runs a job between two steps and waits for its end."""
        done: Future[None] = Future()

        def run() -> None:
            try:
                job()
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)

        self._jobs.put(run)
        done.result()


class Separate(_Server):
    """An engine in separate processes, for GPUs and tensor parallelism."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        """Starts the engine with arguments of vLLM's ``EngineArgs``."""
        self._ids = count()
        self._engine: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="trca-vllm", daemon=True
        )
        self._thread.start()

        async def start() -> AsyncLLM:
            # Ctrl-C reaches all processes of a terminal, and vLLM's process would end the requests
            # of the iteration. The resource tracker starts first: its start unblocks SIGINT.
            resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            # With this context, limits on requests and tokens of a step follow the GPU's memory.
            context = UsageContext.LLM_CLASS
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments), usage_context=context)

        try:
            self._engine = self._wait(start())
        except Exception:
            self._end_loop()
            raise

    def submit(self, ids: list[int], params: Any, salt: str, adapter: Any) -> Future[Any]:
        """Starts a request; the result is vLLM's output of the finished request.

        Prompts of different salts share no entry of the prefix cache. ``adapter`` is a result of
        `adapter`, or None.
        """

        async def generate() -> Any:
            prompt = tokens_input(ids, cache_salt=salt)
            name = str(next(self._ids))
            outputs = self._engine.generate(prompt, params, name, lora_request=adapter)
            return [output async for output in outputs][-1]

        return asyncio.run_coroutine_threadsafe(generate(), self._loop)

    def sleep(self) -> None:
        """Frees the GPU; running requests are lost."""
        self._wait(self._engine.sleep(level=_SLEEP_LEVEL))

    def wake(self) -> None:
        """Takes the GPU back."""
        self._wait(self._engine.wake_up())

    def close(self) -> None:
        """Ends the engine's processes; running requests are lost."""

        async def cancel() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        engine, self._engine = self._engine, None
        engine.shutdown()
        self._wait(cancel())
        self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _push(self, load: Callable[[], Any]) -> None:
        async def push() -> None:
            try:
                await self._engine.pause_generation(mode="keep", clear_cache=True)
                await load()
            finally:
                await self._engine.resume_generation()

        self._wait(push())

    def _wait(self, coroutine: Any) -> Any:
        """Runs a coroutine to its end; an error if vLLM died, whose call would wait for ever."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        while True:
            try:
                return future.result(timeout=1)
            except TimeoutError:
                if future.done():
                    raise
                if self._engine is not None and self._engine.errored:
                    raise RuntimeError("vLLM died") from None
