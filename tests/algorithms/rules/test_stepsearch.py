"""StepSearch's rewards by hand and against the slow version; the rest is TurnPPO."""

import math
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.credit.critic_values import critic_values
from tests.algorithms.credit.played import compared, played
from tests.algorithms.credit.step_batches import batches, rule, step_batch
from tests.algorithms.rules import public_stepsearch as public
from trca.algorithms.credit import bind_credit
from trca.algorithms.credit.arithmetic import rollout_spans
from trca.algorithms.rules.stepsearch import StepSearchParameters, cosines, search_rewards
from trca.envs.searchqa.answer_scores import f1

stepsearch = rule("stepsearch")
turn_ppo = rule("turn_ppo")

GOLD = ("Ada: She wrote notes.", "Lum Hill: A town in the north.")
ASKED, BOTH, FIRST, NOISE, NOTHING = range(5)
TEXTS = (
    "Question: who?",
    f"[1] {GOLD[0]}\n[2] {GOLD[1]}",
    f"[1] {GOLD[0]}",
    "[1] Zzz: qqq xxx",
    "No passages found.",
)
"""Observations: a gold passage found whole, or one that has no word of either."""


def searched(*rollouts):
    """A batch of one group whose steps lead to these observations."""
    lengths = [len(steps) for steps in rollouts]
    before = [code for steps in rollouts for code in (ASKED, *steps[:-1])]
    rows = len(before)
    batch = step_batch(lengths, [0] * len(rollouts), np.zeros(rows), before, texts=TEXTS)
    after = np.array([code for steps in rollouts for code in steps])
    return replace(batch, next_observation=after)


def rewards(*rollouts):
    batch = searched(*rollouts)
    return search_rewards(batch, [GOLD] * len(batch))


def test_what_is_new_of_the_gold_counts_once_by_hand():
    """Half of the gold, then the second half with a repeated passage: 1/2, then 1/2 - 1/2."""
    np.testing.assert_allclose(rewards([FIRST, BOTH, NOTHING]), [1 / 2, 0, 0], atol=1e-12)
    np.testing.assert_allclose(rewards([BOTH, FIRST]), [1, -1], atol=1e-12)


def test_words_that_every_document_has_weigh_less():
    """Two of three documents have red: ln(4/3) + 1; one has mug: ln 2 + 1."""
    red, mug = math.log(4 / 3) + 1, math.log(2) + 1
    texts = ["red mug", "red cup", "a blue"]
    found = cosines(texts, np.arange(3), np.zeros(3, int), np.array([[1, 2, 0]]))
    half = red**2 / (red**2 + mug**2)
    np.testing.assert_allclose(found, [[half, 0, 1], [1, 0, half], [0, 1, 0]])


def slow_cosine(one, other, texts):
    def weights(text):
        counts = Counter(re.findall(r"\w\w+", text.lower()))
        having = {w: sum(w in re.findall(r"\w\w+", t.lower()) for t in texts) for w in counts}
        return {
            w: n * (math.log((1 + len(texts)) / (1 + having[w])) + 1) for w, n in counts.items()
        }

    a, b = weights(one), weights(other)
    length = math.sqrt(sum(x * x for x in a.values()) * sum(x * x for x in b.values()))
    return sum(a[w] * b.get(w, 0) for w in a) / length if length else 0.0


def slow_search_rewards(batch, gold_passages):
    def passages(row):
        lines = batch.texts[batch.next_observation[row]].split("\n")
        return [line.partition("] ")[2] for line in lines if re.match(r"\[\d+\] .", line)]

    result = []
    for row in range(len(batch)):
        same = np.flatnonzero(batch.group == batch.group[row])
        gold = gold_passages[row]
        texts = {*gold, *(p for other in same for p in passages(other))}
        now, before = (
            passages(row),
            [
                p
                for other in range(row)
                if batch.rollout[other] == batch.rollout[row]
                for p in passages(other)
            ],
        )
        gain = 0.0
        for target in gold:
            best = max((slow_cosine(p, target, texts) for p in before), default=0.0)
            here = max((slow_cosine(p, target, texts) for p in now), default=0.0)
            gain += max(here - best, 0.0) / len(gold)
        again = sum(p in before for p in now) / len(now) if now else 0.0
        result.append(gain - again if now else 0.0)
    return np.array(result)


PASSAGES = st.lists(
    st.sampled_from(["Ada: she wrote", "Lum: a town", "Ada: notes on a town", "?", "zzz"]),
    max_size=3,
).map(lambda found: "\n".join(f"[{n}] {text}" for n, text in enumerate(found, 1)) or "none")


@settings(max_examples=50)
@given(batches(), st.lists(PASSAGES, min_size=5, max_size=5), st.sampled_from([1, 16_384]))
def test_the_rewards_equal_the_slow_version(batch, texts, block):
    """Tasks have one to three passages of gold; memory for one group at a time, or for all."""
    golds = {0: GOLD, 3: GOLD[:1], 70_000: ("Ada: she wrote", "?", "a town")}
    gold = [golds[group] for group in batch.group]
    batch = replace(batch, texts=tuple(texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trca.algorithms.rules.stepsearch._BLOCK", block)
        fast = search_rewards(batch, gold)
    np.testing.assert_allclose(fast, slow_search_rewards(batch, gold), rtol=0, atol=1e-12)


def test_the_answer_is_paid_at_the_end_and_the_critic_does_the_rest():
    batch = searched([FIRST, BOTH], [NOISE])
    values = critic_values(batch, [[0.2], [0.4], [0.1]])
    read = {"gold_passages": [GOLD] * 3, "values": values, "final_f1": np.array([0.5, 0.5, 0.0])}
    found = stepsearch(batch, **read, gamma=0.9, search_scale=0.6)
    paid = replace(batch, reward=np.array([0.3, 0.5, 0.0]))
    expected = turn_ppo(paid, values=values, gamma=0.9)
    np.testing.assert_allclose(found.advantages, expected.advantages)
    np.testing.assert_allclose(found.value_targets, expected.value_targets)


def test_gold_and_texts_are_asked_for():
    assert bind_credit("stepsearch", {}).gold == ("gold_passages",)
    with pytest.raises(ValueError, match="gold_in_training"):
        bind_credit("stepsearch", StepSearchParameters(gold_in_training=False).model_dump())
    with pytest.raises(ValueError, match="no texts"):
        search_rewards(replace(searched([NOISE]), texts=()), [GOLD])


def test_a_passage_twice_on_one_page_is_no_repetition_of_an_earlier_step():
    """Twice one passage and once another: P is 0 by the paper, 1/3 in the public code."""
    page = "[1] Ada: She wrote.\n[2] Ada: She wrote.\n[3] Lum: A town."
    batch = replace(searched([NOISE], [NOISE]), texts=("Question: who?", "", "", page, ""))
    gold = ("Ada: She wrote.", "Lum: A town.")
    np.testing.assert_allclose(search_rewards(batch, [gold] * 2), [1, 1], atol=1e-12)
    found = public.PASSAGE.findall(page)
    assert public.public_penalties([found]) == [pytest.approx(1 / 3)]
    assert public.public_penalties([found[1:], found[1:]]) == [0.0, pytest.approx(1.0)]


def test_closed_answers_have_no_partial_f1_which_the_public_code_gives():
    assert f1("yes sir", ["yes"]) == 0.0
    assert public.public_f1("yes sir", ["yes"]) == pytest.approx(2 / 3, abs=1e-4)
    assert public.public_f1("the red mug", ["red cup"]) == f1("the red mug", ["red cup"]) == 0.5


@pytest.fixture(scope="module")
def rollouts():
    """32 questions, each played by 8 rollouts of which six tenths of the actions are random."""
    arguments = {"questions": "small", "split": "train", "max_steps": 5, "tasks": 32}
    return played("trca/SearchQA-v0", 0.6, **arguments)


@pytest.fixture(scope="module")
def both(rollouts):
    """Each step's G - P and full reward: here, and by the public code."""
    batch, starts_lengths = rollouts.batch, zip(*rollout_spans(rollouts.batch.rollout), strict=True)
    golds = [rollouts.gold[k].passages for k in batch.rollout]
    ours = search_rewards(batch, golds)
    paid, gains, penalties, theirs, missing = 0.6 * ours, [], [], [], 0
    for k, (start, length) in enumerate(starts_lengths):
        texts = [batch.texts[code] for code in batch.next_observation[start : start + length]]
        pages = [public.PASSAGE.findall(text) for text in texts]
        gold = [passage.partition("\n")[2] for passage in rollouts.gold[k].passages]
        score, answered = rollouts.measures[k]["f1"], texts[-1] == "Answer submitted."
        missing += not answered
        paid[start + length - 1] += score
        gains += public.public_gains(pages, gold)
        penalties += public.public_penalties(pages)
        theirs += public.public_rollout_rewards(pages, gold, score, answered)
    return ours, np.array(gains), np.array(penalties), paid, np.array(theirs), missing


def test_the_differences_from_the_public_code_are_as_large_as_declared(rollouts, both):
    """The sizes equal the docstring's; P is the same where no page has a passage twice."""
    ours, gains, penalties, paid, theirs, missing = both
    assert (len(rollouts.task_ids), missing) == (256, 42)
    assert compared(ours, gains - penalties) == (334, 718, pytest.approx(0.273, abs=1e-3))
    assert compared(0.6 * ours, public.ALIASED * ours) == (388, 718, pytest.approx(1.0))
    assert compared(paid, theirs) == (400, 718, pytest.approx(1.202, abs=1e-3))
    repeated = (penalties > 0).sum()
    assert repeated > 50
    fresh = search_rewards(rollouts.batch, [("?",)] * len(ours))  # an empty gold answer: only -P
    np.testing.assert_allclose(-fresh, penalties, atol=1e-12)
