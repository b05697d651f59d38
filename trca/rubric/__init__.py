"""Transition judges: a library of Boolean operators, the judge that evaluates it, and the rewards.

A library is data (YAML). Its conditions are expressions in a subset of CEL over the ``facts`` of
a transition and the ``task`` binding of the instruction. This package depends on no environment:
`Judge` takes the facts and binding dataclasses of an environment::

    library = RubricLibrary.load("alfworld")
    judge = Judge(library, ALFWorldFacts, ALFWorldBinding)
    judgments = judge.judge(binding, facts)  # uint8 (M,), here (15,)
    foundational_reward(judgments[None], library.categories, Budgets())
"""

from trca.rubric.conditions import Clause, Condition, RubricError
from trca.rubric.judge import Judge
from trca.rubric.library import CATEGORIES, Operator, RubricLibrary
from trca.rubric.rewards import (
    Budgets,
    EpisodeRewards,
    breakthrough_reward,
    contributions,
    foundational_reward,
    trca_reward,
)

__all__ = [
    "CATEGORIES",
    "Budgets",
    "Clause",
    "Condition",
    "EpisodeRewards",
    "Judge",
    "Operator",
    "RubricError",
    "RubricLibrary",
    "breakthrough_reward",
    "contributions",
    "foundational_reward",
    "trca_reward",
]
