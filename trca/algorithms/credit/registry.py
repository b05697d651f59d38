"""Credit rules by name: the registered ones, and a user's own as ``path/to/file.py:function``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.reads import READS
from trca.algorithms.settings.credit_rules import CREDIT_RULES as CREDIT_RULES
from trca.common.names import nearest
from trca.records import StepBatch


@dataclass(frozen=True)
class Credited:
    """What a rule gives where one advantage per step does not say all.

    Attributes:
        advantages: float64 (S,), one a step.
        token_advantages: float64 (sum of R,), one for each response token in place of the step's.
        value_targets: float64 (sum of R, H), what the critic is to say of the text before each
            response token; nan where it learns nothing.
    """

    advantages: NDArray[np.float64]
    token_advantages: NDArray[np.float64] | None = None
    value_targets: NDArray[np.float64] | None = None


CreditRule = Callable[..., NDArray[np.float64] | Credited]
"""``rule(batch: StepBatch, **parameters)`` gives one advantage per step, float64 (S,), or more."""


@dataclass(frozen=True)
class BoundRule:
    """A credit rule with its parameters: what is left are the batch and what the rule reads.

    Attributes:
        name: The rule.
        reads: Names of `READS` that it reads.
    """

    name: str
    reads: tuple[str, ...]
    _rule: CreditRule
    _parameters: Mapping[str, Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The values of its parameters, by name."""
        return dict(self._parameters)

    @property
    def gold(self) -> tuple[str, ...]:
        """Those of the reads that are gold."""
        return tuple(name for name in self.reads if READS.get(name).gold)

    def __call__(self, batch: StepBatch, **read: Any) -> NDArray[np.float64]:
        """The advantages of a batch; `credit` gives all that the rule says.

        Args:
            batch: S steps.
            read: What the rule reads, by name.

        Raises:
            ValueError: For a result that is not one finite number a step.
        """
        return self.credit(batch, **read).advantages

    def credit(self, batch: StepBatch, **read: Any) -> Credited:
        """What the rule says of a batch.

        Args:
            batch: S steps.
            read: What the rule reads, by name.

        Raises:
            ValueError: For a result that is not one finite number a step.
        """
        said = self._rule(batch, **self._parameters, **read)
        credit = said if isinstance(said, Credited) else Credited(np.asarray(said, np.float64))
        shape = credit.advantages.shape
        if shape != (len(batch),):
            raise ValueError(
                f"credit rule {self.name!r} returned shape {shape} for {len(batch)} steps:"
                " return one advantage per step"
            )
        self._refuse_infinite(credit.advantages, "step")
        if credit.token_advantages is not None:
            self._refuse_infinite(credit.token_advantages, "token")
        return credit

    def check_tokens(self, credit: Credited, tokens: int, heads: int) -> None:
        """Checks what the rule said of response tokens.

        Args:
            credit: What it said.
            tokens: Number of response tokens, the sum of R.
            heads: Number of values H that the critic gives of a place; 0 without a critic.

        Raises:
            ValueError: For a column of another shape, and for a critic without targets.
        """
        if heads and credit.value_targets is None:
            raise ValueError(
                f"credit rule {self.name!r} gave the critic nothing to learn: return"
                " Credited(advantages, value_targets=...)"
            )
        shapes: dict[str, tuple[int, ...]] = {"token_advantages": (tokens,)}
        if heads:
            shapes["value_targets"] = (tokens, heads)
        for name, shape in shapes.items():
            column = getattr(credit, name)
            if column is not None and np.shape(column) != shape:
                raise ValueError(
                    f"credit rule {self.name!r} returned {name} of shape {np.shape(column)} for"
                    f" {tokens} response tokens: return shape {shape}"
                )

    def _refuse_infinite(self, advantages: NDArray[np.float64], of: str) -> None:
        if not np.isfinite(advantages).all():
            row = int(np.flatnonzero(~np.isfinite(advantages))[0])
            raise ValueError(
                f"credit rule {self.name!r} returned {advantages[row]} for {of} {row}: return"
                " finite numbers"
            )


def bind_credit(name: str, parameters: Mapping[str, Any]) -> BoundRule:
    """Binds a rule to the parameters that its signature names, and finds what else it reads.

    Args:
        name: A name of `CREDIT_RULES`, or ``path/to/file.py:function``.
        parameters: Values by name, such as all hyperparameters of an algorithm; the rule gets those
            it names and its own defaults for the others. ``credit_config`` holds values of those
            that are the rule's own.

    Raises:
        ValueError: For an unknown or broken rule, for a parameter without a default that is neither
            given nor a read, for one of ``credit_config`` that the rule does not have or that is a
            setting, and for a rule that reads gold where ``gold_in_training`` is false.
    """
    rule = CREDIT_RULES.get(name)
    if not callable(rule):
        raise ValueError(f"credit rule {name!r} is a {type(rule).__name__}, not a function")
    asked = list(inspect.signature(rule).parameters.values())[1:]
    own = dict(parameters.get("credit_config") or {})
    _check_own(name, own, asked, parameters)
    parameters = {**parameters, **own}
    if any(p.kind is p.VAR_KEYWORD for p in asked):
        chosen = dict(parameters)
    else:
        chosen = {p.name: parameters[p.name] for p in asked if p.name in parameters}
    rest = [p for p in asked if p.name not in chosen]
    reads = tuple(p.name for p in rest if p.name in READS)
    missing = [
        p.name
        for p in rest
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and p.default is p.empty
        and p.name not in reads
    ]
    if missing:
        raise ValueError(
            f"credit rule {name!r} needs {', '.join(missing)}, which is no parameter here:"
            f" give it a default, set credit_config.{missing[0]}, or read one of"
            f" {', '.join(READS.names())}"
        )
    bound = BoundRule(name, reads, rule, chosen)
    if bound.gold and not parameters.get("gold_in_training", True):
        raise ValueError(
            f"credit rule {name!r} reads {' and '.join(bound.gold)}, the hidden truth of the tasks:"
            " set gold_in_training: true, which the run's results show"
        )
    return bound


def _check_own(
    name: str,
    own: Mapping[str, Any],
    asked: Sequence[inspect.Parameter],
    settings: Mapping[str, Any],
) -> None:
    """Checks ``credit_config``: its names, and that numbers are numbers."""
    free = {p.name: p.default for p in asked if p.name not in settings and p.name not in READS}
    for key, value in own.items():
        if key in settings:
            raise ValueError(f"credit_config.{key} has no effect: {key} is a setting, set that")
        if key not in free:
            hint = nearest(key, free) if free else "it has none of its own"
            raise ValueError(f"credit rule {name!r} has no parameter {key!r}: {hint}")
        if _is_number(free[key]) and not _is_number(value):
            raise ValueError(f"credit_config.{key} is {value!r}: give a number")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
