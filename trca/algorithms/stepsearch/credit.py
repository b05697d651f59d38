"""StepSearch: rewards for finding gold passages (Zheng et al., arXiv 2505.15107).

::

    c_{t,j} = max over passages d found at t of cos(d, gold passage j)
    G_t = mean_j max(c_{t,j} - m_{t-1,j}, 0),   m_{t,j} = max(m_{t-1,j}, c_{t,j}),   m_0 = 0
    P_t = share of the passages found at t that an earlier step had found
    r_t = scale (G_t - P_t),   and r_T = F1 of the answer besides

with cosines of TF-IDF weights. The advantages are those of `turn_ppo` for these rewards.

It reads gold, the passages that support a training task's answer (``gold_passages``), so it needs
``gold_in_training: true``, and results show it; and a critic.

Where this differs from the paper or the public code:

=======================  ===========================================================================
The code                 Its script for training was found, its rewards were not: the equations are
                         from notes on the paper.
Search keys              Left out: the paper adds .618 of how well queries match the search keys of
                         its own data set, which questions here do not have.
What a step found        The lines of the observation that begin with a number in brackets, as
                         SearchQA shows them: with the title, and cut to ``max_passage_chars``.
Weights of words         Those of the gold passages and of all that the rollouts of the task found;
                         the paper does not say.
Place of a reward        The turn; the paper's is the last token of a search, in token-level PPO.
A step without passages  0, such as a search that finds none.
=======================  ===========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trca.algorithms.credit.arithmetic import rollout_spans
from trca.algorithms.credit.registry import CREDIT_RULES, Credited
from trca.algorithms.critic import Values
from trca.algorithms.parameters import Credit
from trca.algorithms.records import StepBatch
from trca.algorithms.stepsearch.similarity import cosines
from trca.algorithms.turn_ppo.credit import GAE, TurnPPOParameters, turn_ppo

_PASSAGE: Final = re.compile(r"^\[\d+\] (.+)$", re.MULTILINE)


class StepSearchParameters(TurnPPOParameters):
    """Hyperparameters of StepSearch."""

    algorithm = "StepSearch"

    credit: Credit = "stepsearch"
    search_scale: Annotated[float, Field(ge=0.0)] = Field(
        0.6, description="Weight of the reward of a search beside the final F1."
    )


_DEFAULTS = StepSearchParameters()


@CREDIT_RULES.register("stepsearch")
def stepsearch(
    batch: StepBatch,
    *,
    gold_passages: Sequence[Sequence[str]],
    final_f1: NDArray[np.float64],
    values: Values,
    gamma: float = _DEFAULTS.gamma,
    gae_lambda: float = _DEFAULTS.gae_lambda,
    gae: GAE = _DEFAULTS.gae,
    token_gamma: float = _DEFAULTS.token_gamma,
    search_scale: float = _DEFAULTS.search_scale,
    epsilon: float = 1e-8,
) -> Credited:
    """The generalized advantages of rewards for searches and for the final answer.

    Args:
        batch: S steps.
        gold_passages: S tuples of texts, the passages that support the task's answer.
        final_f1: float64 (S,), F1 of the rollout's answer, on each of its steps.
        values: What the critic says.
        gamma: Discount from turn to turn.
        gae_lambda: Weight of later temporal differences.
        gae: Over turns alone, or on two levels.
        token_gamma: Discount from token to token.
        search_scale: Weight of the reward of a search.
        epsilon: Added to the standard deviation.

    Returns:
        As `turn_ppo`.

    Raises:
        ValueError: As `turn_ppo`, and for a batch without texts.
    """
    rewards = search_scale * search_rewards(batch, gold_passages)
    starts, lengths = rollout_spans(batch.rollout)
    ends = starts + lengths - 1
    rewards[ends] += final_f1[ends]
    return turn_ppo(
        replace(batch, reward=rewards),
        values=values,
        gamma=gamma,
        gae_lambda=gae_lambda,
        gae=gae,
        token_gamma=token_gamma,
        epsilon=epsilon,
    )


def search_rewards(batch: StepBatch, gold_passages: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """G - P of every step, float64 (S,).

    Args:
        batch: S steps.
        gold_passages: S tuples of texts.

    Raises:
        ValueError: For a batch without texts.
    """
    if len(batch) and not batch.texts:
        raise ValueError("the batch has no texts of observations: what was found stands in them")
    known = {code: tuple(_PASSAGE.findall(text)) for code, text in enumerate(batch.texts)}
    found = [known[int(code)] for code in batch.next_observation]
    rewards = np.zeros(len(batch))
    starts, lengths = rollout_spans(batch.rollout)
    groups = batch.group[starts]
    for group in np.unique(groups):
        mine = np.flatnonzero(groups == group)
        rows = np.concatenate([np.arange(starts[k], starts[k] + lengths[k]) for k in mine])
        passages = list(dict.fromkeys(p for row in rows for p in found[row]))
        gold = gold_passages[rows[0]]
        alike = dict(zip(passages, cosines(passages, gold), strict=True))
        for k in mine:
            best, seen = np.zeros(len(gold)), set[str]()
            for row in range(starts[k], starts[k] + lengths[k]):
                if found[row]:
                    now = np.max([alike[p] for p in found[row]], axis=0)
                    again = np.mean([p in seen for p in found[row]])
                    rewards[row] = np.maximum(now - best, 0.0).mean() - again
                    best = np.maximum(best, now)
                    seen.update(found[row])
    return rewards
