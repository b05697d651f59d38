"""Credit rules: pure functions from the columns of a batch to one advantage per step.

::

    batch = StepBatch.from_rollouts(rollouts, categories)
    advantages = trca(batch, TRCAParameters(lambda_=0.5))

Your rule is a function in a file, ``credit: path/to/file.py:function``, or is registered with
``@CREDIT_RULES.register("mine")``. Its arguments after the batch are the settings as an object
(``parameters: TRCAParameters``), settings by name (``gamma``), constants with a default, and reads
(`trca.algorithms.credit.reads`).
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
