"""The judge: evaluates all operators of a library on the facts of one transition."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.rubric.conditions import Clause, Condition, RubricError, field_terms
from trca.rubric.library import RubricLibrary, check_each

logger = logging.getLogger(__name__)
_warned: Final = set[tuple[str, str]]()
_REMEMBERED: Final = 4096
"""Largest number of cached judgments per operator."""


class Judge:
    """Evaluates a library on transitions. Judging is deterministic and runs no code of the library.

    Each condition is parsed once. Since an operator reads few fields with few values, its
    judgments are cached by these values. A judge is not thread-safe.

    Attributes:
        library: The library.
        errors: Number of failed evaluations by operator id. A failed evaluation gives the
            judgment 0; the first one of an operator in a process gives a warning.
    """

    def __init__(self, library: RubricLibrary, facts_type: type, binding_type: type) -> None:
        """Checks a library against the facts and the binding of an environment.

        Args:
            library: The library.
            facts_type: Frozen dataclass of the facts; every field has a default.
            binding_type: Dataclass of the task binding; every field has a default.

        Raises:
            RubricError: If a condition names an unknown field or does not fit its type, a default
                value does not have the type of its field, or an operator asks a model.
        """
        if library.questions:
            names = " and ".join(library.questions)
            raise RubricError(
                f"{library.source} has questions ({names}): write a condition here; a model"
                " answers questions only in `trca recredit RUN --library FILE --judge NAME"
                " --base-url URL`"
            )
        self.library = library
        self.errors: Counter[str] = Counter()
        terms = field_terms("facts", facts_type) | field_terms("task", binding_type)
        self._operators = check_each(
            library.operators,
            lambda operator: _Operator(operator.id, operator.check(library.source, terms)),
        )
        binding, facts = binding_type(), facts_type()
        for operator in self._operators:
            try:
                operator.condition.evaluate(facts, binding)
            except Exception as error:
                raise RubricError(
                    f"{library.source}: operator {operator.name!r} on default facts: {error}"
                ) from None

    def judge(self, binding: Any, facts: Any) -> NDArray[np.uint8]:
        """The judgments O_{i,t,j} of one transition (Eq. app_rubric_judgment).

        Args:
            binding: The task binding, with hashable fields.
            facts: The facts of the transition, with hashable fields.

        Returns:
            uint8 (M,), read-only: one 0/1 per operator, in library order.

        Raises:
            TypeError: If a field of the facts or of the binding is not hashable.
        """
        answers = []
        for operator in self._operators:
            values = operator.facts(facts)
            if operator.binds:
                values = values, operator.binding(binding)
            try:
                answer = operator.cache.get(values)
            except TypeError as error:
                raise TypeError(
                    f"operator {operator.name!r} reads {type(facts).__name__}: {error}: use tuples"
                    " in place of lists"
                ) from None
            if answer is None:
                answer = self._evaluate(operator, values, binding, facts)
            answers.append(answer)
        return np.frombuffer(bytes(answers), dtype=np.uint8)

    def explain(self, binding: Any, facts: Any) -> dict[str, tuple[Clause, ...]]:
        """The operators that fire on a transition, by id in library order.

        Each has the clauses that make its condition true; see `Condition.explain`.
        """
        return {
            operator.name: clauses
            for operator in self._operators
            if (clauses := operator.condition.explain(facts, binding))
        }

    def _evaluate(self, operator: _Operator, values: Any, binding: Any, facts: Any) -> bool:
        try:
            answer = operator.condition.evaluate(facts, binding)
        except Exception as error:
            key = self.library.source, operator.name
            if key not in _warned:  # one warning in a process
                _warned.add(key)
                logger.warning(
                    "operator %r of %s cannot be evaluated on these facts, and counts as 0: %s",
                    operator.name,
                    self.library.source,
                    error,
                )
            self.errors[operator.name] += 1
            return False
        if len(operator.cache) >= _REMEMBERED:
            operator.cache.clear()
        operator.cache[values] = answer
        return answer


class _Operator:
    """A condition, functions that read its values, and its cached judgments by these values."""

    def __init__(self, name: str, condition: Condition) -> None:
        self.name, self.condition = name, condition
        self.binds = sorted(condition.binds)
        self.facts, self.binding = _getter(sorted(condition.reads)), _getter(self.binds)
        self.cache: dict[Any, bool] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Operator, (self.name, self.condition)  # a copy starts with an empty cache


def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
    """A function that reads attributes: one name gives its value, several give a tuple."""
    return attrgetter(*names) if names else lambda record: None
