"""The judge: every operator of a library on the facts of one transition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.rubric.conditions import Clause, Condition, RubricError, Term, field_terms
from trca.rubric.library import Operator, RubricLibrary, check_each

_REMEMBERED: Final = 4096
"""Judgments that an operator caches."""


class Judge:
    """Evaluates a library on transitions; deterministic, no model, no code from the library runs.

    Each condition is compiled once. An operator reads few fields, and these take few values, so
    its judgments are cached by the values it reads. Not to be shared between threads.

    Attributes:
        library: The library.
        errors: Times CEL could not evaluate an operator, by operator id; each counted as 0.
    """

    def __init__(self, library: RubricLibrary, facts_type: type, binding_type: type) -> None:
        """Binds a library to the facts and the binding of an environment.

        Args:
            library: The library.
            facts_type: Frozen dataclass of the observable facts; every field has a default.
            binding_type: Dataclass of the task binding; every field has a default.

        Raises:
            RubricError: When a condition names an unknown field, or does not fit its type.
        """
        self.library = library
        self.errors: Counter[str] = Counter()
        terms = field_terms("facts", facts_type) | field_terms("task", binding_type)
        self._operators = check_each(
            library.operators,
            lambda operator: _Operator(operator.id, _bound(library.source, operator, terms)),
        )
        self.judge(binding_type(), facts_type())
        for name in self.errors:
            raise RubricError(f"{library.source}: operator {name!r}: CEL cannot evaluate it")

    def judge(self, binding: Any, facts: Any) -> NDArray[np.uint8]:
        """The judgments O_{i,t,j} of one transition (Eq. app_rubric_judgment).

        Args:
            binding: The task binding; its fields are hashable.
            facts: The facts of the transition; their fields are hashable.

        Returns:
            uint8 (M,), read-only, one 0/1 per operator in the order of the library.
        """
        answers = []
        for operator in self._operators:
            values = operator.facts(facts)
            if operator.binds:
                values = values, operator.binding(binding)
            answer = operator.known.get(values)
            if answer is None:
                answer = self._evaluate(operator, values, binding, facts)
            answers.append(answer)
        return np.frombuffer(bytes(answers), dtype=np.uint8)

    def explain(self, binding: Any, facts: Any) -> dict[str, tuple[Clause, ...]]:
        """Says why operators fire on a transition.

        Args:
            binding: The task binding.
            facts: The facts of the transition.

        Returns:
            The operators that fire, by id in the order of the library, each with the clauses of
            its condition that make it true (see `Condition.explain`).
        """
        reasons = {
            operator.name: operator.condition.explain(facts, binding)
            for operator in self._operators
        }
        return {name: clauses for name, clauses in reasons.items() if clauses}

    def _evaluate(self, operator: _Operator, values: Any, binding: Any, facts: Any) -> bool:
        try:
            answer = operator.condition.evaluate(facts, binding)
        except Exception:
            self.errors[operator.name] += 1
            return False
        if len(operator.known) >= _REMEMBERED:
            operator.known.clear()
        operator.known[values] = answer
        return answer


class _Operator:
    """One condition, with its judgments by the values it read.

    Attributes:
        name: Id of the operator.
        condition: The condition.
        binds: Names of the binding's fields it reads.
        facts: Reads its values from the facts.
        binding: Reads its values from the binding.
        known: Its judgments by these values.
    """

    __slots__ = ("binding", "binds", "condition", "facts", "known", "name")

    def __init__(self, name: str, condition: Condition) -> None:
        self.name = name
        self.condition = condition
        self.binds = sorted(condition.binds)
        self.facts, self.binding = _getter(sorted(condition.reads)), _getter(self.binds)
        self.known: dict[Any, bool] = {}


def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
    """Reads these attributes: one name gives its value, several give a tuple."""
    return attrgetter(*names) if names else lambda record: None


def _bound(source: str, operator: Operator, terms: dict[str, Term]) -> Condition:
    try:
        return Condition.parse(operator.condition, terms)
    except RubricError as error:
        raise RubricError(f"{source}: operator {operator.id!r}: {error}") from None
