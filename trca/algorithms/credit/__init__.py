"""Credit rules: pure functions from the columns of a batch to one advantage a step.

::

    advantages = get_credit("trca")(StepBatch.from_rollouts(rollouts, categories), lambda_=0.5)

A rule of your own is a function in a file, named ``path/to/file.py:function`` wherever a rule is
asked for, or registered with `register_credit`.
"""

from trca.algorithms.credit.registry import (
    CreditRule,
    bind_credit,
    credit_rules,
    get_credit,
    register_credit,
)

__all__ = [
    "CreditRule",
    "bind_credit",
    "credit_rules",
    "get_credit",
    "register_credit",
]
