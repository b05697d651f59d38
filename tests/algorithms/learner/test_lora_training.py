"""Training an adapter: the weights of runners, checkpoints and exports."""

import numpy as np
import pytest
import torch

from tests.algorithms.base.test_training import weights_of
from trca.algorithms import export, local_runner
from trca.policies.models import load_model

pytestmark = pytest.mark.usefixtures("cluster")
LORA = {"lora_rank": 4, "lora_alpha": 8, "minibatch_size": 256, "lr": 1e-2}


def test_an_adapter_is_trained_saved_resumed_and_exported(build, make_config, tmp_path):
    config = make_config(**LORA)
    algorithm = config.build_algo()
    before = weights_of(algorithm)
    first = algorithm.train()
    assert first["kl"] < 1e-12 < first["grad_norm"]  # the policy is still its reference
    algorithm.save_to_path(str(tmp_path / "checkpoint"))
    second = algorithm.train()
    assert second["mismatch_kl"] < 1e-9
    assert second["kl"] > 1e-9
    after = weights_of(algorithm)
    assert all("lora_" in name for name in after)
    assert all(not np.array_equal(before[name], after[name]) for name in after)
    size = sum(f.stat().st_size for f in (tmp_path / "checkpoint").rglob("*") if f.is_file())
    assert size < 5 * sum(array.nbytes for array in after.values()) + 100_000

    runner = local_runner(config)
    runner.set_state(algorithm.env_runner.get_state())
    plain = load_model(str(export(algorithm, tmp_path / "model")))
    ids = torch.arange(24)[None]
    with torch.no_grad():
        sampled = runner.loop.engine.model(ids).logits
        torch.testing.assert_close(plain(ids).logits, sampled, atol=1e-4, rtol=1e-4)
    algorithm.stop()

    resumed = build(config)
    resumed.restore_from_path(str(tmp_path / "checkpoint"))
    resumed.train()
    again = weights_of(resumed)
    assert all(np.array_equal(after[name], again[name]) for name in after)
    saved = load_model(str(export(tmp_path / "checkpoint", tmp_path / "saved")))
    with torch.no_grad():
        assert not torch.allclose(saved(ids).logits, plain(ids).logits, atol=1e-4)
