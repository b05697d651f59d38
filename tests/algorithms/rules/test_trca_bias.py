"""What the parts of A^S and r^F do to the optimum, exactly.

Each decision process is so small that every group of rollouts can be enumerated.
"""

from itertools import product

import numpy as np
import pytest

from tests.algorithms.credit.step_batches import CATEGORIES, rule, step_batch
from trca.algorithms.credit.arithmetic import discounted_returns, joint_codes, normalize
from trca.algorithms.rules.trca import TRCAParameters, trca_parts
from trca.rubric.rewards import Budgets

trca = rule("trca")
SAFE, RISKY = 0, 1
BANDIT = [(SAFE, 1.0, 0.5), (RISKY, 3.0, 0.5 * 0.4), (RISKY, 0.0, 0.5 * 0.6)]
"""Arm, outcome and probability of a rollout of one step: the risky arm is better, by 1.2 to 1."""
BINARY = [(SAFE, 1, 0.25), (SAFE, 0, 0.25), (RISKY, 1, 0.5 * 0.6), (RISKY, 0, 0.5 * 0.4)]
"""As `BANDIT`, with outcomes 0 and 1: the second arm wins more often."""


def slope(advantage, members, bandit=BANDIT):
    """Expected policy gradient for the logit of the second arm, over all groups of rollouts."""
    groups = list(product(bandit, repeat=members))
    count = members * len(groups)
    arms, rewards, chances = np.array(groups).reshape(count, 3).T
    batch = step_batch([1] * count, np.arange(count) // members, rewards, [0] * count)
    gradient = advantage(batch) * (arms - 0.5)
    return chances.reshape(-1, members).prod(1) @ gradient.reshape(-1, members).mean(1)


@pytest.mark.parametrize("members", [2, 4])
def test_the_own_member_of_the_mean_shrinks_the_gradient_and_keeps_its_direction(members):
    def against_mean(batch):
        codes = joint_codes(batch.group, batch.context)
        return normalize(batch.reward, codes, ddof=0, epsilon=0.0, divide=False)

    true = 0.5 * 0.5 * (1.2 - 1.0)
    assert slope(against_mean, members) == pytest.approx((members - 1) / members * true)


@pytest.mark.parametrize(
    ("members", "limits"), [(2, (-1, -0.05)), (4, (-1, -0.05)), (8, (0, 1e-3))]
)
def test_in_small_groups_the_deviation_prefers_the_arm_that_wins_more_often(members, limits):
    assert limits[0] < slope(trca, members) < limits[1]


@pytest.mark.parametrize("members", [2, 4])
def test_with_outcomes_0_and_1_the_deviation_keeps_the_order_of_the_arms(members):
    assert slope(trca, members, BINARY) > 0.01


@pytest.mark.parametrize("later", [1.0, -1.0])
def test_contexts_credit_the_decision_to_stop_and_turns_do_not(later):
    """Two rollouts go on to a second turn with the reward `later`, and the third one stops."""
    batch = step_batch([2, 2, 1], [0, 0, 0], [0, later, 0, later, 0], [0, 1, 0, 1, 0])
    turns = joint_codes(batch.group, np.array([0, 1, 0, 1, 0]))
    by_turn = normalize(batch.reward, turns, ddof=0, epsilon=1e-6)
    assert not discounted_returns(by_turn, batch.rollout, 0.95).any()
    step = trca_parts(batch, TRCAParameters()).step
    assert np.sign(step[[0, 2, 4]]).tolist() == [np.sign(later), np.sign(later), -np.sign(later)]


def test_operators_that_fire_at_every_step_can_outweigh_the_outcome_through_r_f():
    """The first rollout fires the same Evidence for 25 steps and fails; the second one wins."""
    fifths = Budgets(evidence=0.4)  # two operators here: each has 0.2, as one of five with budget 1
    for firing, larger in ((1, False), (2, True)):
        judgments = np.zeros((26, len(CATEGORIES)), dtype=np.uint8)
        judgments[:25, :firing] = 1
        batch = step_batch([25, 1], [0, 0], [0] * 25 + [1], [0] * 26, judgments)
        for ablation, outweighs in (("none", larger), ("without_foundational", False)):
            parameters = TRCAParameters(budgets=fifths, ablation=ablation)
            returns = trca_parts(batch, parameters).returns
            assert (returns[0] > returns[25]) == outweighs
