"""The learner on generated rows, and the device of an env runner's engine."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from tests.architectures import save_model
from trca.algorithms import local_runner
from trca.algorithms.learner.learner import TextLearner
from trca.algorithms.learner.rows import Rows

pytestmark = pytest.mark.usefixtures("cluster")


def rows(actions, seed=0):
    """Rows of 6 prompt and 4 response tokens; the responses of ``actions`` are actions."""
    count = len(actions)
    draw = np.random.default_rng(seed)
    logprobs = np.full(4 * count, -3.0, np.float32)
    return Rows(
        number=np.arange(count),
        total=count,
        tokens=draw.integers(0, 250, 10 * count).astype(np.int32),
        prompt_lengths=np.full(count, 6),
        response_lengths=np.full(count, 4),
        action_mask=np.repeat(np.array(actions, dtype=bool), 4),
        old_logprobs=logprobs,
        advantages=draw.normal(size=count).astype(np.float32),
        weights=np.full(count, 1.0 / count),
        replayed=np.zeros(count, bool),
    )


class OneOfSeveral(TextLearner):
    distributed = True


def build(make_config, learner_class=TextLearner, **settings):
    """A learner in this process that accepts any log-probabilities of the sampler."""
    settings = {"kl_coeff": 0.0, "recompute_logprobs": True, **settings}
    config = make_config(**settings).learners(num_learners=0)
    learner = learner_class(config=config, module_spec=config.get_multi_rl_module_spec())
    learner.build()
    return learner


def update(learner, batch):
    return learner.update(training_data=TrainingData(batch=batch))


def state(learner):
    return learner.module[DEFAULT_MODULE_ID].get_state()


@pytest.fixture
def alone():
    """A process group of this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_checkpointed_layers_run_again_in_the_backward_pass_without_dropout(make_config, tmp_path):
    for kind, layers in (("gpt2", "transformer.h"), ("opt", "model.decoder.layers")):
        folder = save_model(tmp_path / kind, kind)
        weights = []
        for checkpointing in (False, True):
            learner = build(make_config, model=str(folder), gradient_checkpointing=checkpointing)
            runs = []
            model = learner.module[DEFAULT_MODULE_ID].model
            attention = model.get_submodule(f"{layers}.0")
            attention = attention.attn if kind == "gpt2" else attention.self_attn
            attention.register_forward_hook(
                lambda *_, runs=runs: runs.append(torch.is_grad_enabled())
            )
            update(learner, rows([True] * 3))
            assert sum(runs) == 1 + checkpointing
            weights.append(state(learner))
        for name in weights[0]:
            np.testing.assert_allclose(weights[0][name], weights[1][name], atol=1e-6, err_msg=name)


def test_a_mini_batch_without_a_counted_token_moves_no_weight_on_one_learner_or_more(
    make_config, alone
):
    weights = []
    for learner_class in (TextLearner, OneOfSeveral):
        learner = build(make_config, learner_class, weight_decay=0.1)
        update(learner, rows([True, True, False]))
        before = state(learner)
        update(learner, rows([False] * 3))
        after = state(learner)
        assert all(np.array_equal(before[name], after[name]) for name in before)
        update(learner, rows([True, False, True], seed=1))
        weights.append(state(learner))
        assert learner.updaters[DEFAULT_MODULE_ID].updates == 2
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_parameter_that_a_mini_batch_does_not_reach_moves_alike_on_one_learner_or_more(
    make_config, alone
):
    weights = []
    for learner_class in (TextLearner, OneOfSeveral):
        learner = build(make_config, learner_class)
        update(learner, rows([True, True, False]))
        module = learner.module[DEFAULT_MODULE_ID]
        layer = module.model.model.layers[0].mlp
        layer.forward = torch.zeros_like  # the layer's feed-forward part gets no gradient
        update(learner, rows([True, False, True], seed=1))
        weights.append(state(learner))
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_training_stops_before_the_first_update_when_the_engine_has_other_weights(make_config):
    def start(**settings):
        algorithm = make_config(train_malformed=True, **settings).build_algo()
        weights = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
        other = {name: value * 1.5 for name, value in weights.items()}
        algorithm.env_runner.set_state(
            {WEIGHTS_SEQ_NO: 99, COMPONENT_RL_MODULE: {DEFAULT_MODULE_ID: other}}
        )
        return algorithm, weights

    algorithm, before = start()
    with pytest.raises(
        RuntimeError, match=r"disagree before the first update.*a push that was lost"
    ):
        algorithm.train()
    after = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    assert all(np.array_equal(before[name], after[name]) for name in before)
    algorithm.stop()
    algorithm, _ = start(recompute_logprobs=True)
    assert algorithm.train()["mismatch_kl"] > 1e-5
    algorithm.stop()


TALKS = {"recompute_logprobs": False, "minibatch_size": 1, "kl_coeff_format": 0.1}
"""Malformed rows enter the update, each as a mini-batch of its own."""


def sampled(learner, actions, error=0.0):
    """Rows whose sampler differs from the learner by an error in nats per token."""
    batch = rows(actions)
    logprobs = learner.score_rows(replace(batch, action_mask=np.ones_like(batch.action_mask)))
    return replace(batch, old_logprobs=logprobs - np.float32(error))


def updater(learner):
    return learner.updaters[DEFAULT_MODULE_ID]


@pytest.mark.parametrize("key", range(4))
def test_another_sampler_is_found_whatever_row_comes_first(make_config, key):
    learner = build(make_config, **TALKS)
    batch = sampled(learner, [False, False, True, True], error=3.0)
    with pytest.raises(RuntimeError, match="disagree before the first update"):
        updater(learner).update(batch, (key,))
    assert updater(learner).updates == 0


def test_the_sampler_is_compared_on_fresh_rows_and_later_if_there_is_none(make_config):
    learner = build(make_config, **{**TALKS, "replay_size": 4})
    batch = sampled(learner, [True, True, False], error=3.0)
    replays = replace(batch, replayed=np.array([True, True, False]))
    updater(learner).update(replays, (1,))
    assert not updater(learner).compared
    with pytest.raises(RuntimeError, match="disagree before the first update"):
        updater(learner).update(replace(batch, replayed=np.array([True, False, False])), (2,))
    learner = build(make_config, **TALKS)
    updater(learner).update(sampled(learner, [True, True]), (1,))
    assert updater(learner).compared


@pytest.mark.parametrize("key", range(4))
def test_metrics_of_actions_are_means_over_the_mini_batches_with_an_action(make_config, key):
    learner = build(make_config, **TALKS, lr=1e-9)
    metrics = updater(learner).update(sampled(learner, [False, False, True, True]), (key,))
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["entropy"] > 3.0
    assert metrics["mismatch_ratio"] == pytest.approx(1.0, abs=1e-5) or np.isnan(
        metrics["mismatch_ratio"]
    )
    metrics = updater(learner).update(sampled(learner, [False, False]), (key,))
    names = ("ratio_mean", "entropy", "approx_kl", "mismatch_kl", "mismatch_ratio_max")
    assert np.isnan([metrics[name] for name in names]).all()


def test_no_entropy_bonus_if_every_advantage_is_of_a_step_that_the_band_leaves_out(make_config):
    band = {"action_ratio_band": (0.9, 1.1), "entropy_coeff": 0.5, "recompute_logprobs": True}
    learner = build(make_config, **band)
    before = state(learner)
    batch = sampled(learner, [True, True])
    old = batch.old_logprobs - np.repeat(np.array([3.0, 0.0], np.float32), 4)
    batch = replace(batch, old_logprobs=old, advantages=np.array([1.0, 0.0], np.float32))
    metrics = updater(learner).update(batch, (1,))
    assert metrics["masked_steps"] == 0.5
    assert all(np.array_equal(before[name], value) for name, value in state(learner).items())


def test_the_engine_lies_on_the_device_of_its_runner(make_config):
    runner = local_runner(make_config())
    assert runner.device == torch.device("cpu")
    runner.device = torch.device("meta")
    assert runner.loop.engine.model.device.type == "meta"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_asked_for_and_not_there_is_an_error(make_config):
    config = make_config().env_runners(num_gpus_per_env_runner=0.5)
    with pytest.raises(RuntimeError, match=r"num_gpus_per_env_runner is 0\.5 .* sees no GPU"):
        _ = local_runner(config).loop


def test_gpu_presets_reserve_gpus():
    from trca.tune_configs.files import read

    folder = Path(__file__).parents[3] / "trca" / "tune_configs" / "paper"
    for path in folder.glob("*.yaml"):
        settings = read(str(path))
        for part in ("learner", "env_runner"):
            assert settings[f"num_gpus_per_{part}"] > 0, path.name
            assert settings[f"num_{part}s"] > 0, path.name
