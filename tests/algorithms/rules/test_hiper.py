"""HiPER's advantages and targets by hand and against the slow version."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.algorithms.credit.critic_values import critic_values, values_of
from tests.algorithms.credit.step_batches import batches, cut_off, rule, step_batch
from trca.algorithms import HiPERConfig
from trca.algorithms.credit.plans import Plans

hiper = rule("hiper")
FREE = {"keep_penalty": 0.0, "change_penalty": 0.0, "invalid_action_penalty": 0.0}
WIN = step_batch([3, 1], [0, 0], [0, 0, 1, 0], [0, 1, 0, 0])
"""One rollout wins in three steps, one fails in one."""
H, L, T = range(3)


def plans(switch, subgoal=None):
    """Plans of steps whose response is a switch, a subgoal and an action, a token each."""
    steps = len(switch)
    return Plans(
        np.array(switch, dtype=bool),
        np.array(np.zeros(steps) if subgoal is None else subgoal, dtype=np.int64),
        np.tile(np.array([1, 2, 3], dtype=np.int8), steps),
    )


def said(high, low, term):
    """Values of three tokens: V^H and V^T of the state, V^L before the third."""
    return [[h, 9, t] if j == 0 else [9, v, 9] for j in range(3) for h, v, t in [(high, low, term)]]


def normalised(values):
    spread = np.std(values)
    return (np.array(values) - np.mean(values)) / spread if spread else np.zeros(len(values))


def known(column):
    return column[~np.isnan(column)]


def test_two_segments_and_one_of_a_single_turn_by_hand():
    """Gamma 1/2, lambda 1; turns 0 and 1 are a segment, turn 2 is one, the failure is one.

    G: turn 2: 1; turn 1: 0 + 1/2 V^H_2 = 1/8; turn 0: 1/16; failure 0.
    A^L: turn 2: 1 - 1/2; turn 1: 1/2 1/4 - 1/4; turn 0: 1/2 1/4 - 1/2 + 1/2 (-1/8); failure: -1.
    A^H: segment 2: 1 - 1/4; segment 1: 1/16 - 1/2 + (1/2)^2 3/4; failure: -1/2.
    """
    values = critic_values(
        WIN,
        [said(1 / 2, 1 / 2, 0), said(9, 1 / 4, 1 / 8), said(1 / 4, 1 / 2, 1), said(1 / 2, 1, 0)],
    )
    plan = plans([True, False, True, True])
    credit = hiper(WIN, values=values, plans=plan, gamma=0.5, **FREE)
    actions = [-3 / 8 - 1 / 16, -1 / 8, 1 / 2, -1]
    segments = [-7 / 16 + 3 / 16, 3 / 4, -1 / 2]
    switches = [1 / 16, 0, 0, 0]
    tokens = credit.token_advantages.reshape(4, 3)
    np.testing.assert_allclose(tokens[:, 0], normalised(switches), rtol=1e-6)
    np.testing.assert_allclose(tokens[[0, 2, 3], 1], normalised(segments), rtol=1e-6)
    assert tokens[1, 1] == 0.0  # the subgoal was kept
    np.testing.assert_allclose(tokens[:, 2], normalised(actions), rtol=1e-6)
    np.testing.assert_allclose(credit.advantages, tokens.mean(axis=1))
    targets = credit.value_targets.reshape(4, 3, 3)
    np.testing.assert_allclose(targets[[0, 2, 3], 0, H], np.add(segments, [1 / 2, 1 / 4, 1 / 2]))
    assert np.isnan(targets[1, 0, H])
    np.testing.assert_allclose(targets[:, 2, L], np.add(actions, [1 / 2, 1 / 4, 1 / 2, 1]))
    np.testing.assert_allclose(targets[:, 0, T], [1 / 16, 1 / 8, 1, 0])
    assert len(known(credit.value_targets.ravel())) == 3 + 4 + 4


def test_a_rollout_that_was_cut_off_is_worth_what_its_last_state_is():
    cut = cut_off(WIN)
    values = critic_values(cut, [[[0, 0, 0]] * 3] * 4, beyond=[[4, 9, 9], [2, 9, 9]])
    credit = hiper(cut, values=values, plans=plans([True, False, False, True]), gamma=0.5, **FREE)
    targets = credit.value_targets.reshape(4, 3, 3)
    np.testing.assert_allclose(targets[:, 2, L], [3 / 4, 3 / 2, 3, 1])
    np.testing.assert_allclose(targets[:, 0, T], [3 / 4, 3 / 2, 3, 1])
    np.testing.assert_allclose(targets[[0, 3], 0, H], [3 / 4, 1])


def test_penalties_by_hand():
    """A KEEP costs 1/2, the first one too; with another subgoal 1/8 more; no action 1/4."""
    batch = replace(
        step_batch([4, 1], [0, 0], [0] * 5, [0] * 5),
        parsed=np.array([True, True, True, False, True]),
    )
    plan = plans([False, False, True, False, False], [0, 1, 2, 2, 3])
    values = critic_values(batch, [[[0, 0, 0]] * 3] * 5)
    penalties = dict(zip(FREE, (1 / 2, 1 / 8, 1 / 4), strict=True))
    credit = hiper(batch, values=values, plans=plan, gamma=0.0, **penalties)
    paid = credit.value_targets.reshape(5, 3, 3)[:, 0, T]
    np.testing.assert_allclose(paid, [-1 / 2, -5 / 8, 0, -3 / 4, -1 / 2])


def test_the_defaults_are_the_penalties_of_the_public_scripts_of_an_outcome_of_one():
    """KEEP .3, changed subgoal .3 and no action .1, of an outcome of 10."""
    batch = replace(step_batch([4], [0], [0] * 4, [0] * 4), parsed=np.array([True] * 3 + [False]))
    values = critic_values(batch, [[[0, 0, 0]] * 3] * 4)
    plan = plans([False, False, True, False], [0, 1, 2, 2])
    paid = hiper(batch, values=values, plans=plan, gamma=0.0).value_targets.reshape(4, 3, 3)
    np.testing.assert_allclose(paid[:, 0, T], [-0.03, -0.06, 0, -0.04])


def test_a_normalized_penalty_is_the_share_of_keeps_in_the_rollout_by_hand():
    """The public WebShop script takes 3.5 of 10. Of 4 turns 3 are KEEP: each costs .35 / 4.

    A rollout of one turn pays nothing, in the public code too.
    """
    batch = step_batch([4, 1], [0, 0], [0] * 5, [0] * 5)
    values = critic_values(batch, [[[0, 0, 0]] * 3] * 5)
    free = {**FREE, "keep_penalty": 0.35, "keep_penalty_mode": "normalized"}
    plan = plans([False, False, True, False, False])
    paid = hiper(batch, values=values, plans=plan, gamma=0.0, **free).value_targets
    np.testing.assert_allclose(
        paid.reshape(5, 3, 3)[:, 0, T], [-0.35 / 4, -0.35 / 4, 0, -0.35 / 4, 0]
    )


def slow(batch, values, plan, gamma, lam, keep, change, invalid, mode):
    """The equations, turn by turn."""
    count = len(batch)
    starts = np.cumsum(values.lengths) - values.lengths
    spans = [range(starts[t], starts[t] + values.lengths[t]) for t in range(count)]
    last = batch.terminated | batch.truncated
    first = [t == 0 or bool(last[t - 1]) for t in range(count)]
    begins = [first[t] or bool(plan.switch[t]) for t in range(count)]
    closes = [bool(last[t]) or begins[t + 1] for t in range(count)]
    reward, place, low = np.zeros(count), [None] * count, np.zeros(count)
    for t in range(count):
        reward[t] = batch.reward[t] - (0 if batch.parsed[t] else invalid)
        if not plan.switch[t]:
            turns = (batch.rollout == batch.rollout[t]).sum()
            shares = {"fixed": 1.0, "normalized": 1 / turns if turns > 1 else 0.0}
            reward[t] -= keep * shares[mode]
        before = plan.subgoal[t - 1]
        if not begins[t] and before >= 0 and plan.subgoal[t] != before:
            reward[t] -= change
        low[t] = values.state[t, L]
        if spans[t]:
            place[t] = next((j for j in spans[t] if plan.parts[j] == 3), spans[t][0])
            low[t] = values.tokens[place[t], L]
    back, acted, sought = np.zeros(count), np.zeros(count), {}
    for t in reversed(range(count)):
        follows = values.after[t, H]
        back[t] = reward[t] + gamma * (follows if closes[t] else back[t + 1])
        acted[t] = reward[t] + gamma * (follows if closes[t] else low[t + 1]) - low[t]
        acted[t] += 0 if closes[t] else gamma * lam * acted[t + 1]
    for t in reversed(range(count)):
        if begins[t]:
            end = next(e for e in range(t, count) if closes[e])
            sought[t] = back[t] - values.state[t, H]
            if not last[end]:
                sought[t] += gamma ** (end - t + 1) * lam * sought[end + 1]
    targets = np.full((len(values.tokens), 3), np.nan)
    columns = {1: {}, 2: {}, 3: {}}
    for t in range(count):
        if spans[t]:
            targets[spans[t][0], T] = back[t]
            targets[place[t], L] = acted[t] + low[t]
            if begins[t]:
                targets[spans[t][0], H] = sought[t] + values.state[t, H]
        for j in spans[t]:
            part = plan.parts[j] if batch.parsed[t] else 3
            if not values.action[j] or part == 0 or (part == 2 and not begins[t]):
                continue
            own = {1: back[t] - values.state[t, T], 2: sought.get(t), 3: acted[t]}[part]
            columns[part][t] = own
    tokens = np.zeros(len(values.tokens))
    for part, column in columns.items():
        unit = np.array([*column.values()])
        if len(unit) and np.ptp(unit) > 1e-12:
            unit = (unit - unit.mean()) / (unit.std() + 1e-8)
        else:
            unit = np.zeros(len(unit))
        of_turn = dict(zip(column, unit, strict=True))
        for t in of_turn:
            for j in spans[t]:
                if values.action[j] and (plan.parts[j] if batch.parsed[t] else 3) == part:
                    tokens[j] = of_turn[t]
    steps = []
    for t in range(count):
        trained = [tokens[j] for j in spans[t] if values.action[j]]
        steps.append(float(np.mean(trained)) if trained else 0.0)
    return np.array(steps), tokens, targets


@given(
    st.data(),
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
    st.sampled_from(["fixed", "normalized"]),
)
def test_it_equals_the_slow_version(data, batch, gamma, lam, cut, mode):
    batch = cut_off(batch) if cut else batch
    values = data.draw(values_of(batch, heads=3))
    steps, tokens = len(batch), len(values.tokens)
    plan = Plans(
        data.draw(arrays(np.bool_, steps)),
        data.draw(arrays(np.int64, steps, elements=st.integers(-1, 2))),
        data.draw(arrays(np.int8, tokens, elements=st.integers(0, 3))),
    )
    penalties = (0.25, 0.125, 0.5)
    fast = hiper(
        batch,
        values=values,
        plans=plan,
        gamma=gamma,
        gae_lambda=lam,
        keep_penalty_mode=mode,
        **dict(zip(FREE, penalties, strict=True)),
    )
    advantages, of_tokens, targets = slow(batch, values, plan, gamma, lam, *penalties, mode)
    np.testing.assert_allclose(fast.value_targets, targets, atol=1e-9)
    np.testing.assert_allclose(fast.token_advantages, of_tokens, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(fast.advantages, advantages, rtol=1e-4, atol=1e-4)


def test_wrong_choices_are_named():
    with pytest.raises(ValueError, match="reads 3 values of a token, not 1"):
        hiper(WIN, values=critic_values(WIN, [[0]] * 4), plans=plans([True] * 4))
    values = critic_values(WIN, [[[0, 0, 0]] * 3] * 4)
    with pytest.raises(ValueError, match=r"gae_lambda\n.*less than or equal to 1"):
        hiper(WIN, values=values, plans=plans([True] * 4), gae_lambda=2)
    with pytest.raises(ValueError, match=r"keep_penalty_mode\n.*Input should be 'fixed'"):
        hiper(WIN, values=values, plans=plans([True] * 4), keep_penalty_mode="share")
    config = HiPERConfig().environment("trca/ALFWorld-v0")
    with pytest.raises(ValueError, match="and responses of format 'action' have no switch and no"):
        config.copy(copy_frozen=False).training(response_format="action").validate()
    with pytest.raises(ValueError, match="set ratio_level to token"):
        config.copy(copy_frozen=False).training(ratio_level="action").validate()
