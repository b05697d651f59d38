"""vLLM on a GPU says what the model says, frees the GPU, and trains; skipped without a GPU.

`benchmarks/gpu.sh` runs these tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import cluster
from tests.vllm.test_vllm_engine import SAMPLING, distance, generate, moved, requests
from trca.policies.engines import ENGINES
from trca.policies.engines.engine import EngineSpec
from trca.policies.lora import add_lora
from trca.policies.models import load_model, load_tokenizer
from trca.policies.weights import export_weights

pytest.importorskip("vllm", reason="vLLM is not installed here: make test-vllm")

__all__ = ["cluster"]

DEVICE = "cuda"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")
OPTIONS = {
    "kv_cache_memory_bytes": 2 << 30,
    "gpu_memory_utilization": 0.2,
    "enforce_eager": True,
}
"""Two GiB of keys and values, and a start without compilation."""
CLOSE = {"float32": 3e-2, "bfloat16": 0.15}
"""Largest difference of a log-probability from a model in float32 on the CPU. Matrix products of
vLLM may round to TensorFloat-32."""


def open_vllm(folder: Path, dtype: str = "float32", options: Any = None, **spec: Any) -> Any:
    options = {**OPTIONS, **(options or {})}
    return ENGINES.get("vllm").open(
        EngineSpec(str(folder), dtype, DEVICE, max_tokens=256, options=options, **spec)
    )


def free_gib() -> float:
    return torch.cuda.mem_get_info()[0] / 2**30


@pytest.mark.parametrize("kind", ["tied", "untied"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_completions_and_pushed_weights_are_those_of_the_model(
    kind: str, dtype: str, request: pytest.FixtureRequest
) -> None:
    folder = Path(request.getfixturevalue(kind))
    model, vocabulary = load_model(str(folder)), len(load_tokenizer(str(folder)))
    engine, asked = open_vllm(folder, dtype), requests(folder, 12)
    seen = []
    for version in range(3):
        if version:
            engine.load_weights(export_weights(moved(model, version)), version)
        completions = generate(engine, asked, SAMPLING)
        assert {c.version for c in completions} == {version}
        assert distance(model, vocabulary, asked, completions) < CLOSE[dtype]
        seen.append([c.ids.tolist() for c in completions])
    assert seen[0] != seen[1] != seen[2]
    engine.close()


def test_pushed_adapters_are_those_of_the_model(tied: Path) -> None:
    model, vocabulary = load_model(str(tied)), len(load_tokenizer(str(tied)))
    add_lora(model, rank=4, alpha=8)
    engine, asked = open_vllm(tied, dtype="bfloat16", lora_rank=4, lora_alpha=8), requests(tied, 12)
    for version in (1, 2, 3):
        torch.manual_seed(version)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data += 0.2 * torch.randn_like(parameter)
        engine.load_weights(export_weights(model), version)
        assert (
            distance(model, vocabulary, asked, generate(engine, asked, SAMPLING))
            < CLOSE["bfloat16"]
        )
    engine.close()


def test_an_engine_that_sleeps_frees_the_gpu(tied: Path) -> None:
    model, vocabulary = load_model(str(tied)), len(load_tokenizer(str(tied)))
    engine, asked = open_vllm(tied, options={"sleep": True}), requests(tied, 6)
    before, awake = generate(engine, asked, SAMPLING), free_gib()
    for version in (1, 2):
        engine.sleep()
        assert free_gib() - awake > 1.5  # of 2 GiB of keys and values
        if version == 2:
            engine.load_weights(export_weights(moved(model, version)), version)
        completions = generate(engine, asked, SAMPLING)
        assert distance(model, vocabulary, asked, completions) < CLOSE["float32"]
        if version == 1:
            assert [c.ids.tolist() for c in completions] == [c.ids.tolist() for c in before]
        assert abs(free_gib() - awake) < 0.5
    engine.close()


@pytest.fixture(params=[0, 4], ids=["all weights", "an adapter"])
def algorithm(
    request: pytest.FixtureRequest, cluster: None, make_config: Callable[..., Any]
) -> Iterator[Any]:
    algorithm = make_config(
        engine="vllm",
        lora_rank=request.param,
        num_env_runners=0,
        num_learners=0,
        num_gpus_per_learner=1,
        num_gpus_per_env_runner=1,
        engine_config={**OPTIONS, "sleep": True},
    ).build_algo()
    yield algorithm
    algorithm.stop()


def test_learner_and_engine_share_a_gpu(algorithm: Any) -> None:
    for iteration in range(3):
        result = algorithm.train()
        assert result["mismatch_kl"] < 1e-4
        assert result["missing_rollouts"] == 0
        versions = {step.version for r in algorithm.rollouts for step in r.steps}
        assert len(versions) == 1
        assert max(versions) >= iteration
