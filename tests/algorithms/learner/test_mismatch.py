"""The distance of sampler and trainer: measured, corrected, and its cause named."""

from dataclasses import replace

import numpy as np
import pytest

from trca.algorithms.learner.mismatch import cause, correct, drift_metrics
from trca.algorithms.learner.rows import Rows
from trca.algorithms.settings.parameters import TextParameters


def alone(values, largest=False):
    return values


def make_rows():
    """Three steps of two response tokens after one prompt token; the third has no action."""
    return Rows(
        number=np.arange(3),
        total=3,
        tokens=np.zeros(9, np.int32),
        prompt_lengths=np.ones(3, np.int64),
        response_lengths=np.full(3, 2),
        action_mask=np.array([1, 1, 1, 1, 0, 0], bool),
        old_logprobs=np.full(6, -1.0, np.float32),
        advantages=np.array([1.0, -2.0, 3.0], np.float32),
        weights=np.array([0.25, 0.25, 0.5]),
        replayed=np.zeros(3, bool),
    )


RATIOS = np.array([1.5, 2.0, 0.5, 0.9, 7.0, 7.0])
OWN = (-1.0 + np.log(RATIOS)).astype(np.float32)


def corrected(**settings):
    return correct(make_rows(), OWN, TextParameters(recompute_logprobs=True, **settings), alone)


def test_without_options_only_the_old_logprobs_change():
    rows, metrics = corrected()
    before = make_rows()
    assert rows.old_logprobs.tolist() == OWN.tolist()
    for name in ("action_mask", "weights", "advantages"):
        assert getattr(rows, name).tolist() == getattr(before, name).tolist()
    assert metrics["mismatch_ratio"] == pytest.approx(np.mean([1.5, 2.0, 0.5, 0.9]))
    assert metrics["mismatch_ratio_max"] == pytest.approx(2.0)
    assert metrics["mismatch_below"] == 0.5
    ratios = RATIOS[:4]
    assert metrics["mismatch_kl"] == pytest.approx(np.mean(ratios - 1 - np.log(ratios)))


def test_an_advantage_is_weighted_by_the_ratio_of_its_action_up_to_the_cap():
    rows, _ = corrected(importance_cap=2.0)
    np.testing.assert_allclose(rows.advantages, [2.0, -2.0 * 0.45, 3.0], rtol=1e-6)
    rows, _ = corrected(importance_cap=10.0)
    np.testing.assert_allclose(rows.advantages, [3.0, -2.0 * 0.45, 3.0], rtol=1e-6)


def test_tokens_outside_of_the_band_leave_the_action_and_its_ratio():
    rows, metrics = corrected(token_ratio_band=(0.6, 1.8), importance_cap=10.0)
    assert rows.action_mask.tolist() == [True, False, False, True, False, False]
    np.testing.assert_allclose(rows.advantages, [1.5, -1.8, 3.0], rtol=1e-6)
    assert metrics["masked_tokens"] == 0.5


def test_without_an_action_no_token_is_masked():
    silent = replace(make_rows(), action_mask=np.zeros(len(OWN), dtype=bool))
    settings = TextParameters(recompute_logprobs=True, token_ratio_band=(0.6, 1.8))
    _, metrics = correct(silent, OWN, settings, alone)
    assert metrics["masked_tokens"] == metrics["masked_steps"] == 0.0


def test_steps_outside_of_the_band_leave_the_denominator_too():
    rows, metrics = corrected(action_ratio_band=(0.5, 1.5))
    np.testing.assert_allclose(rows.weights, [0.0, 1 / 3, 2 / 3])
    assert metrics["masked_steps"] == 0.5


def test_the_cause_of_a_mismatch_is_named():
    draw = np.random.default_rng(0)
    noise = drift_metrics(draw.normal(0, 0.05, 4000), alone)
    assert cause(noise, 0, "bfloat16").startswith("precision")
    assert cause(noise, 0, "float32").startswith("another arithmetic")
    assert cause(noise, 2, "bfloat16").startswith("stale weights: steps were sampled up to 2")


def test_a_cut_tail_is_told_from_noise():
    """Samples of the top 20 of 60 tokens, whose probabilities the sampler scales up to 1."""
    draw = np.random.default_rng(0)
    logits = np.sort(draw.normal(size=(3000, 60)))
    logprobs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    kept = np.log(np.exp(logprobs[:, -20:]).sum(1))
    metrics = drift_metrics(kept, alone)  # log pi_trainer - log pi_sampler of any kept token
    assert cause(metrics, 0, "float32").startswith("sampling filters")
    assert metrics["mismatch_ratio"] < 0.9
