"""The same results on a GPU as on the CPU; skipped on a machine without a GPU.

`benchmarks/gpu.sh` runs these tests first.
"""

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from tests.algorithms.learner.test_learner import build, state, update
from tests.algorithms.learner.test_text_learner import rows_that_begin_alike
from tests.architectures import save_model
from trca.algorithms import local_runner
from trca.policies.engines.engine import EngineSpec, Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.weights import export_weights

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]
HERE = {"num_gpus_per_learner": 1, "num_gpus_per_env_runner": 1}
"""Learner and env runner in this process, on the GPU."""
ACTORS = {
    "num_learners": 1,
    "num_env_runners": 1,
    "num_gpus_per_learner": 0.5,
    "num_gpus_per_env_runner": 0.5,
}
"""Learner and env runner in processes of their own, on one GPU."""


@pytest.mark.parametrize(
    ("kind", "lora_rank"), [("llama", 0), ("llama", 4), ("qwen3", 0), ("gpt2", 0)]
)
def test_a_completion_on_the_gpu_is_that_of_the_cpu(kind, lora_rank, tmp_path):
    if lora_rank:
        pytest.importorskip("peft")
    folder = str(save_model(tmp_path / kind, kind))
    draw = np.random.default_rng(0)
    requests = [
        Request(draw.integers(0, 250, draw.integers(2, 100)).astype(np.int32), seed)
        for seed in range(20)
    ]
    engines = [
        TransformersEngine.open(EngineSpec(folder, "float32", device, lora_rank=lora_rank))
        for device in ("cpu", "cuda")
    ]
    if lora_rank:
        weights = export_weights(engines[0].model)
        changed = {name: value + np.float32(0.01) for name, value in weights.items()}
        for engine in engines:
            engine.load_weights(changed, 1)
    for some in (requests[:3], requests):
        both = [engine.generate(some, SamplingParams(1.0, 50)) for engine in engines]
        for one, other in zip(*both, strict=True):
            assert one.ids.tolist() == other.ids.tolist()
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)


def test_new_weights_reach_the_engine_on_a_gpu(tmp_path):
    folder = str(save_model(tmp_path / "llama", "llama"))
    engines = [
        TransformersEngine.open(EngineSpec(folder, "float32", device)) for device in ("cpu", "cuda")
    ]
    weights = {n: v * np.float32(1.3) for n, v in export_weights(engines[0].model).items()}
    asked = [Request(np.arange(5, 40, dtype=np.int32), seed) for seed in range(8)]
    before = engines[1].generate(asked, SamplingParams(1.0, 24))
    for engine in engines:
        engine.load_weights(weights, 1)
    both = [engine.generate(asked, SamplingParams(1.0, 24)) for engine in engines]
    assert [c.ids.tolist() for c in both[0]] == [c.ids.tolist() for c in both[1]]
    assert [c.ids.tolist() for c in both[1]] != [c.ids.tolist() for c in before]


@pytest.mark.parametrize(
    "settings",
    [{}, {"lora_rank": 4}, {"gradient_checkpointing": True}],
    ids=["plain", "lora", "checkpointing"],
)
def test_an_update_on_the_gpu_is_that_of_the_cpu(make_config, settings):
    if "lora_rank" in settings:
        pytest.importorskip("peft")
    settings = {"micro_batch_tokens": 64, "minibatch_size": 8, **settings}
    rows, weights, moved = rows_that_begin_alike(), [], 0.0
    for gpus in (0, 1):
        learner = build(make_config, num_gpus_per_learner=gpus, **settings)
        model = learner.module[DEFAULT_MODULE_ID].model
        assert model.device.type == ("cuda" if gpus else "cpu")
        before = state(learner)
        # AdamW's first step has the sign of each gradient, and a sign may differ near zero.
        for group in learner.get_optimizer(DEFAULT_MODULE_ID).param_groups:
            group["eps"] = 1e-2
        update(learner, rows)
        weights.append(state(learner))
        moved = max(float(np.abs(weights[-1][n] - before[n]).max()) for n in before)
    assert moved > 1e-6
    for name in weights[0]:
        np.testing.assert_allclose(weights[0][name], weights[1][name], atol=moved / 50)


@pytest.mark.parametrize("place", [HERE, ACTORS], ids=["here", "actors"])
@pytest.mark.parametrize(
    "settings",
    [{"dtype": "float32"}, {"dtype": "bfloat16"}, {"lora_rank": 4}],
    ids=["float32", "bfloat16", "lora"],
)
def test_a_run_on_the_gpu_agrees_with_its_engine_and_goes_on_on_the_cpu(
    build, make_config, place, settings, tmp_path
):
    """The run itself stops if engine and learner disagree beyond their precision."""
    if "lora_rank" in settings:
        pytest.importorskip("peft")
    algorithm = make_config(**settings, **place).build_algo()
    for _ in range(2):
        results = algorithm.train()
        assert results["frac_zero_advantage"] < 1
    algorithm.save_to_path(tmp_path)
    trained = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    algorithm.stop()
    resumed = build(make_config(**settings))
    resumed.restore_from_path(str(tmp_path))
    restored = resumed.learner_group.get_weights()[DEFAULT_MODULE_ID]
    assert all(np.array_equal(trained[name], restored[name]) for name in trained)
    resumed.train()
    assert resumed.iteration == 3


def test_an_env_runner_with_a_gpu_samples_on_the_gpu(make_config):
    runner = local_runner(make_config(**HERE))
    assert runner.loop.engine.model.device.type == "cuda"
    runner.stop()
