"""ShapedTurnPPO by hand, against slow shaping, and against a critic that adds the potential."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.critic_values import critic_values, values_of
from tests.algorithms.credit.step_batches import batches, cut_off, rule, step_batch
from trca.rubric import Budgets

shaped_turn_ppo = rule("shaped_turn_ppo")
turn_ppo = rule("turn_ppo")

NONE, SEEN, TAKEN = [0] * 6, [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0]
BATCH = step_batch([3, 1], [0, 0], [0, 0, 1, 0], [0, 1, 2, 0], judgments=[SEEN, TAKEN, TAKEN, SEEN])
"""Each operator weighs 1/2: Phi is 0, 1/2, 1 in rollout 0 and 0 in rollout 1."""


def targets(batch, **options):
    values = critic_values(batch, [[0.0]] * len(batch), beyond=[0.0] * 2)
    return shaped_turn_ppo(batch, values=values, **options).value_targets[:, 0]


def test_the_differences_of_the_potential_by_hand():
    """Gamma 1/2, lambda 0: 1/4 - 0, 1/2 - 1/2, 1 + 0 - 1 | 0; at the step limit Phi stays."""
    np.testing.assert_allclose(targets(BATCH, gamma=0.5, gae_lambda=0.0), [1 / 4, 0, 0, 0])
    cut = targets(cut_off(BATCH), gamma=0.5, gae_lambda=0.0)
    np.testing.assert_allclose(cut, [1 / 4, 0, 1 / 2, 1 / 4])


def potential(batch, budgets):
    """The weights of the positive operators that fired before each step, and after it."""
    weights = {0: budgets.evidence / 2, 2: budgets.execution / 2}
    before, after, covered = [], [], set()
    for rollout, judgments in zip(batch.rollout, batch.judgments, strict=True):
        for phi in (before, after):
            mine = [k for name, k in covered if name == rollout]
            phi.append(sum(weights[int(batch.categories[k])] for k in mine))
            fired = np.flatnonzero(judgments * (batch.categories != 1))
            covered |= {(rollout, int(k)) for k in fired}
    return np.array(before), np.array(after)


@given(
    st.data(),
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.sampled_from([0.5, 0.95, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
)
def test_it_is_turn_ppo_with_the_potential_in_the_critic(data, batch, gamma, gae_lambda, cut):
    """Wiewiora's theorem; the critic's targets are those without shaping, minus the potential."""
    batch = cut_off(batch) if cut else batch
    budgets = Budgets(evidence=0.5, execution=1.5)
    values = data.draw(values_of(batch))
    before, after = potential(batch, budgets)
    after = np.where(batch.terminated, 0.0, after)
    informed = replace(
        values, state=values.state + before[:, None], after=values.after + after[:, None]
    )
    options = {"gamma": gamma, "gae_lambda": gae_lambda}
    shaped = shaped_turn_ppo(batch, values=values, budgets=budgets, **options)
    plain = turn_ppo(batch, values=informed, **options)
    np.testing.assert_allclose(shaped.advantages, plain.advantages, rtol=0, atol=1e-7)
    spoken = values.lengths > 0
    first = (np.cumsum(values.lengths) - values.lengths)[spoken]
    expected = plain.value_targets[first, 0] - before[spoken]
    np.testing.assert_allclose(shaped.value_targets[first, 0], expected, rtol=0, atol=1e-12)


@given(batches(), st.sampled_from([0.5, 0.95]))
def test_it_equals_turn_ppo_on_rewards_shaped_step_by_step(batch, gamma):
    budgets = Budgets(evidence=0.5, execution=1.5)
    before, after = potential(batch, budgets)
    shaping = [
        gamma * (0.0 if end else phi_after) - phi_before
        for end, phi_before, phi_after in zip(batch.terminated, before, after, strict=True)
    ]
    values = critic_values(batch, [[0.1 * context] for context in batch.context])
    shaped = shaped_turn_ppo(batch, values=values, budgets=budgets, gamma=gamma, gae="bi_level")
    paid = replace(batch, reward=batch.reward + np.array(shaping))
    plain = turn_ppo(paid, values=values, gamma=gamma, gae="bi_level")
    np.testing.assert_allclose(shaped.value_targets, plain.value_targets, rtol=0, atol=1e-12)
    np.testing.assert_allclose(shaped.token_advantages, plain.token_advantages, atol=1e-7)
