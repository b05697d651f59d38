"""A rubric library: Boolean operators in three categories.

The packaged libraries have five operators in each category, as in Appendix A of the paper. A
library may have any number from 1: the operators of a category share its budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trca.common.names import unknown
from trca.common.strict_yaml import FileRecord, Record
from trca.rubric.conditions import Condition, RubricError, Term

CATEGORIES: Final = ("evidence", "invalidity", "execution")
"""The categories. The code of a category in arrays is its index."""

_T = TypeVar("_T")
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,59}$")]


class Operator(Record):
    """One reusable Boolean condition h^c_{b,m}."""

    id: _Name = Field(description="name of the operator, unique in the library")
    category: Literal["evidence", "invalidity", "execution"]
    description: str = Field(
        min_length=1,
        max_length=400,
        description="effect of the transition that the operator detects",
    )
    reads: tuple[_Name, ...] = Field((), strict=False, description="facts in the condition")
    binds: tuple[_Name, ...] = Field(
        (), strict=False, description="fields of the task binding in the condition"
    )
    condition: str = Field(default="", description="CEL truth value over facts and task")
    judge: str = Field(
        default="",
        max_length=600,
        pattern=r"^$|\S",
        description="question to a model, in the place of a condition",
    )
    requires: tuple[_Name, ...] = Field(
        (),
        strict=False,
        description="operators that must fire earlier in the rollout, or on the same transition",
    )

    def check(self, source: str, terms: Mapping[str, Term] | None = None) -> Condition:
        """Parses the condition, and checks that ``reads`` and ``binds`` list all its names.

        Args:
            source: Name of the library in error messages.
            terms: The fields of facts and binding with their types; None leaves types unchecked.

        Raises:
            RubricError: The message names the operator, the fault and the fix.
        """
        where = f"{source}: operator {self.id!r}"
        try:
            condition = Condition.parse(self.condition, terms)
        except RubricError as error:
            raise RubricError(f"{where}: {error}") from None
        _same_names(where, "reads", self.reads, condition.reads)
        _same_names(where, "binds", self.binds, condition.binds)
        return condition


class Provenance(Record):
    """The origin of a library that a model wrote; set by `trca.rubric.generation`."""

    model: str = Field(description="name of the model at the endpoint")
    endpoint: str = Field(description="base URL of the endpoint")
    date: str = Field(description="day and time, UTC")
    trca: str = Field(description="version of this package")
    temperature: float = Field(strict=False, description="sampling temperature")
    replies: int = Field(ge=1, description="number of replies, including invalid replies")
    refused: tuple[str, ...] = Field(strict=False, description="errors of earlier replies")
    prompt_sha256: str = Field(description="SHA-256 of the prompt")
    prompt: str = Field(description="complete prompt of the model; empty if it is too long")


class RubricLibrary(FileRecord):
    """The operators of one environment, in the order of the judgments."""

    kind: ClassVar = "rubric library"
    folder: ClassVar = Path(__file__).with_name("libraries")
    error: ClassVar = RubricError
    part: ClassVar = ("operators", "operator", Operator)

    environment: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_./-]{0,99}$")
    operators: tuple[Operator, ...] = Field(strict=False)
    provenance: Provenance | None = Field(
        default=None, description="origin of a library by a model"
    )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The operators' ids, in order."""
        return tuple(operator.id for operator in self.operators)

    @property
    def questions(self) -> dict[str, str]:
        """The questions to a model, by operator id; training refuses a library with questions."""
        return {operator.id: operator.judge for operator in self.operators if operator.judge}

    @property
    def deterministic(self) -> RubricLibrary:
        """The library without its questions."""
        plain = tuple(operator for operator in self.operators if not operator.judge)
        return RubricLibrary(environment=self.environment, operators=plain, source=self.source)

    @cached_property
    def categories(self) -> NDArray[np.int8]:
        """int8 (M,): 0 Evidence, 1 Invalidity, 2 Execution."""
        codes = np.array([CATEGORIES.index(o.category) for o in self.operators], dtype=np.int8)
        codes.flags.writeable = False
        return codes

    @cached_property
    def _requirements(self) -> list[tuple[int, tuple[int, ...]]]:
        """Place of each operator with prerequisites and their places, prerequisites first."""
        places = {operator_id: place for place, operator_id in enumerate(self.ids)}
        needs = {operator.id: operator.requires for operator in self.operators}
        order = TopologicalSorter(needs).static_order()
        return [(places[i], tuple(places[n] for n in needs[i])) for i in order if needs[i]]

    def supported(
        self, judgments: NDArray[np.uint8], fired: NDArray[np.bool_]
    ) -> NDArray[np.uint8]:
        """The judgments of a transition, 0 for operators whose prerequisites have not fired.

        This is the aggregation of GEAR (Eq. for q_i, arXiv 2606.03361) with retention 0, on
        judgments that are 0 or 1. GEAR judges one response; here a prerequisite may also fire on an
        earlier transition.

        Args:
            judgments: uint8 (M,), read-only or not; unchanged.
            fired: bool (M,), the operators that fired on earlier transitions of the rollout. The
                operators of this transition are added.
        """
        if not self._requirements:
            return judgments
        kept = judgments.copy()
        for place, needed in self._requirements:
            kept[place] &= all(fired[n] or kept[n] for n in needed)
        fired |= kept > 0
        kept.flags.writeable = False
        return kept

    def check_all(self) -> None:
        """Checks ids, numbers of operators, conditions and prerequisites."""
        for operator_id, count in Counter(self.ids).items():
            if count > 1:
                raise RubricError(f"{self.source}: {count} operators have the id {operator_id!r}")
        for number, category in enumerate(CATEGORIES):
            if number not in self.categories:
                raise RubricError(
                    f"{self.source}: no {category} operator: a library has at least one in each of "
                    f"{', '.join(CATEGORIES)}"
                )
        for operator in self.operators:
            where = f"{self.source}: operator {operator.id!r}"
            if bool(operator.condition) == bool(operator.judge):
                raise RubricError(f"{where}: write a condition, or a question under judge")
            if operator.judge and (operator.reads or operator.binds):
                raise RubricError(f"{where} asks a model: leave reads and binds empty")
            for name in operator.requires:
                if name not in self.ids:
                    raise RubricError(f"{where} requires {unknown('operator', name, self.ids)}")
        try:
            _ = self._requirements
        except CycleError as error:
            raise RubricError(
                f"{self.source}: operators require each other: {' -> '.join(error.args[1])}"
            ) from None
        check_each(self.deterministic.operators, lambda operator: operator.check(self.source))


def check_each(operators: Sequence[Operator], check: Callable[[Operator], _T]) -> list[_T]:
    """The results of a check, one per operator; an error has one line per failing operator."""
    checked, errors = [], []
    for operator in operators:
        try:
            checked.append(check(operator))
        except RubricError as error:
            errors.append(str(error))
    lists, lines = set[str](), []
    for line in errors:  # each list of known names appears only where it comes first
        head, _, names = line.partition(" Known: ")
        lines.append(head.rstrip(":") if names in lists else line)
        lists |= {names} if names else set()
    if lines:
        raise RubricError("\n".join(lines))
    return checked


def _same_names(where: str, field: str, listed: tuple[str, ...], used: frozenset[str]) -> None:
    if len(set(listed)) != len(listed):
        raise RubricError(f"{where}: {field} repeats a name")
    for name in sorted(used - set(listed)):
        raise RubricError(f"{where}: the condition uses {name!r}: add it to {field}")
    for name in sorted(set(listed) - used):
        raise RubricError(
            f"{where}: {field} lists {name!r}, which the condition does not use: remove it"
        )
