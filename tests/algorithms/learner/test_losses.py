"""The clipped objective: hand-computed values, gradients, and sums over any split."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trca.algorithms.learner.losses import (
    LossInputs,
    LossSettings,
    clipped_surrogate,
    kl_estimate,
    objective,
    row_weights,
)

LEVELS = ["action", "action_mean", "token"]
POLICY_ALONE = LossSettings(kl_coeff=0.0, entropy_coeff=0.0)
VOCABULARY = 5


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


class SoftmaxPolicy:
    """Some rows of tokens drawn from free logits, one set a token."""

    def __init__(self, seed=0, rows=6, drift=0.1):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, dtype=torch.float64, generator=generator)

        lengths = torch.randint(2, 6, (rows,), generator=generator)
        tokens = int(lengths.sum())
        self.logits = normal(tokens, VOCABULARY)
        self.targets = torch.randint(VOCABULARY, (tokens,), generator=generator)
        row = torch.repeat_interleave(torch.arange(rows), lengths)
        position = torch.arange(tokens) - (lengths.cumsum(0) - lengths)[row]
        logprobs, _ = self.score(self.logits)
        self.inputs = LossInputs(
            row=row,
            action_mask=position > 0,
            old_logprobs=logprobs + drift * normal(tokens),
            advantage=normal(rows),
            weight=torch.rand(rows, dtype=torch.float64, generator=generator),
            reference_logprobs=logprobs + 0.3 * normal(tokens),
        )

    def score(self, logits):
        log_p = logits.log_softmax(-1)
        entropy = -(log_p.exp() * log_p).sum(-1)
        return log_p.gather(-1, self.targets[:, None]).squeeze(-1), entropy

    def gradient(self, inputs, constants, tokens=slice(None)):
        """Gradient of the objective in the logits, from these tokens."""
        logits = self.logits.clone().requires_grad_()
        logprobs, entropy = self.score(logits)
        objective(inputs, logprobs[tokens], entropy[tokens], constants).loss.backward()
        return logits.grad


@pytest.mark.parametrize("old", [-5.0, -50.0])
@pytest.mark.parametrize(("level", "tokens"), [("action", 1), ("action_mean", 2), ("token", 2)])
def test_a_log_likelihood_has_the_gradient_of_imitation_far_beyond_the_clip(level, tokens, old):
    """Weight 1/2, advantage 3, an action of two tokens: -3/2 each, or their mean."""
    inputs = LossInputs(
        row=torch.tensor([0, 0, 0]),
        action_mask=torch.tensor([False, True, True]),
        old_logprobs=double(-9.0, old, old),
        advantage=double(3.0),
        weight=double(0.5),
    )
    logprobs = double(-1.0, -2.0, -0.5).requires_grad_()
    constants = LossSettings(
        policy_loss="log_likelihood", ratio_level=level, kl_coeff=0.0, entropy_coeff=0.0
    )
    terms = objective(inputs, logprobs, double(0.0, 0.0, 0.0), constants)
    terms.loss.backward()
    torch.testing.assert_close(logprobs.grad, double(0.0, -1.5 / tokens, -1.5 / tokens))
    assert terms.loss.item() == pytest.approx(1.5 * 2.5 / tokens)
    assert terms.clip_ratio == 0


def test_a_row_by_hand():
    """An action of two tokens, its ratio above the clip; one think token that only KL sees."""
    inputs = LossInputs(
        row=torch.tensor([0, 0, 0]),
        action_mask=torch.tensor([False, True, True]),
        old_logprobs=double(-9.0, -1.0, -1.0),
        advantage=double(2.0),
        weight=double(0.5),
        reference_logprobs=double(-1.5, -0.8, -0.9),
    )
    logprobs, entropy = double(-1.0, -0.8, -0.7), double(9.0, 0.6, 0.8)
    constants = LossSettings(kl_kind="k2", kl_coeff=0.1, kl_coeff_format=0.2, entropy_coeff=0.01)
    terms = objective(inputs, logprobs, entropy, constants)
    ratio = math.exp(0.5)
    assert float(terms.ratio_max) == pytest.approx(ratio)
    assert float(terms.ratio_mean) == pytest.approx(0.5 * ratio)
    assert float(terms.clip_ratio) == pytest.approx(0.5)
    assert float(terms.policy) == pytest.approx(0.5 * -1.28 * 2.0)
    assert float(terms.kl) == pytest.approx(0.5 * (0.0 + 0.2**2 / 2) / 2)
    assert float(terms.kl_format) == pytest.approx(0.5 * 0.5**2 / 2)
    assert float(terms.entropy) == pytest.approx(0.5 * 0.7)
    expected = -1.28 + 0.1 * 0.005 + 0.2 * 0.0625 - 0.01 * 0.35
    assert float(terms.loss) == pytest.approx(expected)
    old_minus_new = [-0.2, -0.3]
    drift = [math.exp(-d) + d - 1 for d in old_minus_new]
    assert float(terms.approx_kl) == pytest.approx(0.5 * sum(drift) / 2)


def test_tokens_may_have_advantages_of_their_own():
    """Ratios e^0.2 and e^0.3, the second above its clip; each half of the row's weight 1/2."""
    inputs = LossInputs(
        row=torch.tensor([0, 0, 0]),
        action_mask=torch.tensor([False, True, True]),
        old_logprobs=double(-9.0, -1.0, -1.0),
        advantage=double(7.0),
        weight=double(0.5),
        token_advantage=double(5.0, -1.0, 2.0),
    )
    constants = POLICY_ALONE.model_copy(update={"ratio_level": "token"})
    terms = objective(inputs, double(-1.0, -0.8, -0.7), double(0.0, 0.0, 0.0), constants)
    assert float(terms.policy) == pytest.approx(0.25 * math.exp(0.2) - 0.25 * 1.28 * 2.0)
    assert float(terms.clip_ratio) == pytest.approx(0.25)
    with pytest.raises(ValueError, match="set ratio_level to 'token'"):
        objective(inputs, double(0.0, 0.0, 0.0), double(0.0, 0.0, 0.0), POLICY_ALONE)


@pytest.mark.parametrize("level", LEVELS)
def test_tokens_may_come_in_any_order(level):
    policy, constants = SoftmaxPolicy(), LossSettings(ratio_level=level)
    order = torch.randperm(len(policy.targets), generator=torch.Generator().manual_seed(1))
    inputs = policy.inputs
    shuffled = replace(
        inputs,
        row=inputs.row[order],
        action_mask=inputs.action_mask[order],
        old_logprobs=inputs.old_logprobs[order],
        reference_logprobs=inputs.reference_logprobs[order],
    )
    torch.testing.assert_close(
        policy.gradient(shuffled, constants, order), policy.gradient(inputs, constants)
    )


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"),
    [
        (1.0, 1.0, -1.0),
        (1.27, 1.0, -1.0),
        (1.29, 1.0, 0.0),
        (0.5, 1.0, -1.0),
        (1.0, -1.0, 1.0),
        (0.81, -1.0, 1.0),
        (0.79, -1.0, 0.0),
        (1.5, -1.0, 1.0),
        (1.5, 0.0, 0.0),
    ],
)
def test_the_clip_stops_steps_that_went_far_enough_and_no_others(ratio, advantage, slope):
    rho = double(ratio).requires_grad_()
    clipped_surrogate(rho, double(advantage), 0.2, 0.28).sum().backward()
    assert float(rho.grad) == slope
    inputs = LossInputs(
        row=torch.tensor([0]),
        action_mask=torch.tensor([True]),
        old_logprobs=double(0.0),
        advantage=double(advantage),
        weight=double(1.0),
    )
    terms = objective(inputs, double(math.log(ratio)), double(0.0), POLICY_ALONE)
    assert float(terms.clip_ratio) == float(slope == 0.0 and advantage != 0.0)


@pytest.mark.parametrize("level", LEVELS)
def test_rows_without_an_action_and_batches_without_a_token_are_no_trouble(level):
    policy, constants = SoftmaxPolicy(), LossSettings(ratio_level=level)
    bare = replace(policy.inputs, action_mask=torch.zeros_like(policy.inputs.action_mask))
    assert not policy.gradient(bare, constants).any()
    terms = objective(bare, *policy.score(policy.logits), constants)
    assert float(terms.policy) == float(terms.ratio_mean) == float(terms.ratio_max) == 0.0
    nothing = double()
    inputs = LossInputs(nothing.long(), nothing.bool(), nothing, nothing, nothing, nothing)
    terms = objective(inputs, nothing.clone().requires_grad_(), nothing, constants)
    assert float(terms.loss.detach()) == 0.0
    assert float(terms.ratio_max) == 0.0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("distance", [-1e4, 1e4])
def test_a_policy_that_has_run_away_keeps_the_loss_finite(level, distance):
    policy, constants = SoftmaxPolicy(), LossSettings(ratio_level=level)
    far = policy.inputs.old_logprobs + distance
    inputs = replace(policy.inputs, old_logprobs=far, reference_logprobs=far)
    assert policy.gradient(inputs, constants).isfinite().all()


def softmax_pair():
    generator = torch.Generator().manual_seed(3)
    logits, other = torch.randn(2, VOCABULARY, dtype=torch.float64, generator=generator)
    return logits.requires_grad_(), other.log_softmax(-1)


def test_every_kl_estimate_but_k2_is_right_on_average():
    logits, log_q = softmax_pair()
    log_p = logits.detach().log_softmax(-1)
    exact = (log_p.exp() * (log_p - log_q)).sum()
    for kind in ("k1", "k3", "k3+"):
        torch.testing.assert_close((log_p.exp() * kl_estimate(log_p, log_q, kind)).sum(), exact)
    assert (kl_estimate(log_p, log_q, "k3") >= 0).all()
    assert (kl_estimate(log_p, log_p, "k3") == 0).all()


def test_the_gradient_of_k2_is_right_on_average_and_k3_plus_has_it():
    logits, log_q = softmax_pair()
    log_p = logits.log_softmax(-1)
    (exact,) = torch.autograd.grad((log_p.exp() * (log_p - log_q)).sum(), logits)
    for kind in ("k2", "k3+"):
        log_p = logits.log_softmax(-1)
        sampled = (log_p.detach().exp() * kl_estimate(log_p, log_q, kind)).sum()
        (gradient,) = torch.autograd.grad(sampled, logits)
        torch.testing.assert_close(gradient, exact)


GROUP = np.array([0, 0, 0, 0, 1, 1])
ROLLOUT = np.array([5, 5, 5, 2, 9, 9])
TOKENS = np.array([1, 2, 3, 0, 2, 2])


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("rollout_mean", [1 / 12, 1 / 12, 1 / 12, 1 / 4, 1 / 4, 1 / 4]),
        ("rollout_sum", [1 / 40, 1 / 40, 1 / 40, 1 / 40, 1 / 20, 1 / 20]),
        ("step_mean", [1 / 6] * 6),
        ("token_mean", TOKENS / 10),
    ],
)
def test_weights_by_hand(aggregation, expected):
    """Two groups; the first has rollouts of three steps and one, the second has one of two steps.

    With ``rollout_sum`` every rollout counts as ten steps.
    """
    weights = row_weights(GROUP, ROLLOUT, TOKENS, aggregation, 10)
    np.testing.assert_allclose(weights, expected)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=8))
def test_weights_add_up_to_one_however_ragged_the_groups(rollouts):
    group = np.repeat([g for g, _ in rollouts], [n for _, n in rollouts])
    rollout = np.repeat(np.arange(len(rollouts)), [n for _, n in rollouts])
    for aggregation in ("rollout_mean", "step_mean", "token_mean"):
        weights = row_weights(group, rollout, np.ones(len(rollout)), aggregation)
        assert weights.sum() == pytest.approx(1.0)


def test_no_rows_have_no_weights():
    empty = np.empty(0, dtype=np.int64)
    assert row_weights(empty, empty, empty, "rollout_mean").shape == (0,)


def test_a_kl_weight_needs_a_reference():
    policy = SoftmaxPolicy()
    inputs = replace(policy.inputs, reference_logprobs=None)
    with pytest.raises(ValueError, match="reference_logprobs is None"):
        objective(inputs, *policy.score(policy.logits), LossSettings())


def test_terms_of_micro_batches_add_up_to_weighted_means():
    """With weights that add up to one, every sum is a mean over rows."""
    policy = SoftmaxPolicy(drift=0.5)
    inputs = replace(policy.inputs, weight=torch.full((6,), 1 / 6, dtype=torch.float64))
    terms = objective(inputs, *policy.score(policy.logits), LossSettings())
    shift = (policy.score(policy.logits)[0] - inputs.old_logprobs) * inputs.action_mask
    ratios = [float(shift[inputs.row == number].sum().exp()) for number in range(6)]
    assert float(terms.ratio_mean) == pytest.approx(np.mean(ratios))
    assert float(terms.ratio_max) == pytest.approx(max(ratios))
    signs = itertools.starmap(
        lambda r, a: (a > 0 and r > 1.28) or (a < 0 and r < 0.8),
        zip(ratios, inputs.advantage.tolist(), strict=True),
    )
    assert float(terms.clip_ratio) == pytest.approx(np.mean(list(signs)))
