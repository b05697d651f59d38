"""StepSearch: rewards for finding gold passages (Zheng et al., arXiv 2505.15107).

::

    c_{t,j} = max over passages d found at t of cos(d, gold passage j)
    G_t = mean_j max(c_{t,j} - m_{t-1,j}, 0),   m_{t,j} = max(m_{t-1,j}, c_{t,j}),   m_0 = 0
    P_t = share of the passages found at t that an earlier step had found
    r_t = scale (G_t - P_t),   and r_T = F1 of the answer besides

with cosines of TF-IDF weights. `turn_ppo` turns these rewards into advantages.

The rule needs a critic, and reads gold, the passages that support a training task's answer
(``gold_passages``): set ``gold_in_training: true``, which results show.

Where this differs from the paper or the public code (``verl/utils/reward_score/qa_step.py`` and
``verl/trainer/main_ppo.py``). Sizes are for 718 steps of 256 rollouts in a generated world, 60% of
the actions random; all differences together change the reward of 400 steps, by up to 1.20:

=======================  ===========================================================================
The paper                The equations come from notes on the paper, which was not at hand.
Search keys              Left out: the paper adds .618 times the match of queries with the search
                         keys of its data set; questions here have no search keys.
Passages of a step       The lines of the observation that begin with a number in brackets, as in
                         SearchQA: with the title, and cut to ``max_passage_chars``. An opened
                         passage counts too. The public code compares the texts without titles, and
                         has no opening of passages.
Weights of words         From the gold passages and all passages that the rollouts of the task
                         found; the notes do not define them. The public code: from the passage and
                         the gold passages, without articles and punctuation. With the titles, G
                         differs in 334 steps, by up to .27.
Known passages           Passages of earlier steps, as in the notes. The public code also counts a
                         passage that occurs twice on a page: 1/3 more for a page of three. No page
                         of SearchQA has a passage twice: 0 steps.
Weight of a search       ``search_scale``, .6. The public code adds the scaled scores to a view of
                         the scores, which makes 1.6: 388 steps, by up to 1.00 before the final F1.
No answer at the end     The rewards of the searches, and F1 0. The public code: -1 at the end, and
                         no reward of a search (42 of the 256 rollouts).
F1                       HotpotQA's: 0 for a yes or no with further words. The public code has no
                         such rule, and rounds to four digits: .67 for "yes sir".
Position of a reward     The turn; in the paper the last token of a search, in token-level PPO.
A step without passages  0, such as a search that finds none.
=======================  ===========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from trca.algorithms.credit.arithmetic import joint_codes, rollout_spans
from trca.algorithms.credit.registry import CREDIT_RULES, Credited
from trca.algorithms.credit.values import Values
from trca.algorithms.rules.turn_ppo import TurnPPOParameters, turn_ppo
from trca.algorithms.settings.types import Credit, NonNegative
from trca.records import Floats, Ints, StepBatch

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_PASSAGE: Final = re.compile(r"^\[\d+\] (.+)$", re.MULTILINE)
_WORD: Final = re.compile(r"\b\w\w+\b")
_BLOCK: Final = 16_384


class StepSearchParameters(TurnPPOParameters):
    """Hyperparameters of StepSearch."""

    algorithm = "StepSearch"

    credit: Credit = "stepsearch"
    search_scale: NonNegative = 0.6
    """Weight of the reward of a search; the final F1 has weight 1."""


@CREDIT_RULES.register("stepsearch")
def stepsearch(
    batch: StepBatch,
    parameters: StepSearchParameters,
    *,
    gold_passages: Sequence[Sequence[str]],
    final_f1: Floats,
    values: Values,
    epsilon: float = 1e-8,
) -> Credited:
    """The generalized advantages of rewards for searches and for the final answer.

    ``gold_passages`` has the texts that support the answer of each step's task, ``final_f1`` the F1
    of the answer of its rollout, float64 (S,).

    Raises:
        ValueError: For a batch without texts.
    """
    rewards = parameters.search_scale * search_rewards(batch, gold_passages)
    starts, lengths = rollout_spans(batch.rollout)
    ends = starts + lengths - 1
    rewards[ends] += final_f1[ends]
    paid = replace(batch, reward=rewards)
    return turn_ppo(paid, parameters, values=values, epsilon=epsilon)


def search_rewards(batch: StepBatch, gold_passages: Sequence[Sequence[str]]) -> Floats:
    """G - P of every step, float64 (S,), in blocks of about 16,384 steps to bound the memory."""
    rewards = np.zeros(len(batch))
    if not len(batch):
        return rewards
    if not batch.texts:
        raise ValueError("the batch has no texts of observations, and the texts hold the passages")
    order = np.argsort(batch.group, kind="stable")
    starts, lengths = rollout_spans(batch.group[order])
    block = (starts + lengths) // _BLOCK
    for rows in np.split(order, starts[1:][block[1:] > block[:-1]]):
        rewards[rows] = _of_groups(batch, rows, gold_passages)
    return rewards


def _of_groups(batch: StepBatch, rows: Ints, gold_passages: Sequence[Sequence[str]]) -> Floats:
    """G - P of all steps of some groups; the steps of a group are contiguous."""
    starts, lengths = rollout_spans(batch.group[rows])
    group, rollout = np.repeat(np.arange(len(starts)), lengths), batch.rollout[rows]
    gold = [gold_passages[row] for row in rows[starts]]
    codes, page = np.unique(batch.next_observation[rows], return_inverse=True)
    pages = [_PASSAGE.findall(batch.texts[code]) for code in codes]
    texts = list(dict.fromkeys(chain(*pages, *gold)))
    number = {text: n for n, text in enumerate(texts)}

    # An entry for each passage of each step.
    on_page = [
        np.array([number[text] for text in page_texts], dtype=np.int64) for page_texts in pages
    ]
    passage = np.concatenate([on_page[p] for p in page])
    count = np.array([len(passages) for passages in on_page])[page]
    step = np.repeat(np.arange(len(rows)), count)
    held = joint_codes(rollout[step], passage)
    _, first = np.unique(held, return_index=True)
    again = np.bincount(step, step[first][held] < step, len(rows))

    # The documents of a group: found passages, and gold, repeated to the maximum of all groups.
    golden = np.array([[len(of_group)] for of_group in gold])
    place = np.arange(golden.max())
    share = (place < golden) / golden
    targets = np.array([[number[of[j % len(of)]] for j in place] for of in gold])
    of_group = np.concatenate([group[step], np.repeat(np.arange(len(gold)), len(place))])
    of_text = np.concatenate([passage, targets.ravel()])
    document = joint_codes(of_group, of_text)
    _, one = np.unique(document, return_index=True)
    against = document[len(step) :].reshape(targets.shape)
    alike = cosines(texts, of_text[one], of_group[one], against)

    with_passages = count > 0
    now = np.zeros((len(rows), len(place)))
    first_entry = (np.cumsum(count) - count)[with_passages]
    now[with_passages] = np.maximum.reduceat(alike[document[: len(step)]], first_entry)
    gain = (share[group] * np.maximum(now - _best_before(now, rollout), 0.0)).sum(axis=1)
    return np.where(with_passages, gain - again / np.maximum(count, 1), 0.0)


def _best_before(values: Floats, rollout: Ints) -> Floats:
    """The largest of each column over the earlier steps of the rollout, by doubling the horizon.

    float64 (S, J); 0 on the first step of a rollout.
    """
    starts, lengths = rollout_spans(rollout)
    place = np.arange(len(rollout)) - np.repeat(starts, lengths)
    best = np.roll(values, 1, axis=0)
    best[starts] = 0.0
    horizon = 1
    while horizon < lengths.max(initial=0):
        later = np.flatnonzero(place > horizon)
        best[later] = np.maximum(best[later], best[later - horizon])
        horizon *= 2
    return best


def cosines(texts: Sequence[str], text: Ints, collection: Ints, against: Ints) -> Floats:
    """The TF-IDF cosines of documents with chosen documents of the collection.

    A document is a text in a collection. A word that occurs n times has the weight n (ln((1 + N) /
    (1 + N_w)) + 1), if N_w of the N documents of the collection have the word. Words have two
    letters or more, in lower case.

    Args:
        texts: The texts.
        text: int64 (D,), the text of each document; distinct within a collection.
        collection: int64 (D,), the collection of each, from 0.
        against: int64 (C, J), the documents of the comparison, for each collection.

    Returns:
        float64 (D, J), from 0 to 1; 0 for a document without words.
    """
    from scipy.sparse import csr_matrix  # takes half a second, which refusals do not have

    documents = _word_counts(texts)[text]
    document = np.repeat(np.arange(len(text)), np.diff(documents.indptr))
    word = joint_codes(collection[document], documents.indices.astype(np.int64))
    size, having = np.bincount(collection), np.bincount(word)
    rarity = np.log((1 + size[collection[document]]) / (1 + having[word])) + 1
    weight = documents.data * rarity
    length = np.sqrt(np.bincount(document, np.square(weight), len(text)))
    units = csr_matrix((weight / length[document], word, documents.indptr))
    targets = np.zeros((len(having), against.shape[1]))
    for place, chosen in enumerate(against.T):
        of_chosen = units[chosen]
        targets[of_chosen.indices, place] = of_chosen.data
    cosine: Floats = units @ targets
    return np.minimum(cosine, 1.0)


def _word_counts(texts: Sequence[str]) -> csr_matrix:
    """Counts of words in texts, (texts, words)."""
    from scipy.sparse import csr_matrix

    numbers: dict[str, int] = {}
    words: list[int] = []
    ends = [0]
    for text in texts:
        words += [numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text.lower())]
        ends.append(len(words))
    counts = csr_matrix((np.ones(len(words)), words, ends), shape=(len(texts), len(numbers)))
    counts.sum_duplicates()
    return counts
