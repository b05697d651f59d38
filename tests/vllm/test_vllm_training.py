"""Training with the vLLM engine: the full loop, with a check of every push of weights."""

import pytest
import ray

from tests.conftest import cluster

pytest.importorskip("vllm", reason="vLLM is not installed here: make test-vllm")

__all__ = ["cluster"]


@pytest.fixture(params=[0, 4], ids=["all weights", "an adapter"])
def algorithm(request, cluster, make_config):
    config = make_config(engine="vllm", lora_rank=request.param, num_env_runners=0)
    algorithm = config.build_algo()
    yield algorithm
    algorithm.stop()


def test_sampler_and_trainer_agree_after_every_push(algorithm):
    for iteration in range(3):
        result = algorithm.train()
        assert result["mismatch_kl"] < 1e-9
        assert result["push_difference"] < 1e-4
        assert result["missing_rollouts"] == 0
        versions = {step.version for r in algorithm.rollouts for step in r.steps}
        assert len(versions) == 1
        assert max(versions) >= iteration
    assert ray.is_initialized()
