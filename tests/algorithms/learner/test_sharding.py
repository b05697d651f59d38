"""Learners that share one model, against one learner with the complete model."""

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.algorithms.learner.test_text_learner import (
    policy_of,
    rows_of,
    rows_that_begin_alike,
    sample,
)
from tests.architectures import save_model
from tests.processes import together
from trca.algorithms.learner.policy_updater import UPDATE_METRICS
from trca.envs.text_space import AnyText
from trca.policies.dtypes import DTYPES

SETTINGS = {
    "lr": 1e-3,
    "kl_coeff": 0.5,
    "entropy_coeff": 0.2,
    "minibatch_size": 4,
    "micro_batch_tokens": 40,
    "num_epochs": 2,
    "train_malformed": False,
}


@pytest.fixture(autouse=True)
def _any_sampler(monkeypatch):
    for name, precision in DTYPES.items():
        monkeypatch.setitem(DTYPES, name, precision._replace(mismatch=np.inf))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with an untied head, and sizes that no number of processes divides."""
    sizes = {"hidden_size": 35, "head_dim": 10, "intermediate_size": 45, "num_attention_heads": 3}
    sizes |= {"num_key_value_heads": 1, "tie_word_embeddings": False}
    return str(save_model(tmp_path_factory.mktemp("model"), "qwen3", **sizes))


def build(make_config, **settings):
    spaces = {DEFAULT_MODULE_ID: (AnyText(), AnyText())}
    return make_config(**SETTINGS | settings).build_learner(spaces=spaces)


def train(learner, rows, times=1):
    """Updates; gives the metrics of the last, and the weights."""
    for k in range(times):
        results = learner.update(training_data=TrainingData(batch=rows), shuffle_key=(5, k))
    metrics = {name: results[DEFAULT_MODULE_ID][name].peek() for name in UPDATE_METRICS}
    return metrics, learner.module[DEFAULT_MODULE_ID].get_state()


def sharded(count, make_config, rows, folder, act=train, **settings):
    """The results of ``count`` learners that share the model."""

    def learn(rank):
        learner = build(make_config, num_learners=count, sharding="fsdp", **settings)
        parameters = list(policy_of(learner).parameters())
        assert all(isinstance(p, DTensor) for p in parameters)
        held = sum(p.to_local().numel() for p in parameters)
        assert held < 1.2 * sum(p.numel() for p in parameters) / count
        return act(learner, rows.shards(count)[rank])

    folder.mkdir(exist_ok=True)
    return together(learn, count, folder)


class Reductions(TorchDispatchMode):
    """Counts the operations that add tensors up and leave a share in each process."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented
        self.count += "reduce_scatter" in func.name()
        return func(*args, **(kwargs or {}))


def train_counting(learner, rows):
    """The result of `train`, and the number of gradient reductions in an update."""
    with Reductions() as reductions:
        result = train(learner, rows)
    return (*result, reductions.count / learner.updaters[DEFAULT_MODULE_ID].updates)


def sampled_rows(learner):
    return rows_of(sample(learner), learner.config)


@pytest.mark.parametrize(
    ("count", "settings"),
    [
        pytest.param(2, {}, marks=pytest.mark.slow),
        (2, {"gradient_checkpointing": True, "recompute_logprobs": True, "kl_coeff_format": 0.3}),
        pytest.param(3, {"lora_rank": 4}, marks=pytest.mark.slow),
        pytest.param(4, {"untied": True, "sync_each_pass": True}, marks=pytest.mark.slow),
    ],
    ids=["2", "2, checkpointing", "3, LoRA", "4, untied, each pass"],
)
def test_learners_that_share_a_model_train_as_one(make_config, folder, tmp_path, count, settings):
    settings = dict(settings)
    groups = 2 if "lora_rank" in settings else 3  # layers, and trained weights outside of layers
    if settings.pop("untied", False):
        settings["model"] = folder
    one = build(make_config, **settings)
    rows = sampled_rows(one)
    assert len(rows) % count
    metrics, weights = train(one, rows)
    (of_first, first, reductions), *others = sharded(
        count, make_config, rows, tmp_path, train_counting, **settings
    )
    assert reductions > groups if settings.get("sync_each_pass") else reductions == groups
    assert first.keys() == weights.keys()
    for name in weights:
        np.testing.assert_allclose(first[name], weights[name], atol=1e-5, rtol=0, err_msg=name)
    for name in metrics:
        assert of_first[name] == pytest.approx(metrics[name], abs=1e-5, rel=1e-5), name
    for of_other, other, _ in others:
        assert not other
        assert of_other == of_first


@pytest.mark.slow
def test_learners_that_share_a_model_share_the_beginnings_of_rows_too(
    make_config, tmp_path, monkeypatch
):
    settings = {"minibatch_size": 256, "micro_batch_tokens": 64}
    rows = rows_that_begin_alike()
    with monkeypatch.context() as patch:
        patch.setattr("trca.algorithms.learner.passes.MOST_DISTINCT", 0.0)
        _, weights = train(build(make_config, **settings), rows)

    def act(learner, rows):
        assert all(
            each.batch.shared for each in learner.updaters[DEFAULT_MODULE_ID].passes.over(rows)
        )
        return train(learner, rows)

    (_, first), _ = sharded(2, make_config, rows, tmp_path, act, **settings)
    for name in weights:
        np.testing.assert_allclose(first[name], weights[name], atol=1e-5, rtol=0, err_msg=name)


def test_sharded_weights_in_bfloat16_have_masters_in_float32(make_config, tmp_path):
    settings = {"dtype": "bfloat16", "lr": 8e-7, "minibatch_size": 256, "num_epochs": 1}
    settings |= {"gradient_checkpointing": True}
    one = build(make_config, **settings)
    rows = sampled_rows(one)
    before = one.module[DEFAULT_MODULE_ID].get_state()
    metrics, _ = train(one, rows)

    def act(learner, rows):
        parameters = list(policy_of(learner).parameters())
        result = train(learner, rows)
        kinds = {t.dtype for p in parameters for t in (p, p.grad, *moments(learner, p))}
        pushed = learner.module[DEFAULT_MODULE_ID].get_state(inference_only=True)
        return (*result, kinds, pushed)

    (of_first, weights, kinds, pushed), _ = sharded(2, make_config, rows, tmp_path, act, **settings)
    assert kinds == {torch.float32}
    assert of_first["grad_norm"] == pytest.approx(metrics["grad_norm"], rel=0.02)
    assert of_first["kl"] == pytest.approx(metrics["kl"], abs=0.01)
    for name in weights:
        assert 0 < np.abs(weights[name] - before[name]).max() < 1e-6
        rounded = torch.from_numpy(weights[name]).bfloat16().view(torch.int16).numpy()
        assert np.array_equal(pushed[name], rounded.view(np.uint16))


def moments(learner, parameter):
    state = learner.get_optimizer(DEFAULT_MODULE_ID).state[parameter]
    return state["exp_avg"], state["exp_avg_sq"]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"lora_rank": 4}], ids=["plain", "lora"])
def test_the_checkpoint_of_two_learners_goes_on_with_three_and_with_one(
    make_config, tmp_path, settings
):
    one = build(make_config, **settings)
    rows = sampled_rows(one)
    _, expected = train(one, rows, times=2)

    def save(learner, rows):
        train(learner, rows)
        learner.save_shards(str(tmp_path / "shards"))

    def load(learner, rows):
        learner.restore_from_path(str(tmp_path / "shards"))
        return learner.updaters[DEFAULT_MODULE_ID].updates, train_second(learner, rows)

    sharded(2, make_config, rows, tmp_path, save, **settings)
    (updates, of_three), *_ = sharded(3, make_config, rows, tmp_path / "three", load, **settings)
    assert updates == 6
    alone = build(make_config, **settings)
    alone.restore_from_path(str(tmp_path / "shards"))
    of_one = train_second(alone, rows)
    for name in expected:
        np.testing.assert_allclose(of_one[name], expected[name], atol=1e-5, err_msg=name)
        np.testing.assert_allclose(of_three[name], expected[name], atol=1e-5, err_msg=name)


def train_second(learner, rows):
    """The second update of `train`; returns the weights."""
    learner.update(training_data=TrainingData(batch=rows), shuffle_key=(5, 1))
    return learner.module[DEFAULT_MODULE_ID].get_state()


def test_the_checkpoint_of_one_learner_can_be_split(make_config, tmp_path):
    one = build(make_config)
    rows = sampled_rows(one)
    train(one, rows)
    one.save_to_path(str(tmp_path / "whole"))
    expected = train_second(one, rows)

    def load(learner, rows):
        learner.restore_from_path(str(tmp_path / "whole"))
        return train_second(learner, rows)

    first, _ = sharded(2, make_config, rows, tmp_path, load)
    for name in expected:
        np.testing.assert_allclose(first[name], expected[name], atol=1e-5, err_msg=name)
