"""BEACON by hand and against its public code."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.algorithms.credit.played import compared, played
from tests.algorithms.credit.step_batches import batches, rule, step_batch
from tests.algorithms.rules import public_beacon as public
from trca.algorithms import BEACONConfig
from trca.algorithms.credit import bind_credit
from trca.algorithms.rules.beacon import BEACONParameters
from trca.rubric import Budgets

beacon = rule("beacon")
beacon_walkthrough = rule("beacon_walkthrough")

NONE, TAKEN, PLACED = [0] * 6, [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1]
"""Judgments of two Execution operators."""
WORDS = ("take mug 1 from desk 1", "take mug 2 from desk 1", "go to desk 1", "look")
WALK = ("go to desk 1", "take mug 1 from desk 1")


def judged(lengths, judgments, rewards=None, **columns):
    rows = sum(lengths)
    rewards = np.zeros(rows) if rewards is None else rewards
    groups = [0] * len(lengths)
    return step_batch(lengths, groups, rewards, np.zeros(rows), judgments=judgments, **columns)


def test_steps_before_a_milestone_by_hand():
    """Gamma 1/2. Rollout 0: 1/2, 1 | 0. Rollout 1: 1 | 1. Means 5/6 of segment 0, 1/2 of 1."""
    batch = judged([3, 2], [NONE, TAKEN, NONE, TAKEN, PLACED])
    expected = [1 / 2 - 5 / 6, 1 / 6, -1 / 2, 1 / 6, 1 / 2]
    np.testing.assert_allclose(beacon(batch, gamma=0.5), expected)
    np.testing.assert_allclose(beacon(batch, gamma=0.5, omega=2.0), 2 * np.array(expected))
    deviations = np.sqrt([1 / 12, 1 / 12, 1 / 2, 1 / 12, 1 / 2])
    divided = beacon(batch, gamma=0.5, normalizer="std", epsilon=0.0)
    np.testing.assert_allclose(divided, expected / deviations)


def test_the_milestones_of_the_environment_replace_the_operators():
    batch = judged([2, 1], [TAKEN, NONE, NONE])
    batch = replace(batch, milestone=np.array([False, True, False]))
    np.testing.assert_allclose(
        beacon(batch, gamma=0.5, milestones="environment"), [0, 1 / 2, -1 / 2]
    )
    with pytest.raises(ValueError, match=r"reports no milestone: set milestone in its Outcome"):
        beacon(replace(batch, milestone=None), milestones="environment")


def test_a_walkthrough_is_followed_in_order_by_similar_actions():
    """The first action comes too early; mug 2 is 95% like mug 1; then no milestone is left."""
    actions = [WORDS[0], WORDS[2], WORDS[1], WORDS[0]]
    batch = judged([4, 1], [NONE] * 5)
    walk = {"actions": [*actions, "look"], "gold_walkthrough": [WALK] * 5}
    credit = beacon_walkthrough(batch, gamma=0.5, **walk)
    np.testing.assert_allclose(credit, [0, 1 / 2, 0, 0, -1 / 2])
    exact = beacon_walkthrough(batch, gamma=0.5, similarity=1.0, **walk)
    np.testing.assert_allclose(exact, [0, 1 / 2, -1 / 4, 1 / 4, -1 / 2])


def test_it_needs_a_rubric_for_operators_only():
    assert BEACONParameters().needs_rubric()
    assert not BEACONParameters(milestones="environment").needs_rubric()
    assert not BEACONParameters(credit="beacon_walkthrough").needs_rubric()


def test_a_walkthrough_is_gold():
    settings = BEACONConfig().training(credit="beacon_walkthrough").settings
    with pytest.raises(ValueError, match=r"reads gold_walkthrough, .*gold_in_training: true"):
        bind_credit("beacon_walkthrough", settings)


OPTIONS = {
    "gamma": st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    "omega": st.floats(0, 10),
    "normalizer": st.sampled_from(["std", "one"]),
    "invalid_action_penalty": st.sampled_from([0.0, 0.01, 0.1]),
}


def as_public(options):
    return {
        "weight": options["omega"],
        "penalty": options["invalid_action_penalty"],
        "divide": options["normalizer"] == "std",
        "over": "rollouts",
    }


@given(batches(outcomes=(0.0, 0.4, 1.0)), st.fixed_dictionaries(OPTIONS), st.data())
def test_reported_milestones_are_credited_as_in_the_public_code(batch, options, data):
    batch = replace(batch, milestone=data.draw(arrays(np.bool_, len(batch))))
    rewards, segments = public.of_flags(batch, batch.milestone, options["gamma"])
    expected = public.advantages(batch, rewards, segments, **as_public(options))
    credit = beacon(batch, milestones="environment", **options)
    np.testing.assert_allclose(credit, expected, rtol=0, atol=1e-12)


@given(batches(), st.fixed_dictionaries(OPTIONS), st.sampled_from([0.85, 0.95, 1.0]), st.data())
def test_walkthroughs_are_credited_as_in_the_public_code(batch, options, similarity, data):
    words = st.sampled_from(WORDS)
    actions = data.draw(st.lists(words, min_size=len(batch), max_size=len(batch)))
    walks = {g: tuple(data.draw(st.lists(words, max_size=4))) for g in set(batch.group.tolist())}
    gold = [walks[group] for group in batch.group.tolist()]
    rewards, segments = public.of_actions(batch, actions, gold, options["gamma"], similarity)
    expected = public.advantages(batch, rewards, segments, **as_public(options))
    credit = beacon_walkthrough(
        batch, similarity=similarity, actions=actions, gold_walkthrough=gold, **options
    )
    np.testing.assert_allclose(credit, expected, rtol=0, atol=1e-12)


@given(batches(), st.fixed_dictionaries(OPTIONS), st.booleans())
def test_operators_are_milestones_at_their_first_firing(batch, options, evidence):
    """The flags from the definition: some operator fires that has not fired in the rollout."""
    columns = [0, 1, 4, 5] if evidence else [4, 5]
    flags, covered = [], set()
    for rollout, judgments in zip(batch.rollout, batch.judgments[:, columns], strict=True):
        fresh = {(rollout, k) for k in np.flatnonzero(judgments)} - covered
        covered |= fresh
        flags.append(bool(fresh))
    rewards, segments = public.of_flags(batch, flags, options["gamma"])
    expected = public.advantages(batch, rewards, segments, **as_public(options))
    milestones = "evidence_and_execution" if evidence else "execution"
    credit = beacon(batch, milestones=milestones, **options)
    np.testing.assert_allclose(credit, expected, rtol=0, atol=1e-12)


def in_alfworld():
    """Eight tasks, half of the actions at random; rewards and segments of the public code."""
    games = played("trca/ALFWorld-v0", 0.5, games="small", split="train")
    walks = [games.gold[number].walkthrough for number in games.batch.rollout]
    return games, walks, public.of_actions(games.batch, games.actions, walks, 0.95, 0.95)


def walked(games, walks, **options):
    return beacon_walkthrough(games.batch, actions=games.actions, gold_walkthrough=walks, **options)


def test_the_outcome_is_compared_over_rollouts_and_differs_as_declared():
    """The docstring of the rule states these sizes."""
    games, walks, (rewards, segments) = in_alfworld()
    settings = {"weight": 1.0, "penalty": 0.01}
    ours = walked(games, walks)
    same = public.advantages(games.batch, rewards, segments, over="rollouts", **settings)
    np.testing.assert_allclose(ours, same, rtol=0, atol=1e-12)
    theirs = public.advantages(games.batch, rewards, segments, **settings)
    assert compared(ours, theirs) == (325, 1011, pytest.approx(0.0833, abs=1e-4))
    scaled = public.advantages(games.batch, rewards, segments, scale=10.0, **settings)
    np.testing.assert_allclose(scaled, 10 * theirs, rtol=0, atol=1e-12)


def test_segments_of_rows_in_another_order_differ_as_declared():
    """The trainer deals the rows to eight GPUs, here at random, and each keeps their order."""
    games, walks, (rewards, segments) = in_alfworld()
    rows, rng = np.arange(len(games.batch)), np.random.default_rng(0)
    order = np.argsort(rng.permutation(rows) % 8, kind="stable")
    shuffled = [games.actions[row] for row in order]
    other = np.empty_like(segments)
    for mine in public.rows_of(games.batch.rollout[order]):
        places = public.matches([shuffled[k] for k in mine], walks[order[mine[0]]], 0.95)
        _, other[order[mine]] = public.matched_segments(len(mine), places, 0.95)
    settings = {"weight": 1.0, "penalty": 0.01}
    right = public.advantages(games.batch, rewards, segments, **settings)
    wrong = public.advantages(games.batch, rewards, other, **settings)
    assert int((other != segments).sum()) == 726
    assert compared(right, wrong) == (1011, 1011, pytest.approx(0.533, abs=1e-3))


def test_operators_and_walkthroughs_find_milestones_as_declared():
    games, walks, (rewards, _) = in_alfworld()
    exact, _ = public.of_actions(games.batch, games.actions, walks, 0.95, 1.0)
    assert [int((each == 1.0).sum()) for each in (rewards, exact)] == [382, 377]
    for evidence, count, shared in ((0.0, 278, 273), (1.0, 422, 337)):
        fired = games.batch.rubric_rewards(Budgets(evidence=evidence)).breakthrough > 0
        assert (int(fired.sum()), int((fired & (rewards == 1.0)).sum())) == (count, shared)
