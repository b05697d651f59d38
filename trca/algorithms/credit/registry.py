"""Credit rules by name: the registered ones, and a user's own as ``path/to/file.py:function``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.records import StepBatch
from trca.common.registry import Registry

CreditRule = Callable[..., NDArray[np.float64]]
"""``rule(batch: StepBatch, **parameters)`` gives one advantage a step, float64 (S,)."""

CREDIT_RULES: Final[Registry[CreditRule]] = Registry("credit rule")
"""Credit rules by name; ``@CREDIT_RULES.register("mine")`` adds one."""


def bind_credit(
    name: str, parameters: Mapping[str, Any]
) -> Callable[[StepBatch], NDArray[np.float64]]:
    """Binds a rule to the parameters that its signature names, and checks what it returns.

    Args:
        name: A name of `CREDIT_RULES`, or ``path/to/file.py:function``.
        parameters: Values by name, such as all hyperparameters of an algorithm; the rule gets those
            it names and its own defaults for the others.

    Raises:
        ValueError: For an unknown or broken rule, and for a parameter without a default that is not
            given. The bound rule raises it for a result that is not one finite number a step.
    """
    rule = CREDIT_RULES.get(name)
    if not callable(rule):
        raise ValueError(f"credit rule {name!r} is a {type(rule).__name__}, not a function")
    asked = list(inspect.signature(rule).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in asked):
        chosen = dict(parameters)
    else:
        chosen = {p.name: parameters[p.name] for p in asked if p.name in parameters}
    missing = [
        p.name
        for p in asked
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and p.default is p.empty
        and p.name not in chosen
    ]
    if missing:
        raise ValueError(
            f"credit rule {name!r} needs {', '.join(missing)}, which is no parameter here:"
            " give it a default"
        )

    def bound(batch: StepBatch) -> NDArray[np.float64]:
        advantages = np.asarray(rule(batch, **chosen), dtype=np.float64)
        if advantages.shape != (len(batch),):
            raise ValueError(
                f"credit rule {name!r} returned shape {advantages.shape} for {len(batch)} steps:"
                " return one advantage a step"
            )
        if not np.isfinite(advantages).all():
            row = int(np.flatnonzero(~np.isfinite(advantages))[0])
            raise ValueError(
                f"credit rule {name!r} returned {advantages[row]} for step {row}: return finite"
                " numbers"
            )
        return advantages

    return bound
