"""TurnPPO's advantages and targets by hand and against the slow version."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.critic_values import critic_values, values_of
from tests.algorithms.credit.step_batches import batches, cut_off, rule, step_batch
from trca.algorithms import TurnPPOConfig

turn_ppo = rule("turn_ppo")
WIN = step_batch([2, 1], [0, 0], [0, 1, 0], [0, 1, 0])
"""One rollout wins in two steps, one fails in one."""


def normalised(values):
    return (np.array(values) - np.mean(values)) / np.std(values, ddof=1)


def targets_of(credit):
    return credit.value_targets[:, 0]


def test_turns_by_hand():
    """V = 1/2, 1/4 | 1; delta = 1/2 1/4 - 1/2, 1 - 1/4 | 0 - 1; half of half of 3/4 goes back."""
    values = critic_values(WIN, [[1 / 2, 9], [1 / 4], [1, 9, 9]])
    credit = turn_ppo(WIN, values=values, gamma=0.5, gae_lambda=0.5, epsilon=0.0)
    by_hand = np.array([-3 / 8 + 3 / 16, 3 / 4, -1])
    np.testing.assert_allclose(credit.advantages, normalised(by_hand))
    expected = [by_hand[0] + 1 / 2, np.nan, by_hand[1] + 1 / 4, by_hand[2] + 1, np.nan, np.nan]
    np.testing.assert_allclose(targets_of(credit), expected)
    assert credit.token_advantages is None


def test_a_rollout_that_was_cut_off_is_worth_what_its_last_state_is():
    values = critic_values(cut_off(WIN), [[0], [0], [0]], beyond=[3.0, 0.5])
    credit = turn_ppo(cut_off(WIN), values=values, gamma=0.5)
    np.testing.assert_allclose(targets_of(credit), [1 / 2 + 3 / 4, 1 + 3 / 2, 1 / 4])
    ended = critic_values(WIN, [[0], [0], [0]], beyond=[3.0, 0.5])
    np.testing.assert_allclose(targets_of(turn_ppo(WIN, values=ended, gamma=0.5)), [1 / 2, 1, 0])


def test_two_levels_by_hand():
    """Gamma 1/2 over turns, 1 over tokens, lambda 1; the second step's first token is no action.

    Anchors 1/4, 1/2 | 0: A of the turns 1/2 - 1/4, 1 - 1/2 | 0; inside the first 1/4 - 1/2 + 1/4.
    """
    values = critic_values(
        WIN, [[1 / 2, 1 / 4], [1, 1 / 2], [0]], [[True, True], [False, True], [True]]
    )
    credit = turn_ppo(WIN, values=values, gamma=0.5, gae="bi_level", epsilon=0.0)
    by_hand = [0, 1 / 4, 1 / 2, 0]
    normal = normalised(by_hand)
    np.testing.assert_allclose(credit.token_advantages, [*normal[:2], 0, *normal[2:]])
    np.testing.assert_allclose(credit.advantages, [normal[:2].mean(), normal[2], normal[3]])
    np.testing.assert_allclose(targets_of(credit), [1 / 2, 1 / 2, np.nan, 1, 0])


def slow(batch, values, gamma, lam, gae, token_gamma):
    """The equations, turn by turn and token by token."""
    count = len(batch)
    starts = np.cumsum(values.lengths) - values.lengths
    ends = batch.terminated | batch.truncated
    places = [
        [starts[t] + j for j in range(values.lengths[t]) if values.action[starts[t] + j]]
        for t in range(count)
    ]
    value = values.tokens[:, 0]
    own = values.state[:, 0]
    if gae == "bi_level":
        own = np.array([value[places[t][-1]] if places[t] else own[t] for t in range(count)])
    turns = np.zeros(count)
    for t in reversed(range(count)):
        following = values.after[t, 0] if ends[t] else own[t + 1]
        turns[t] = batch.reward[t] + gamma * following - own[t]
        turns[t] += 0 if ends[t] else gamma * lam * turns[t + 1]
    targets = np.full(len(value), np.nan)
    per_token = np.zeros(len(value))
    for t in range(count):
        if values.lengths[t] and (gae == "turn" or not places[t]):
            targets[starts[t]] = turns[t] + values.state[t, 0]
        if gae == "bi_level" and places[t]:
            per_token[places[t][-1]] = turns[t]
            for here, ahead in reversed(list(zip(places[t], places[t][1:], strict=False))):
                delta = token_gamma * value[ahead] - value[here]
                per_token[here] = delta + token_gamma * lam * per_token[ahead]
            for place in places[t]:
                targets[place] = per_token[place] + value[place]
    spoken = [place for group in places for place in group]
    unit = per_token[spoken] if gae == "bi_level" else turns
    if len(unit) and np.ptp(unit) > 1e-12:
        unit = (unit - unit.mean()) / (unit.std(ddof=1) + 1e-8)
    else:
        unit = np.zeros(len(unit))
    if gae == "turn":
        return unit, None, targets
    per_token[:] = 0
    per_token[spoken] = unit
    steps = [per_token[group].mean() if group else 0.0 for group in places]
    return np.array(steps), per_token, targets


@given(
    st.data(),
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.floats(0, 1),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(["turn", "bi_level"]),
    st.sampled_from([0.5, 1.0]),
    st.booleans(),
)
def test_it_equals_the_slow_version(data, batch, gamma, lam, gae, token_gamma, cut):
    batch = cut_off(batch) if cut else batch
    values = data.draw(values_of(batch))
    fast = turn_ppo(
        batch, values=values, gamma=gamma, gae_lambda=lam, gae=gae, token_gamma=token_gamma
    )
    steps, tokens, targets = slow(batch, values, gamma, lam, gae, token_gamma)
    np.testing.assert_allclose(fast.advantages, steps, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(targets_of(fast), targets, atol=1e-9)
    if tokens is not None:
        np.testing.assert_allclose(fast.token_advantages, tokens, rtol=1e-4, atol=1e-4)


def test_wrong_choices_are_named():
    values = critic_values(WIN, [[0], [0], [0]])
    with pytest.raises(ValueError, match=r"gae\n.*Input should be 'turn'"):
        turn_ppo(WIN, values=values, gae="both")
    with pytest.raises(ValueError, match=r"gae_lambda\n.*less than or equal to 1"):
        turn_ppo(WIN, values=values, gae_lambda=2)
    config = TurnPPOConfig().environment("trca/ALFWorld-v0").training(gae="bi_level")
    with pytest.raises(ValueError, match="set ratio_level to token"):
        config.validate()
