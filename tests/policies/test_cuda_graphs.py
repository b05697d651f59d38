"""The tensors around CUDA graphs; `tests/algorithms/test_gpu.py` has the graphs themselves."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from tests.policies.test_transformers_engine import requests, same
from trca.policies.engines.cuda_graphs import GraphedPass
from trca.policies.engines.engine import SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.weights import export_weights


class Repeated(GraphedPass):
    """Repeats a pass with the tensors of its first run, as a graph does."""

    made = 0

    def _make(self, tokens: Any, positions: Any, cache: Any) -> Any:
        self.made += 1
        of_the_first_run = copy.copy(cache)
        of_the_first_run._own = [copy.copy(layer) for layer in cache._own]
        of_the_first_run.layers = of_the_first_run._own
        return super()._make(tokens, positions, of_the_first_run)

    def _captured(self, run: Callable[[], None]) -> Callable[[], None]:
        return run


class Refused(GraphedPass):
    def _captured(self, run: Callable[[], None]) -> Callable[[], None]:
        run()
        raise RuntimeError("operation not permitted when stream is capturing\nCUDA error ...")


def graphed(
    model: Any, tokenizer: Any, kind: type[GraphedPass] = Repeated, most_bytes: int = 1 << 30
) -> TransformersEngine:
    engine = TransformersEngine(model, tokenizer)
    engine._pass = kind(engine._next_logits, len(tokenizer), most_bytes)
    return engine


@pytest.mark.parametrize("name", ["tiny", "qwen"])
def test_repeated_passes_give_the_same_completions(
    name: str, tokenizer: Any, request: pytest.FixtureRequest
) -> None:
    """Rows end, caches grow, and later batches are larger or smaller than the first."""
    model = request.getfixturevalue(name)
    asked = requests(len(tokenizer), 26)
    engine, plain = graphed(model, tokenizer), TransformersEngine(model, tokenizer)
    ended, whole = SamplingParams(1.0, 110, stop=("e",)), SamplingParams(1.0, 100)
    for some, sampling in (
        (asked[:9], ended),
        (asked, ended),
        (asked[9:12], whole),
        (asked, ended),
    ):
        both = [each.generate(some, sampling) for each in (engine, plain)]
        assert all(same(one, other) for one, other in zip(*both, strict=True))
    before = engine._pass.made  # type: ignore[attr-defined]
    assert 5 < before < 60
    engine.generate(asked, ended)
    assert engine._pass.made == before  # type: ignore[attr-defined]


def test_repeated_passes_use_new_weights(tiny: Any, tokenizer: Any) -> None:
    engine = graphed(copy.deepcopy(tiny), tokenizer)
    asked, sampling = requests(len(tokenizer), 8), SamplingParams(max_new_tokens=16)
    before = engine.generate(asked, sampling)
    weights = {name: value * np.float32(1.2) for name, value in export_weights(tiny).items()}
    engine.load_weights(weights, 1)
    after = engine.generate(asked, sampling)
    changed = copy.deepcopy(tiny)
    with torch.no_grad():
        for value in changed.parameters():
            value.mul_(1.2)
    expected = TransformersEngine(changed, tokenizer).generate(asked, sampling)
    assert all(same(one, other) for one, other in zip(after, expected, strict=True))
    assert not any(same(one, other) for one, other in zip(after, before, strict=True))


def test_a_large_cache_has_no_graph(tiny: Any, tokenizer: Any) -> None:
    """The first requests fit into the buffers, and the cache of the others grows beyond them."""
    asked, sampling = requests(len(tokenizer), 24), SamplingParams(max_new_tokens=70)
    plain = TransformersEngine(tiny, tokenizer)
    cache = 2 * tiny.config.num_hidden_layers * tiny.config.num_key_value_heads
    row = 4 * cache * tiny.config.hidden_size // tiny.config.num_attention_heads
    engine = graphed(tiny, tokenizer, most_bytes=24 * row * 192)
    for some in (asked[:8], asked, asked[:8]):
        both = [each.generate(some, sampling) for each in (engine, plain)]
        assert all(same(one, other) for one, other in zip(*both, strict=True))
    sizes = {rows * size for rows, size in engine._pass._graphs}  # type: ignore[attr-defined]
    assert 0 < max(sizes) <= 24 * 192
    for most in (0, 8 * row):
        assert graphed(tiny, tokenizer, most_bytes=most).generate(asked, sampling)


def test_an_abandoned_batch_and_its_follower_do_not_mix(tiny: Any, tokenizer: Any) -> None:
    asked, sampling = requests(len(tokenizer), 32), SamplingParams(max_new_tokens=40)
    engine, plain = graphed(tiny, tokenizer), TransformersEngine(tiny, tokenizer)
    halves = asked[:16], asked[16:]
    expected = [plain.generate(half, sampling) for half in halves]
    with ThreadPoolExecutor(2) as pool:
        actual = list(pool.map(lambda half: engine.generate(half, sampling), halves))
    for one, other in zip(expected, actual, strict=True):
        assert all(same(mine, yours) for mine, yours in zip(one, other, strict=True))


def test_a_model_that_no_graph_holds_runs_without(
    tiny: Any, tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine, asked = graphed(tiny, tokenizer, Refused), requests(len(tokenizer), 12)
    for _ in range(2):
        both = [
            each.generate(asked, SamplingParams(max_new_tokens=40))
            for each in (engine, TransformersEngine(tiny, tokenizer))
        ]
        assert all(same(one, other) for one, other in zip(*both, strict=True))
    (record,) = caplog.records
    assert record.getMessage() == (
        "no CUDA graphs for this model, sampling is slower:"
        " operation not permitted when stream is capturing"
    )
