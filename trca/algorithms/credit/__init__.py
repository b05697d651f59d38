"""Credit rules: pure functions from the columns of a batch to one advantage per step.

::

    rule = CREDIT_RULES.get("trca")
    advantages = rule(StepBatch.from_rollouts(rollouts, categories), lambda_=0.5)

A rule of your own is a function in a file, named ``path/to/file.py:function`` wherever a rule is
asked for, or registered with ``@CREDIT_RULES.register("mine")``. What it reads beyond the batch, it
names as a parameter: see `trca.algorithms.credit.reads`.
"""

from trca.algorithms.credit.reads import READS, Read, Sources
from trca.algorithms.credit.registry import (
    CREDIT_RULES,
    BoundRule,
    Credited,
    CreditRule,
    bind_credit,
)

__all__ = [
    "CREDIT_RULES",
    "READS",
    "BoundRule",
    "CreditRule",
    "Credited",
    "Read",
    "Sources",
    "bind_credit",
]
