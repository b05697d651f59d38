"""HCAPO by hand, against the slow version, and the prompt in hindsight."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.algorithms.credit.slow_rules import slow_episode, slow_normalize
from tests.algorithms.credit.step_batches import batches, rule, step_batch
from trca.algorithms import HCAPOConfig
from trca.algorithms.credit.logprobs import HINDSIGHT_LOGPROBS, note
from trca.envs.text_env import DEFAULT_AGENT
from trca.policies.spans import read_response
from trca.records import StepBatch

hcapo = rule("hcapo")
BATCH = step_batch([2, 2], [0, 0], [0, 1, 0, 0], [0, 1, 0, 1])
"""One rollout wins, one fails."""
EVEN = np.zeros(4)


def by_hand(quality):
    """A^E of a win and a failure, and the norm of Q, cut at 0 in the success."""
    step = (np.array(quality) - np.mean(quality)) / np.std(quality, ddof=1)
    step[:2] = np.maximum(step[:2], 0)
    return np.array([1, 1, -1, -1]) / np.sqrt(2) + step


def test_actions_alike_in_hindsight_are_worth_the_discounted_outcome():
    advantages = hcapo(BATCH, hindsight_logprobs=EVEN, gamma=0.5, epsilon=0.0)
    np.testing.assert_allclose(advantages, by_hand([0.5, 1, 0, 0]))


def test_a_likelier_action_is_worth_more_up_to_the_clip():
    """e^0 and e^-0.2 over their mean, 1.0997 and 0.9003; then the clip at 0.8 and 1.2."""
    likely = np.exp([0.0, -0.2])
    ratio = likely / likely.mean()
    said = np.array([0.0, -1.0, -9.0, -7.0])
    advantages = hcapo(BATCH, hindsight_logprobs=said, gamma=1.0, epsilon=0.0)
    np.testing.assert_allclose(advantages, by_hand([*ratio, 0, 0]))
    far = hcapo(BATCH, hindsight_logprobs=20 * said, gamma=1.0, epsilon=0.0)
    np.testing.assert_allclose(far, by_hand([1.2, 0.8, 0, 0]))


@given(
    st.data(),
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 2.0]),
    st.sampled_from([1.0, 5.0]),
    st.sampled_from([0.0, 0.2, 1.0]),
)
def test_it_equals_the_slow_version(data, batch, gamma, omega, temperature, clip):
    said = data.draw(arrays(np.float64, len(batch), elements=st.floats(-9, 0)))
    quality = np.zeros(len(batch))
    success = np.zeros(len(batch), dtype=bool)
    for name in np.unique(batch.rollout):
        rows = np.flatnonzero(batch.rollout == name)
        success[rows] = batch.won[rows[-1]]
        likely = [np.exp(said[row] / temperature) for row in rows]
        for turn, row in enumerate(rows):
            if success[row]:
                ratio = min(max(likely[turn] / np.mean(likely), 1 - clip), 1 + clip)
                outcome = batch.reward[rows].sum()
                quality[row] = ratio * gamma ** (len(rows) - 1 - turn) * outcome
    step = slow_normalize(quality, batch.group.tolist(), ddof=1)
    step = np.where(success & (step < 0), 0, step)
    fast = hcapo(
        batch,
        hindsight_logprobs=said,
        gamma=gamma,
        omega=omega,
        hindsight_temperature=temperature,
        hindsight_clip=clip,
    )
    slow = slow_episode(batch, ddof=1) + omega * step
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("cluster")
def test_the_actions_of_successes_are_scored_after_the_end_of_their_rollout(build, make_config):
    """Each first step of a success is given a response of a long thought and a short action."""
    algorithm = build(make_config(HCAPOConfig, tasks_per_iteration=8, train_malformed=False))
    algorithm.train()
    tokenizer = algorithm.env_runner_group.local_env_runner.loop.tokenizer
    rollouts = algorithm.rollouts
    won = [rollout for rollout in rollouts if rollout.won]
    assert 0 < len(won) < len(rollouts)
    for rollout in won:
        step = rollout.steps[0]
        text = f"<think>a key is in room 1.</think><action>{step.action}</action>"
        ids = np.array(tokenizer(text)["input_ids"], np.int32)
        mask = read_response(ids, tokenizer).action_mask
        assert 0 < mask.sum() < len(mask) / 2
        rollout.steps[0] = replace(step, response_ids=ids, action_mask=mask)
    batch = StepBatch.from_rollouts(rollouts, algorithm._operators[DEFAULT_AGENT].categories)
    found = iter(HINDSIGHT_LOGPROBS(algorithm._sources(rollouts), batch))
    for rollout in rollouts:
        ids = tokenizer(note(rollout))["input_ids"]
        for number, step in enumerate(rollout.steps):
            expected = 0.0
            if rollout.won:
                prompt = np.array([*step.prompt_ids, *ids], dtype=np.int32)
                (scores,) = algorithm.learner_group.score([prompt], [step.response_ids])
                action = step.action_mask if step.action_mask.any() else slice(None)
                expected = scores[action].mean()
                assert number or abs(expected - scores.mean()) > 0.1
            assert next(found) == pytest.approx(expected, abs=1e-5)
    assert "You have the key" in note(won[0])
