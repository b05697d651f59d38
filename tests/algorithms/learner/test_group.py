"""Remote learners: a lost learner, and learners that share a model."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from ray import tune
from ray.rllib.core import DEFAULT_MODULE_ID

from tests.algorithms.learner.test_learner import rows
from tests.cli.commands.test_train import figures, weights
from trca.algorithms import export
from trca.algorithms.learner.group import LearnersLostError
from trca.algorithms.learner.learner import TextLearner
from trca.common.json_lines import read_lines
from trca.envs.text_space import AnyText
from trca.policies.models import load_model
from trca.runs.folder import RunFolder

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
    config = mortal(make_config(**SETTINGS | settings), alive)
    return config.build_learner_group(spaces={DEFAULT_MODULE_ID: (AnyText(), AnyText())})


def mortal(config, alive):
    return config.training(learner_class=MortalLearner, learner_config_dict={"alive": str(alive)})


def learn(group, number):
    batch = rows([True] * 9 + [False], seed=number)
    results = group.update(batches=batch.shards(max(1, len(group))), shuffle_key=(number,))
    return results[0][DEFAULT_MODULE_ID]["loss"].peek()


def weights_of(group):
    return group.get_weights()[DEFAULT_MODULE_ID]


@pytest.mark.slow
@pytest.mark.parametrize(("learners", "sharding"), [(1, "none"), (2, "fsdp")])
def test_remote_learners_learn_as_one_and_report_the_loss_of_a_learner(
    make_config, tmp_path, learners, sharding
):
    alive = tmp_path / "alive"
    one = make_group(make_config, alive)
    others = make_group(make_config, alive, num_learners=learners, sharding=sharding)
    assert learn(one, 0) == pytest.approx(learn(others, 0), abs=1e-5)
    after, expected = weights_of(others), weights_of(one)
    assert after.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(after[name], expected[name], atol=1e-5, rtol=0, err_msg=name)

    if sharding == "none":
        (tmp_path / "learner").touch()
        with pytest.raises(OSError, match="learner"):
            others.save_to_path(str(tmp_path))

    alive.touch()
    with pytest.raises(LearnersLostError, match=r"was lost: .*FailureConfig\(max_failures=1\)"):
        learn(others, 1)
    assert not alive.exists()
    with pytest.raises(LearnersLostError):
        others.get_state()
    others.shutdown()


@pytest.mark.slow
def test_a_trial_that_loses_a_learner_resumes_from_its_checkpoint(make_config, tmp_path):
    """The disturbed trial has the results and the weights of an undisturbed run."""
    alive = tmp_path / "alive"
    space = mortal(make_config(iterations=3, num_learners=1, evaluation_interval=3), alive)
    whole = RunFolder(tmp_path / "whole")
    algorithm = space.copy(copy_frozen=False).reporting(run_folder=whole.path).build_algo()
    for _ in range(3):
        algorithm.train()
    algorithm.stop()

    alive.touch()
    run_config = tune.RunConfig(
        storage_path=str(tmp_path / "trials"),
        failure_config=tune.FailureConfig(max_failures=1),
        verbose=0,
    )
    [result] = tune.Tuner("TRCA", param_space=space, run_config=run_config).fit()
    assert result.error is None
    assert not alive.exists()
    resumed = RunFolder.open(result.path)
    (lost,) = read_lines(resumed.failures)
    assert (lost["iteration"], lost["kind"], lost["reason"]) == (2, "learner", "it was lost")
    assert not whole.failures.exists()
    assert [row["iteration"] for row in resumed.metrics()] == [1, 2, 3]
    assert figures(resumed.path) == figures(whole.path)
    assert weights(resumed.checkpoint()) == weights(whole.checkpoint())


@pytest.mark.slow
def test_sharded_learners_train_push_save_and_are_exported(build, make_config, tmp_path):
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

    alone = build(make_config(**settings | {"num_learners": 0}))
    alone.restore_from_path(checkpoint)
    restored = weights_of(alone.learner_group)
    assert all(np.array_equal(restored[name], weights[name]) for name in weights)
    assert alone.train()["mismatch_kl"] < 1e-9
