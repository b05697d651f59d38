"""vLLM on a GPU: log-probabilities are the model's, sleep frees memory, a learner shares the GPU.

Skipped without a GPU. `benchmarks/gpu.sh` runs these tests.
"""

from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch

from tests.conftest import cluster
from tests.vllm.test_vllm_engine import SAMPLING, distance, generate, moved, requests
from trca.policies.dtypes import DTYPES
from trca.policies.engines import ENGINES
from trca.policies.engines.engine import EngineSpec
from trca.policies.lora import add_lora
from trca.policies.models import load_model, load_tokenizer
from trca.policies.weights import export_weights

pytest.importorskip("vllm", reason="vLLM is not installed here: make test-vllm")

__all__ = ["cluster"]

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")
OPTIONS = {"kv_cache_memory_bytes": 2 << 30, "gpu_memory_utilization": 0.2}
EAGER = {**OPTIONS, "enforce_eager": True}
"""A start without compilation and CUDA graphs."""
CLOSE = {"float32": 1e-3, "bfloat16": 0.15}
"""Largest difference of a log-probability from the model in float32 on the CPU."""


@contextmanager
def opened(folder, dtype="float32", options=EAGER, **spec):
    """An engine on the GPU, closed at the end."""
    engine = ENGINES.get("vllm").open(
        EngineSpec(str(folder), dtype, "cuda", max_tokens=256, options=options, **spec)
    )
    with closing(engine):
        yield engine


def free_gib():
    return torch.cuda.mem_get_info()[0] / 2**30


@pytest.mark.parametrize(
    ("kind", "dtype", "options"),
    [
        ("tied", "float32", EAGER),
        ("untied", "float32", EAGER),
        ("tied", "bfloat16", EAGER),
        ("untied", "bfloat16", OPTIONS),
    ],
)
def test_completions_and_pushed_weights_are_those_of_the_model(kind, dtype, options, request):
    folder = Path(request.getfixturevalue(kind))
    model, vocabulary = load_model(str(folder)), len(load_tokenizer(str(folder)))
    asked, seen = requests(folder, 12), []
    with opened(folder, dtype, options) as engine:
        for version in range(3):
            if version:
                engine.load_weights(export_weights(moved(model, version)), version)
            completions = generate(engine, asked, SAMPLING)
            assert {c.version for c in completions} == {version}
            assert distance(model, vocabulary, asked, completions) < CLOSE[dtype]
            seen.append([c.ids.tolist() for c in completions])
    assert seen[0] != seen[1] != seen[2]


def test_pushed_adapters_are_those_of_the_model(tied):
    model, vocabulary = load_model(str(tied)), len(load_tokenizer(str(tied)))
    add_lora(model, rank=4, alpha=8)
    asked = requests(tied, 12)
    with opened(tied, "bfloat16", lora_rank=4, lora_alpha=8) as engine:
        for version in (1, 2, 3):
            engine.load_weights(export_weights(moved(model, version, scale=0.05)), version)
            completions = generate(engine, asked, SAMPLING)
            assert distance(model, vocabulary, asked, completions) < CLOSE["bfloat16"]


def test_an_engine_that_sleeps_frees_the_gpu(tied):
    model, vocabulary = load_model(str(tied)), len(load_tokenizer(str(tied)))
    asked = requests(tied, 6)
    with opened(tied, options={**EAGER, "sleep": True}) as engine:
        generate(engine, asked, SAMPLING)
        awake = free_gib()
        for version in (1, 2):
            engine.sleep()
            assert free_gib() - awake > 1.5  # of 2 GiB of keys and values
            if version == 2:
                engine.load_weights(export_weights(moved(model, version)), version)
            completions = generate(engine, asked, SAMPLING)
            assert distance(model, vocabulary, asked, completions) < CLOSE["float32"]
            assert abs(free_gib() - awake) < 0.5


@pytest.mark.parametrize(("lora_rank", "dtype"), [(0, "float32"), (4, "bfloat16")])
def test_learner_and_engine_share_a_gpu(cluster, make_config, lora_rank, dtype):
    algorithm = make_config(
        engine="vllm",
        lora_rank=lora_rank,
        dtype=dtype,
        num_env_runners=0,
        num_learners=0,
        num_gpus_per_learner=1,
        num_gpus_per_env_runner=1,
        engine_config={**EAGER, "sleep": True},
    ).build_algo()
    for iteration in range(3):
        result = algorithm.train()
        assert result["mismatch_kl"] < DTYPES[dtype].mismatch
        assert result["missing_rollouts"] == 0
        versions = {step.version for r in algorithm.rollouts for step in r.steps}
        assert len(versions) == 1
        assert max(versions) >= iteration
    algorithm.stop()
