"""Propositions 1 to 4 of the paper, for any library, budgets and lambda.

A library is what credit knows of it: the category of each operator, at least one in every category.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.algorithms.credit.slow_rules import slow_returns
from tests.algorithms.credit.step_batches import rule
from trca.algorithms.credit.arithmetic import discounted_returns
from trca.records import StepBatch
from trca.rubric.rewards import (
    Budgets,
    EpisodeRewards,
    breakthrough_reward,
    foundational_reward,
    trca_reward,
)

INVALIDITY = 1
trca = rule("trca")

shares = st.floats(0, 1)
any_budgets = st.builds(Budgets, **dict.fromkeys(Budgets.model_fields, st.floats(0, 1e3)))
positive_budgets = st.builds(Budgets, **dict.fromkeys(Budgets.model_fields, st.floats(0.01, 1e3)))
libraries = (
    st.lists(st.integers(0, 2), max_size=12)
    .flatmap(lambda more: st.permutations([0, 1, 2, *more]))
    .map(lambda categories: np.array(categories, dtype=np.int8))
)
"""The categories of the operators, in any order and number."""


@st.composite
def judged(draw, library=None, rows=None):
    """A library, and judgments of a number of transitions."""
    library = draw(libraries) if library is None else library
    rows = draw(st.integers(1, 8)) if rows is None else rows
    return library, draw(arrays(np.uint8, (rows, len(library)), elements=st.integers(0, 1)))


@st.composite
def groups(draw):
    """Rollouts of one group in up to three contexts, judged by any library."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=2, max_size=6))
    rows = sum(lengths)
    library, judgments = draw(judged(rows=rows))
    contexts = np.array(draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)))
    last = np.zeros(rows, dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    ones = np.ones(rows, dtype=bool)
    zeros = np.zeros(rows, dtype=np.int64)
    return StepBatch(
        group=zeros,
        rollout=np.repeat(np.arange(len(lengths)), lengths),
        agent=zeros,
        reward=np.zeros(rows),
        observation=contexts,
        next_observation=contexts,
        context=contexts,
        next_context=contexts,
        judgments=judgments,
        categories=library,
        parsed=ones,
        accepted=ones,
        terminated=last,
        truncated=~ones,
        won=~ones,
    )


def rewards(judgments, library, budgets, lambda_):
    """r^F, r^B and r^TRCA of one rollout."""
    rollout = np.zeros(len(judgments), dtype=np.int64)
    r_f = foundational_reward(judgments, library, budgets)
    r_b = breakthrough_reward(judgments, rollout, library, budgets)
    return r_f, r_b, trca_reward(r_f, r_b, lambda_)


@given(judged(), any_budgets, shares)
def test_proposition_1_rewards_are_bounded_by_the_budgets(case, budgets, lambda_):
    library, judgments = case
    most, least = budgets.evidence + budgets.execution, budgets.invalidity
    r_f, r_b, mixed = rewards(judgments, library, budgets, lambda_)
    slack = 1e-9 * (1.0 + most + least)
    assert ((-least - slack <= r_f) & (r_f <= most + slack)).all()
    assert ((r_b >= 0) & (r_b <= most + slack)).all()
    assert ((-(1 - lambda_) * least - slack <= mixed) & (mixed <= most + slack)).all()


@given(judged(), any_budgets, st.integers(1, 4))
def test_proposition_1_breakthrough_is_the_final_coverage_however_long_the_rollout(
    case, budgets, repetitions
):
    """The potential Phi, item by item; to do everything again adds nothing to it."""
    library, judgments = case
    amount = {0: budgets.evidence, 1: 0.0, 2: budgets.execution}
    sizes = np.bincount(library, minlength=3)
    covered = judgments.any(axis=0)
    potential = sum(amount[category] / sizes[category] for category in library[covered].tolist())
    _, r_b, _ = rewards(np.tile(judgments, (repetitions, 1)), library, budgets, 0.5)
    assert r_b.sum() == pytest.approx(potential)
    assert not r_b[len(judgments) :].any()
    assert potential <= (budgets.evidence + budgets.execution) * (1 + 1e-12)


@given(st.data(), positive_budgets, st.floats(0.01, 1))
def test_proposition_2_new_coverage_is_worth_strictly_more(data, budgets, lambda_):
    """Any two pasts, of any lengths, of which one covers all that the other does, and an item."""
    library = data.draw(libraries)
    item = data.draw(st.sampled_from(np.flatnonzero(library != INVALIDITY).tolist()))
    _, past = data.draw(judged(library))
    past[:, item] = 0
    _, more = data.draw(judged(library))
    more[0, item] = 1
    _, now = data.draw(judged(library, rows=1))
    now[0, item] = 1
    fresh = rewards(np.concatenate([past, now]), library, budgets, lambda_)
    repeated = rewards(np.concatenate([past, more, now]), library, budgets, lambda_)
    assert fresh[0][-1] == pytest.approx(repeated[0][-1])
    assert fresh[1][-1] > repeated[1][-1]
    assert fresh[2][-1] > repeated[2][-1]


@given(groups(), st.sampled_from([0.0, 1.0]), shares, shares, any_budgets)
def test_proposition_3_equal_outcomes_leave_credit_to_transitions(
    batch, outcome, gamma, lambda_, budgets
):
    """A^E is 0; a context whose returns differ has advantages of both signs, any other none."""
    reward = np.where(batch.terminated, outcome, 0.0)
    batch = replace(batch, reward=reward)
    assert not rule("grpo")(batch).any()
    advantages = trca(batch, gamma=gamma, lambda_=lambda_, budgets=budgets)
    _, r_b = batch.rubric_rewards(budgets)
    rubric = trca_reward(batch.rubric_rewards(budgets).foundational, r_b, lambda_)
    returns = slow_returns(reward + rubric, batch.rollout, gamma)
    for context in np.unique(batch.context):
        rows = batch.context == context
        spread = np.ptp(returns[rows])
        assume(spread == 0 or spread > 1e-9 * (1 + np.abs(returns).max()))
        if spread:
            assert advantages[rows].max() > 0 > advantages[rows].min()
        else:
            assert not advantages[rows].any()


@given(groups(), shares, any_budgets)
def test_proposition_3_needs_no_success(batch, lambda_, budgets):
    """All fail, and whoever judges as well as the best of a context is not credited below it."""
    advantages = trca(batch, gamma=0.0, lambda_=lambda_, budgets=budgets)
    r_f, r_b = batch.rubric_rewards(budgets)
    reward = discounted_returns(trca_reward(r_f, r_b, lambda_), batch.rollout, 0.0)
    for context in np.unique(batch.context):
        rows = batch.context == context
        order = np.argsort(reward[rows], kind="stable")
        assert (np.diff(advantages[rows][order]) >= 0).all()


@given(st.data(), st.lists(st.floats(0.05, 0.95), min_size=2, max_size=6), any_budgets, shares)
def test_proposition_4_the_feedback_of_a_transition_does_not_vary(data, chances, budgets, lambda_):
    """Any past and transition; each way to go on has its chance, its judgments and its outcome.

    Var(r^TRCA | z) = 0 <= p (1 - p) = Var(R | z), and less where both outcomes can follow.
    """
    library = data.draw(libraries)
    _, past = data.draw(judged(library))
    chances = np.array(chances) / np.sum(chances)
    outcomes = np.array(data.draw(st.lists(
        st.integers(0, 1), min_size=len(chances), max_size=len(chances)
    )))  # fmt: skip
    feedback = []
    for _ in chances:
        _, ahead = data.draw(judged(library))
        _, _, mixed = rewards(np.concatenate([past, ahead]), library, budgets, lambda_)
        feedback.append(mixed[len(past) - 1])

    def variance(values):
        return np.average((values - np.average(values, weights=chances)) ** 2, weights=chances)

    success = chances @ outcomes
    slack = 1e-12 * (1 + max(np.abs(feedback)))  # sums of other lengths round differently
    assert np.ptp(feedback) <= slack
    assert variance(outcomes) == pytest.approx(success * (1 - success), abs=1e-12)
    if 0 < outcomes.sum() < len(outcomes):
        assert variance(np.array(feedback)) <= slack**2 < variance(outcomes)


@given(judged(), any_budgets, shares)
def test_an_environment_tells_the_same_rewards_one_transition_at_a_time(case, budgets, lambda_):
    library, judgments = case
    episode = EpisodeRewards(library, budgets, lambda_)
    episode.reset()
    told = np.array([episode.step(fired) for fired in judgments])
    np.testing.assert_allclose(
        told, np.stack(rewards(judgments, library, budgets, lambda_), axis=1), atol=1e-9, rtol=1e-9
    )
