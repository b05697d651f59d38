"""Remote learners: a killed learner, and learners that share a model."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import ray
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from tests.algorithms.learner.test_learner import rows
from trca.algorithms import TurnPPOConfig, export
from trca.algorithms.learner.group import LearnersLostError
from trca.algorithms.learner.learner import TextLearner
from trca.envs.text_space import AnyText
from trca.policies.models import load_model

pytestmark = pytest.mark.usefixtures("cluster")
SETTINGS = {"recompute_logprobs": True, "minibatch_size": 4, "kl_coeff": 0.1, "lr": 1e-3}


class MortalLearner(TextLearner):
    """The last of several remote learners kills its process in the sixth update, once."""

    def compute_loss_for_module(self, *, module_id, **kwargs):
        alive = Path(self.config.learner_config_dict["alive"])
        number = 1 + (torch.distributed.get_rank() if self.distributed else 0)
        sixth = self.updaters[module_id].updates >= 5
        if number == self.config.num_learners and sixth and alive.exists():
            alive.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().compute_loss_for_module(module_id=module_id, **kwargs)


def make_group(make_config, alive, **settings):
    config = make_config(**SETTINGS | settings)
    config.training(learner_class=MortalLearner, learner_config_dict={"alive": str(alive)})
    return config.build_learner_group(spaces={DEFAULT_MODULE_ID: (AnyText(), AnyText())})


def learn(group, number):
    batch = rows([True] * 9 + [False], seed=number)
    shards = batch.shards(max(1, len(group)))
    data = {"batches": shards} if group.is_remote else {"batch": batch}
    results = group.update(**data, shuffle_key=(number,))
    return results[0][DEFAULT_MODULE_ID]["loss"].peek()


def weights_of(group):
    return group.get_weights()[DEFAULT_MODULE_ID]


@pytest.mark.slow
@pytest.mark.parametrize(("learners", "sharding"), [(1, "none"), (2, "fsdp")])
def test_a_killed_learner_costs_no_update(make_config, tmp_path, learners, sharding):
    alive = tmp_path / "alive"
    alive.touch()
    one = make_group(make_config, alive)
    others = make_group(make_config, alive, num_learners=learners, sharding=sharding)
    assert alive.exists()
    for number in range(3):
        assert learn(one, number) == pytest.approx(learn(others, number), abs=1e-5)
    assert not alive.exists()
    assert others.rebuilt == 1
    after, expected = weights_of(others), weights_of(one)
    assert after.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(after[name], expected[name], atol=1e-5, rtol=0, err_msg=name)

    if sharding == "none":
        (tmp_path / "learner").touch()
        with pytest.raises(OSError, match="learner"):
            others.save_to_path(str(tmp_path))

    others.config.max_learner_restarts = 1
    alive.touch()
    others._workers[0].__ray_terminate__.remote()
    with pytest.raises(LearnersLostError, match=r"was lost: .*max_learner_restarts is 1"):
        learn(others, 3)
    others.shutdown()


@pytest.mark.slow
def test_the_loss_of_a_learner_outside_of_an_update_is_an_incident(make_config, monkeypatch):
    algorithm = make_config(TurnPPOConfig, num_learners=1).build_algo()
    algorithm.train()
    assert algorithm.incidents == []
    ray.kill(algorithm.learner_group._workers[0])
    algorithm.train()  # the critic is asked for its values first
    assert [(i.kind, i.action) for i in algorithm.incidents] == [("learner", "retried")]

    send = algorithm.env_runner_group.sync_weights

    def send_and_die(**given):
        send(**given)
        monkeypatch.undo()
        ray.kill(algorithm.learner_group._workers[0])

    monkeypatch.setattr(algorithm.env_runner_group, "sync_weights", send_and_die)
    algorithm.train()
    assert [(i.kind, i.action) for i in algorithm.incidents] == [("learner", "retried")]
    algorithm.stop()


@pytest.mark.slow
def test_sharded_learners_train_push_save_and_are_exported(make_config, tmp_path):
    settings = {"num_learners": 2, "sharding": "fsdp", "minibatch_size": 256}
    algorithm = make_config(**settings).build_algo()
    algorithm.train()
    assert algorithm.train()["mismatch_kl"] < 1e-9
    checkpoint = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    weights = weights_of(algorithm.learner_group)
    exported = load_model(str(export(checkpoint, tmp_path / "model"))).state_dict()
    assert all(np.array_equal(exported[name].numpy(), weights[name]) for name in weights)
    with pytest.raises(RuntimeError, match=r"save the state with algorithm\.save_to_path"):
        algorithm.get_state()
    algorithm.stop()

    alone = make_config(**settings | {"num_learners": 0}).build_algo()
    alone.restore_from_path(checkpoint)
    restored = weights_of(alone.learner_group)
    assert all(np.array_equal(restored[name], weights[name]) for name in weights)
    assert alone.train()["mismatch_kl"] < 1e-9
    alone.stop()
