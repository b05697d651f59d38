"""Engines of batches: what is submitted together is generated together, and fails alone."""

import numpy as np
import pytest

from trca.policies.engines.engine import BatchEngine, Completion, Request, SamplingParams


class Echo(BatchEngine):
    """Says the prompt again, and writes down its batches."""

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


def test_what_was_submitted_before_a_flush_is_one_batch_for_each_sampling():
    engine = Echo()
    futures = submit(engine, 1, 2) + submit(engine, 3, temperature=0.5) + submit(engine, 4)
    assert not any(future.done() for future in futures)
    engine.flush()
    engine.flush()
    assert engine.batches == [([(1,), (2,), (4,)], 1.0), ([(3,)], 0.5)]
    assert [future.result().ids.tolist() for future in futures] == [[1], [2], [3], [4]]


def test_a_request_that_breaks_its_batch_fails_alone():
    engine = Echo()
    futures = submit(engine, *range(8))
    engine.flush()
    with pytest.raises(ValueError, match="0 is no token"):
        futures[0].result()
    assert [future.result().ids.tolist() for future in futures[1:]] == [[t] for t in range(1, 8)]
