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
from tests.algorithms.credit.step_batches import batches, step_batch
from trca.algorithms.credit import CREDIT_RULES, bind_credit
from trca.algorithms.stepsearch.credit import search_rewards
from trca.algorithms.stepsearch.similarity import cosines

stepsearch = CREDIT_RULES.get("stepsearch")
turn_ppo = CREDIT_RULES.get("turn_ppo")

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
    """Half of the gold, then the other half beside a passage again: 1/2, then 1/2 - 1/2."""
    np.testing.assert_allclose(rewards([FIRST, BOTH, NOTHING]), [1 / 2, 0, 0], atol=1e-12)
    np.testing.assert_allclose(rewards([BOTH, FIRST]), [1, -1], atol=1e-12)


def test_noise_is_worth_nothing_and_less_when_it_comes_again():
    np.testing.assert_allclose(rewards([NOISE, NOISE, NOTHING, NOISE]), [0, -1, 0, -1], atol=1e-12)


def test_rollouts_remember_for_themselves_and_may_be_ragged():
    found = rewards([BOTH], [FIRST, FIRST, BOTH], [NOTHING])
    np.testing.assert_allclose(found, [1, 1 / 2, -1, 1 / 2 - 1 / 2, 0], atol=1e-12)


def test_words_that_every_document_has_weigh_less():
    """Two of three documents have red: ln(4/3) + 1; one has mug: ln 2 + 1."""
    red, mug = math.log(4 / 3) + 1, math.log(2) + 1
    texts = ["red mug", "red cup", "a blue"]
    found = cosines(texts, np.arange(3), np.zeros(3, int), np.array([[1, 2, 0]]))
    half = red**2 / (red**2 + mug**2)
    np.testing.assert_allclose(found, [[half, 0, 1], [1, 0, half], [0, 1, 0]])


def test_collections_weigh_their_words_for_themselves():
    """A text twice, beside another and alone; and a text without words."""
    found = cosines(
        ["red mug", "red cup", "?"],
        np.array([0, 1, 0, 2]),
        np.array([0, 0, 1, 1]),
        np.array([[1], [2]]),
    )
    red, mug = 1.0, math.log(3 / 2) + 1
    np.testing.assert_allclose(found[:, 0], [red**2 / (red**2 + mug**2), 1, 1, 0])


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
        patch.setattr("trca.algorithms.stepsearch.credit._BLOCK", block)
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
        bind_credit("stepsearch", {"gold_in_training": False})
    with pytest.raises(ValueError, match="no texts"):
        search_rewards(replace(searched([NOISE]), texts=()), [GOLD])
