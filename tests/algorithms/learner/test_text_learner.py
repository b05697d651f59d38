"""The learner's gradient against a plain loop over steps, and the effects of an update."""

import copy

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData

from tests.algorithms.learner.slow_objective import slow_loss, slow_scores
from tests.processes import together
from tests.records.test_records import make_step
from trca.algorithms.learner.policy_updater import UPDATE_METRICS
from trca.algorithms.learner.rows import Rows, make_rows
from trca.envs.text_env import AnyText
from trca.policies.dtypes import DTYPES
from trca.policies.models import load_model, load_tokenizer
from trca.records import Rollout

LENGTHS = [(0, 3), (0, 1), (1, 2), (1, 4), (1, 1)]
"""Group and number of steps of each rollout."""
STILL = {"lr": 1e-30, "grad_clip": None, "kl_coeff": 0.5, "entropy_coeff": 0.2}
"""Weights stay, so that the gradients of all mini-batches are taken at the same place."""


@pytest.fixture
def make_learner(make_config, monkeypatch):
    """A learner whose policy differs from its reference and from the sampler."""
    unbound = DTYPES["float32"]._replace(mismatch=np.inf)
    monkeypatch.setitem(DTYPES, "float32", unbound)

    def make(**settings):
        spaces = {DEFAULT_MODULE_ID: (AnyText(), AnyText())}
        learner = make_config(**settings).build_learner(spaces=spaces)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in policy_of(learner).parameters():
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        return learner

    return make


def policy_of(learner):
    return learner.module[DEFAULT_MODULE_ID].model


def random_rollouts(policy, vocabulary, temperature=1.0, drift=0.2):
    """Rollouts of random tokens that an older policy sampled; one response has no action."""
    rng = np.random.default_rng(2)
    exact = copy.deepcopy(policy).double()
    rollouts = []
    for index, (group, length) in enumerate(LENGTHS):
        rollout = Rollout("t", "train", "Any", group, index, policy_version=0)
        for turn in range(length):
            size = int(rng.integers(3, 9))
            start, end = sorted(rng.choice(size + 1, 2, replace=False))
            mask = (np.arange(size) >= start) & (np.arange(size) < end)
            step = make_step(
                prompt_ids=rng.integers(0, vocabulary, rng.integers(2, 30)).astype(np.int32),
                response_ids=rng.integers(0, vocabulary, size).astype(np.int32),
                action_mask=mask & ((index, turn) != (3, 2)),
                old_logprobs=np.zeros(size, dtype=np.float32),
            )
            with torch.no_grad():
                exact_logprobs, _ = slow_scores(exact, step, temperature, vocabulary)
            step.old_logprobs[:] = exact_logprobs.numpy() + drift * rng.normal(size=size)
            rollout.steps.append(step)
        rollout.advantages = rng.normal(size=length)
        rollouts.append(rollout)
    return rollouts


def vocabulary_of(learner):
    return len(load_tokenizer(learner.config.resolved_model()))


def sample(learner, **changes):
    """Random rollouts that an older version of the learner's policy sampled."""
    return random_rollouts(policy_of(learner), vocabulary_of(learner), **changes)


def rows_of(rollouts, settings):
    return make_rows(rollouts, settings)


def update(learner, rows, **more):
    """Updates on the rows; returns the gradients and the learning rate of every optimizer step."""
    optimizer = learner.get_optimizer(DEFAULT_MODULE_ID)
    gradients, rates = [], []

    def note(optimizer, *_):
        named = policy_of(learner).named_parameters()
        gradients.append(
            {n: torch.zeros_like(p) if p.grad is None else p.grad.double() for n, p in named}
        )
        rates.append(optimizer.param_groups[0]["lr"])

    handle = optimizer.register_step_pre_hook(note)
    learner.update(training_data=TrainingData(batch=rows), shuffle_key=(5,), **more)
    handle.remove()
    return gradients, rates


def whole(gradients, rows):
    """The gradient of all rows, from the gradients of the mini-batches."""
    sizes = [len(c) for c in np.array_split(np.arange(rows), len(gradients))]
    return {
        name: sum(g[name] * n / rows for g, n in zip(gradients, sizes, strict=True))
        for name in gradients[0]
    }


def slow_gradient(learner, rollouts):
    """The gradient of all rows, by the plain loop."""
    module = learner.module[DEFAULT_MODULE_ID]
    model = copy.deepcopy(module.model).double()
    reference = load_model(learner.config.resolved_model(), "float32").double()
    model.zero_grad()
    slow_loss(model, reference, rollouts, learner.config, vocabulary_of(learner)).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def assert_close(gradient, expected):
    assert gradient.keys() == expected.keys()
    scale = max(float(e.abs().max()) for e in expected.values())
    for name, values in expected.items():
        assert float((gradient[name] - values).abs().max()) < 2e-5 * scale, name


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.7},
        {"temperature": 0.7, "kl_coeff_format": 0.4, "entropy_coeff": 0.0},
        {"ratio_level": "token", "aggregation": "token_mean"},
        {"ratio_level": "action_mean", "aggregation": "step_mean"},
        {"kl_kind": "k2", "kl_coeff_format": 0.3, "recompute_logprobs": True},
        {"kl_kind": "k1", "kl_coeff": 0.0, "kl_coeff_format": 0.3},
    ],
    ids=lambda settings: ", ".join(f"{k} {v}" for k, v in settings.items()) or "as in the paper",
)
def test_the_gradient_is_that_of_a_plain_loop_over_steps(make_learner, settings):
    cuts = {"minibatch_size": 4, "micro_batch_tokens": 80, "train_malformed": False}
    learner = make_learner(**STILL | cuts | settings)
    config = learner.config
    rollouts = sample(learner, temperature=config.temperature)
    gradients, _ = update(learner, rows_of(rollouts, config))
    assert len(gradients) == 3
    assert_close(whole(gradients, rows=11), slow_gradient(learner, rollouts))


@pytest.mark.parametrize("cuts", [(256, 8192), (256, 1), (1, 8192), (3, 100)])
@pytest.mark.parametrize("learners", [1, 3])
def test_every_cut_and_any_number_of_learners_gives_that_gradient(make_learner, cuts, learners):
    size, tokens = cuts
    settings = {"minibatch_size": size, "micro_batch_tokens": tokens, "train_malformed": False}
    learner = make_learner(**STILL | settings)
    rollouts = sample(learner)
    total = {}
    for shard in rows_of(rollouts, learner.config).shards(learners):
        gradients, _ = update(learner, shard)
        for name, part in whole(gradients, rows=11).items():
            total[name] = total.get(name, 0) + part
    assert_close(total, slow_gradient(learner, rollouts))


def rows_that_begin_alike():
    """Two rows of each of two prompts in each of two padded lengths, the prompts in turn."""
    draw = np.random.default_rng(3)
    prompts, sizes = draw.integers(0, 250, (2, 20)), np.repeat([4, 10], 4)
    parts = [ids for k, n in enumerate(sizes) for ids in (prompts[k % 2], draw.integers(0, 250, n))]
    return Rows(
        number=np.arange(8),
        total=8,
        tokens=np.concatenate(parts).astype(np.int32),
        prompt_lengths=np.full(8, 20),
        response_lengths=sizes,
        action_mask=draw.random(sizes.sum()) < 0.8,
        old_logprobs=np.full(sizes.sum(), -3.0, np.float32),
        advantages=draw.normal(size=8).astype(np.float32),
        weights=np.full(8, 1 / 8),
        replayed=np.zeros(8, bool),
    )


@pytest.mark.parametrize("settings", [{}, {"lora_rank": 4}], ids=["plain", "lora"])
def test_rows_that_begin_alike_share_their_passes_for_the_same_gradient(
    make_learner, monkeypatch, settings
):
    if settings:
        pytest.importorskip("peft")
    learner = make_learner(**STILL | {"micro_batch_tokens": 64} | settings)
    rows = rows_that_begin_alike()
    passes = list(learner.updaters[DEFAULT_MODULE_ID].passes.over(rows))
    assert [tuple(each.batch.input_ids.shape) for each in passes] == [(2, 32)] * 2 + [(2, 24)] * 2
    for each in passes:
        assert len(each.batch.input_ids[:, :20].unique(dim=0)) == 1
        assert each.batch.shared is not None
    (shared,), _ = update(learner, rows)
    monkeypatch.setattr("trca.algorithms.learner.passes.MOST_DISTINCT", 0.0)
    (alone,), _ = update(learner, rows)
    assert not any(
        each.batch.shared for each in learner.updaters[DEFAULT_MODULE_ID].passes.over(rows)
    )
    assert_close(shared, alone)


def test_two_learners_add_their_gradients_up(make_learner, tmp_path):
    settings = STILL | {"minibatch_size": 4, "train_malformed": False}
    learner = make_learner(**settings)
    rollouts = sample(learner)
    shards = rows_of(rollouts, learner.config).shards(2)

    def learn(rank):
        gradients, _ = update(make_learner(num_learners=2, **settings), shards[rank])
        return whole(gradients, rows=11)

    for gradient in together(learn, 2, tmp_path):
        assert_close(gradient, slow_gradient(learner, rollouts))


def test_an_update_makes_good_actions_likelier_and_bad_ones_less_likely(make_learner):
    settings = {"kl_coeff": 0.0, "entropy_coeff": 0.0, "train_malformed": False}
    learner = make_learner(lr=1e-3, minibatch_size=256, **settings)
    rollouts = sample(learner, drift=0.0)
    for rollout in rollouts:
        rollout.advantages = np.full(len(rollout.steps), 1.0 if rollout.index % 2 else -1.0)
    before = action_logprobs(learner, rollouts)
    update(learner, rows_of(rollouts, learner.config))
    change = action_logprobs(learner, rollouts) - before
    assert change[[r.index % 2 == 1 for r in rollouts]].min() > 0
    assert change[[r.index % 2 == 0 for r in rollouts]].max() < 0


def action_logprobs(learner, rollouts):
    """The sum of the log-probabilities of the actions of each rollout."""

    def score(step):
        logprobs, _ = slow_scores(policy_of(learner), step, 1.0, vocabulary_of(learner))
        return float(logprobs[step.action_mask].sum())

    with torch.no_grad():
        return np.array([sum(map(score, rollout.steps)) for rollout in rollouts])


def test_the_rate_warms_up_over_updates_and_epochs_repeat_the_rows(make_learner):
    learner = make_learner(lr=0.01, lr_warmup_updates=8, minibatch_size=4, num_epochs=2)
    rows = rows_of(sample(learner), learner.config)
    first, second = update(learner, rows)[1], update(learner, rows)[1]
    np.testing.assert_allclose(first, np.arange(1, 7) * 0.01 / 8)
    np.testing.assert_allclose(second, np.minimum(np.arange(7, 13), 8) * 0.01 / 8)


def test_the_rate_falls_to_its_share_in_the_last_iteration(make_learner):
    learner = make_learner(lr=0.01, lr_end_factor=0.2, iterations=5, minibatch_size=256)
    rows = rows_of(sample(learner), learner.config)
    rates = [update(learner, rows, iteration=k)[1] for k in (1, 3, 5, 6)]
    np.testing.assert_allclose(np.concatenate(rates), [0.01, 0.006, 0.002, 0.002])


def test_a_long_gradient_is_cut_to_the_clip_and_a_short_one_is_not(make_learner):
    norms = {}
    for clip in (None, 0.05, 1000.0):
        learner = make_learner(**STILL | {"grad_clip": clip, "minibatch_size": 256})
        rows = rows_of(sample(learner), learner.config)
        (gradient,), _ = update(learner, rows)
        norms[clip] = float(sum(g.square().sum() for g in gradient.values()) ** 0.5)
    assert norms[0.05] == pytest.approx(0.05, rel=1e-3)
    assert norms[1000.0] == norms[None] > 0.1


def test_the_reference_stays_while_the_policy_moves(make_learner):
    learner = make_learner(lr=0.01, minibatch_size=4)
    rollouts = sample(learner)
    before = copy.deepcopy(policy_of(learner).state_dict())
    for _ in range(3):
        update(learner, rows_of(rollouts, learner.config))
    first = load_model(learner.config.resolved_model(), "float32").state_dict()
    for name, weights in learner.module[DEFAULT_MODULE_ID].reference.state_dict().items():
        assert torch.equal(weights, first[name])
    after = policy_of(learner).state_dict()
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_minibatches_without_a_counted_token_are_left_out_of_the_metrics(make_learner):
    learner = make_learner(**STILL | {"minibatch_size": 1, "train_malformed": False})
    rollouts = sample(learner)
    for step in [step for rollout in rollouts for step in rollout.steps][:-1]:
        step.action_mask[:] = False
    metrics = metrics_of(learner, rollouts)
    assert metrics["ratio_mean"] == pytest.approx(metrics["ratio_max"], rel=1e-3)
    assert metrics["mismatch_kl"] == pytest.approx(metrics["approx_kl"])
    assert metrics["mismatch_kl"] > 0
    rollouts[-1].steps[-1].action_mask[:] = False
    metrics = metrics_of(learner, rollouts)
    assert np.isnan([metrics["ratio_mean"], metrics["mismatch_kl"], metrics["entropy"]]).all()
    assert metrics["skipped_updates"] == 0


@pytest.mark.parametrize(("row", "counts"), [(None, False), (0, False), (7, True)])
def test_the_entropy_bonus_counts_only_if_an_action_has_an_advantage(
    make_learner, tmp_path, row, counts
):
    rows = rows_that_begin_alike()
    rows.action_mask[: rows.response_lengths[0]] = False
    rows.advantages[:] = 0
    if row is not None:
        rows.advantages[row] = 1e-20

    def learn(batch, **settings):
        ((gradient,), _) = update(make_learner(**STILL | {"kl_coeff": 0.0} | settings), batch)
        return gradient

    alone, shards = learn(rows), rows.shards(2)
    assert any(each.abs().max() > 1e-6 for each in alone.values()) == counts
    for gradient in together(lambda rank: learn(shards[rank], num_learners=2), 2, tmp_path):
        if counts:
            assert_close(gradient, alone)
        else:
            assert not any(each.any() for each in gradient.values())


def metrics_of(learner, rollouts):
    rows = rows_of(rollouts, learner.config)
    results = learner.update(training_data=TrainingData(batch=rows), shuffle_key=(5,))
    return {name: results[DEFAULT_MODULE_ID][name].peek() for name in UPDATE_METRICS}
