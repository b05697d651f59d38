"""Engines of batches: one batch per flush; a bad request fails without its batch.

A closed engine refuses requests and ends the requests that it has.
"""

import weakref

import numpy as np
import pytest

from trca.policies.engines import ENGINES
from trca.policies.engines.engine import (
    BatchEngine,
    Completion,
    EngineSpec,
    Request,
    SamplingParams,
    SeveralEngines,
)
from trca.policies.engines.transformers import TransformersEngine


class Echo(BatchEngine):
    """Completes a prompt with the prompt; notes its batches."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def generate(self, requests, sampling):
        prompts = [tuple(request.prompt_ids.tolist()) for request in requests]
        self.batches.append((prompts, sampling.temperature))
        if (0,) in prompts:
            raise ValueError("0 is no token")
        return [Completion(r.prompt_ids, np.zeros(1, np.float32), "stop") for r in requests]


def submit(engine, *tokens, temperature=1.0):
    sampling = SamplingParams(temperature)
    return [engine.submit(Request(np.array([t], np.int32), t), sampling) for t in tokens]


def test_requests_before_a_flush_are_one_batch_per_sampling():
    engine = Echo()
    futures = submit(engine, 1, 2) + submit(engine, 3, temperature=0.5) + submit(engine, 4)
    assert not any(future.done() for future in futures)
    engine.flush()
    engine.flush()
    assert engine.batches == [([(1,), (2,), (4,)], 1.0), ([(3,)], 0.5)]
    assert [future.result().ids.tolist() for future in futures] == [[1], [2], [3], [4]]


class Small(BatchEngine):
    """Has memory for two requests; notes the batches whose memory is still held."""

    def __init__(self):
        super().__init__()
        self.caches, self.held = [], []

    def generate(self, requests, sampling):
        self.held.append(sum(cache() is not None for cache in self.caches))
        cache = np.zeros(len(requests))
        self.caches.append(weakref.ref(cache))
        if len(requests) > 2:
            raise MemoryError
        return [Completion(r.prompt_ids, np.zeros(1, np.float32), "stop") for r in requests]


def test_half_a_batch_runs_without_the_memory_of_the_batch():
    engine = Small()
    futures = submit(engine, *range(8))
    engine.flush()
    assert len([future.result() for future in futures]) == 8
    assert engine.held == [0] * 7


def test_a_bad_request_fails_without_its_batch():
    engine = Echo()
    futures = submit(engine, *range(8))
    engine.flush()
    with pytest.raises(ValueError, match="0 is no token"):
        futures[0].result()
    assert [future.result().ids.tolist() for future in futures[1:]] == [[t] for t in range(1, 8)]


def endpoint():
    spec = EngineSpec("m", options={"base_url": "http://127.0.0.1:9/v1"})
    return ENGINES.get("openai").open(spec)


@pytest.mark.parametrize("kind", ["batches", "transformers", "openai", "several"])
def test_a_closed_engine_refuses_requests_and_weights(kind, tiny, tokenizer):
    engine = {
        "batches": Echo,
        "transformers": lambda: TransformersEngine(tiny, tokenizer),
        "openai": endpoint,
        "several": lambda: SeveralEngines({"": Echo()}),
    }[kind]()
    engine.close()
    engine.close()
    with pytest.raises(RuntimeError, match="is closed: open another engine"):
        submit(engine, 1)
    with pytest.raises(RuntimeError):
        engine.load_weights({"": {}}, 1)


def test_requests_of_the_next_batch_end_with_an_error_when_the_engine_closes():
    engine = Echo()
    futures = submit(engine, 1, 2)
    engine.close()
    for future in futures:
        with pytest.raises(RuntimeError, match="was closed"):
            future.result(timeout=0)
