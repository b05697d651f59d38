"""A rubric library: five operators in each of three categories (Appendix A of the paper)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trca.common import strict_yaml
from trca.common.errors import words
from trca.common.files import find
from trca.common.names import nearest
from trca.common.short_line import short_line
from trca.rubric.conditions import Condition, RubricError, Term

CATEGORIES: Final = ("evidence", "invalidity", "execution")
"""The categories. The code of a category in arrays is its index."""
OPERATORS_PER_CATEGORY: Final = 5
"""M_c of every library."""

_T = TypeVar("_T")
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,59}$")]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self  # immutable


class Operator(_Record):
    """One reusable Boolean condition h^c_{b,m}."""

    id: _Name = Field(description="name of the operator, unique in the library")
    category: Literal["evidence", "invalidity", "execution"]
    description: str = Field(
        min_length=1,
        max_length=400,
        description="effect of the transition that the operator detects",
    )
    reads: tuple[_Name, ...] = Field(strict=False, description="facts in the condition")
    binds: tuple[_Name, ...] = Field(
        strict=False, description="fields of the task binding in the condition"
    )
    condition: str = Field(min_length=1, description="CEL truth value over facts and task")

    def check(self, source: str, terms: Mapping[str, Term] | None = None) -> None:
        """Checks the condition, and that ``reads`` and ``binds`` list all its names.

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


class Provenance(_Record):
    """The origin of a library that a model wrote; set by `trca.rubric.generation`."""

    model: str = Field(description="name of the model at the endpoint")
    endpoint: str = Field(description="base URL of the endpoint")
    date: str = Field(description="day and time, UTC")
    trca: str = Field(description="version of this package")
    temperature: float = Field(strict=False, description="sampling temperature")
    replies: int = Field(ge=1, description="number of replies, including invalid replies")
    refused: tuple[str, ...] = Field(strict=False, description="errors of earlier replies")
    prompt_sha256: str = Field(description="SHA-256 of the prompt")
    prompt: str = Field(description="complete prompt of the model; blank if it is too long")


class RubricLibrary(_Record):
    """The operators of one environment, in the order of the judgments."""

    environment: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_./-]{0,99}$")
    operators: tuple[Operator, ...] = Field(strict=False)
    provenance: Provenance | None = Field(
        default=None, description="origin of a library by a model"
    )
    source: str = Field(default="", exclude=True, description="name of the library in errors")

    @classmethod
    def load(cls, name_or_path: str | Path) -> RubricLibrary:
        """Loads a packaged library or a YAML file.

        Args:
            name_or_path: The name of a packaged library, such as ``alfworld``, or a path.

        Raises:
            RubricError: If there is no such library, or it breaks a rule. The message names the
                file, the operator and the fix.
        """
        shipped = _shipped()
        if name_or_path in shipped:
            return shipped[str(name_or_path)]
        try:
            path = find(name_or_path)
            exists, named = path.is_file(), path.suffix in strict_yaml.SUFFIXES
            text = strict_yaml.read_text(path) if exists and named else ""
        except (ValueError, OSError, RuntimeError) as error:  # RuntimeError: ~ of an unknown user
            raise RubricError(f"{short_line(name_or_path)}: {words(error)}") from None
        if not exists:
            raise RubricError(
                f"no rubric library {short_line(repr(str(name_or_path)))}: give the path of a"
                f" YAML file, or a name. {nearest(name_or_path, shipped)}"
            )
        if not named:
            raise RubricError(f"{path}: name the file .yaml: a run keeps copies of such files")
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, source: str = "library") -> RubricLibrary:
        """Parses a library from YAML text.

        Args:
            text: The YAML text.
            source: Name of the text in error messages.

        Raises:
            RubricError: If the text is not YAML or breaks a rule.
        """
        try:
            data = strict_yaml.parse(text)
        except ValueError as error:
            raise RubricError(f"{source}: not a YAML file: {error}") from None
        if not isinstance(data, dict):
            raise RubricError(
                f"{source}: a library is a mapping with 'environment' and 'operators'"
            )
        try:
            library = cls.model_validate({**data, "source": source})
        except ValidationError as error:
            raise RubricError(_schema_message(source, data, error)) from None
        library._check()
        return library

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The operators' ids, in order."""
        return tuple(operator.id for operator in self.operators)

    @cached_property
    def categories(self) -> NDArray[np.int8]:
        """int8 (M,): 0 Evidence, 1 Invalidity, 2 Execution."""
        codes = np.array([CATEGORIES.index(o.category) for o in self.operators], dtype=np.int8)
        codes.flags.writeable = False
        return codes

    def _check(self) -> None:
        for operator_id, count in Counter(self.ids).items():
            if count > 1:
                raise RubricError(f"{self.source}: {count} operators have the id {operator_id!r}")
        counts = Counter(operator.category for operator in self.operators)
        for category in CATEGORIES:
            if counts[category] != OPERATORS_PER_CATEGORY:
                raise RubricError(
                    f"{self.source}: {counts[category]} {category} operators: a library has "
                    f"{OPERATORS_PER_CATEGORY} in each of {', '.join(CATEGORIES)}"
                )
        check_each(self.operators, lambda operator: operator.check(self.source))


def check_each(operators: Sequence[Operator], check: Callable[[Operator], _T]) -> list[_T]:
    """The results of a check, one per operator.

    Raises:
        RubricError: The message has one line per failing operator.
    """
    checked, errors = [], []
    for operator in operators:
        try:
            checked.append(check(operator))
        except RubricError as error:
            errors.append(str(error))
    if errors:
        raise RubricError("\n".join(_with_known_names_once(errors)))
    return checked


@cache
def _shipped() -> dict[str | Path, RubricLibrary]:
    folder = resources.files(__package__) / "libraries"
    texts = {e.name: e.read_text("utf-8") for e in folder.iterdir() if e.name.endswith(".yaml")}
    return {Path(name).stem: RubricLibrary.parse(text, name) for name, text in texts.items()}


def _with_known_names_once(errors: Sequence[str]) -> list[str]:
    """Errors in which each list of known names stands only once, where it comes first."""
    lists = set[str]()
    lines = []
    for error in errors:
        head, _, names = error.partition(" Known: ")
        lines.append(head.rstrip(":") if names in lists else error)
        lists |= {names} if names else set()
    return lines


def _same_names(where: str, field: str, listed: tuple[str, ...], used: frozenset[str]) -> None:
    if len(set(listed)) != len(listed):
        raise RubricError(f"{where}: {field} repeats a name")
    for name in sorted(used - set(listed)):
        raise RubricError(f"{where}: the condition uses {name!r}: add it to {field}")
    for name in sorted(set(listed) - used):
        raise RubricError(
            f"{where}: {field} lists {name!r}, which the condition does not use: remove it"
        )


def _schema_message(source: str, data: dict[str, Any], error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = list(first["loc"])
    where = source
    operators = data.get("operators")
    if len(place) > 1 and isinstance(place[1], int) and isinstance(operators, list):
        operator = operators[place[1]]
        name = operator.get("id") if isinstance(operator, dict) else None
        where += f": operator {name!r}" if name else f": operator number {place[1] + 1}"
        place = place[2:]
    field = ".".join(str(part) for part in place) or "operator"
    if first["type"] == "extra_forbidden":
        fields = (RubricLibrary if where == source else Operator).model_fields
        return f"{where}: unknown field {field!r}: {nearest(field, set(fields) - {'source'})}"
    value = _shown(first["input"]) if first["type"] != "missing" else ""
    shown = f" is {value!r}" if value else ""
    return f"{where}: {field}{shown}: {first['msg'][:200]}"


def _shown(value: Any) -> str:
    """The beginning of a value as text; a number with thousands of digits has none."""
    try:
        return str(value)[:60]
    except ValueError:
        return "a very large number"
