"""The conditions of rubric operators: a small, typed, total subset of CEL.

A condition is a truth value built from ``facts.<name>``, ``task.<name>``, strings, numbers, lists
of strings, ``&& || ! == != < <= > >= in size()`` and parentheses. The subset has no macros, no
arithmetic, no indexing and no further functions. Therefore evaluation takes time linear in the
length of the condition and of the facts, and it neither loops nor raises on well-typed facts with
finite numbers. CEL evaluates conditions. This module parses a condition once, when a library is
loaded: it lists the names in the condition, refuses expressions outside the subset, and later
explains which clauses were true.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from trca.common.names import nearest
from trca.common.shared import Shared

MAX_LENGTH: Final = 600
"""Largest length of a condition, in characters."""
MAX_DEPTH: Final = 16
"""Largest nesting depth of parentheses, brackets and negations."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<name>(?:facts|task)\.[A-Za-z_][A-Za-z0-9_]*)
      | (?P<string>'[^'\\\n]*'|"[^"\\\n]*")
      | (?P<number>[0-9]+(?:\.[0-9]+)?)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<symbol>\|\||&&|==|!=|<=|>=|[<>!()\[\],])
    )""",
    re.VERBOSE,
)
_LANGUAGE: Final = (
    "a condition may use facts.<name>, task.<name>, true, false, strings, numbers, [lists of "
    "strings], size(), in, && || ! == != < <= > >= and parentheses"
)

Kind = Literal["truth value", "whole number", "number", "string", "list of strings", "unknown"]


class RubricError(ValueError):
    """A library is invalid. The message names the file, the operator, the fault and the fix."""


@dataclasses.dataclass(frozen=True)
class Term:
    """The type of an expression, or of a field of the facts or the binding.

    Attributes:
        kind: The type.
        allowed: Permitted values of the expression or its elements; None for any value.
        constants: The strings of a constant expression.
    """

    kind: Kind
    allowed: tuple[str, ...] | None = None
    constants: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Clause:
    """A part of a condition between ``&&`` and ``||``, with the values of its fields.

    Attributes:
        text: The part as written in the condition.
        values: Field values by qualified name, such as ``facts.verb``.
    """

    text: str
    values: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Condition(Shared):
    """A parsed condition.

    Attributes:
        text: The condition as written.
        program: The CEL text with flat variables (``facts_verb`` for ``facts.verb``), which CEL
            converts several times faster than the fields of a map.
        reads: The names in ``facts.<name>``.
        binds: The names in ``task.<name>``.
    """

    text: str
    program: str
    reads: frozenset[str]
    binds: frozenset[str]

    def __reduce__(self) -> tuple[Any, ...]:
        return Condition, (self.text, self.program, self.reads, self.binds)

    @classmethod
    def parse(cls, text: str, terms: Mapping[str, Term] | None = None) -> Condition:
        """Parses a condition.

        Args:
            text: The expression.
            terms: Fields with their types by qualified name (see `field_terms`). With None, names
                and types are not checked.

        Raises:
            RubricError: If the expression is outside the subset or does not fit ``terms``.
        """
        if len(text) > MAX_LENGTH:
            raise RubricError(f"the condition has {len(text)} characters: use at most {MAX_LENGTH}")
        return _Parser(text, terms).condition()

    def evaluate(self, facts: Any, binding: Any) -> bool:
        """Evaluates the condition with CEL.

        Args:
            facts: The facts of a transition.
            binding: The task binding.

        Raises:
            Exception: If CEL cannot evaluate the condition, such as for facts of a wrong type.
        """
        values = {f"facts_{name}": getattr(facts, name) for name in self.reads}
        values |= {f"task_{name}": getattr(binding, name) for name in self.binds}
        return bool(self._compiled.execute(values))

    def explain(self, facts: Any, binding: Any) -> tuple[Clause, ...]:
        """The clauses that make the condition true, in order; empty for a false condition.

        Of a true ``&&``, the result has all sides; of ``||``, the true sides. Groups in parentheses
        are split too. A negation is one clause.

        Args:
            facts: The facts of a transition.
            binding: The task binding.
        """
        try:
            true = self.evaluate(facts, binding)
        except Exception:
            true = False
        return tuple(self._reasons(facts, binding)) if true else ()

    def _reasons(self, facts: Any, binding: Any) -> Iterator[Clause]:
        parts = [Condition.parse(part) for part in _parts(self.text)]
        if len(parts) > 1:
            for part in parts:
                yield from part.explain(facts, binding)
            return
        values = {f"facts.{name}": getattr(facts, name) for name in sorted(self.reads)}
        values |= {f"task.{name}": getattr(binding, name) for name in sorted(self.binds)}
        yield Clause(" ".join(parts[0].text.split()), values)

    @cached_property
    def _compiled(self) -> Any:
        import cel  # slow import (0.25 s), since the package loads its command line

        return cel.compile(self.program)


def _parts(text: str) -> list[str]:
    """The sides of the outermost ``||`` of a valid condition, else of ``&&``, else all of it."""
    tokens = list(_TOKEN.finditer(text))
    depth = list(accumulate((t["symbol"] == "(") - (t["symbol"] == ")") for t in tokens))
    if tokens[0]["symbol"] == "(" and depth.index(0) == len(tokens) - 1:
        return _parts(text[tokens[0].end() : tokens[-1].start("symbol")])
    for symbol in ("||", "&&"):
        cuts = [t for t, d in zip(tokens, depth, strict=True) if t["symbol"] == symbol and d == 0]
        if cuts:
            starts = [0, *(cut.end() for cut in cuts)]
            ends = [*(cut.start("symbol") for cut in cuts), len(text)]
            return [text[start:end] for start, end in zip(starts, ends, strict=True)]
    return [text]


def field_terms(prefix: str, record: type) -> dict[str, Term]:
    """The fields of a dataclass by qualified name, such as ``facts.verb``.

    Args:
        prefix: ``facts`` or ``task``.
        record: A dataclass. Its fields are bool, int, float, str, a `Literal` of strings, or a
            tuple of strings or of such literals.

    Raises:
        RubricError: For a field of any other type.
    """
    hints = get_type_hints(record)
    return {
        f"{prefix}.{field.name}": _term(f"{record.__name__}.{field.name}", hints[field.name])
        for field in dataclasses.fields(record)
    }


def field_meanings(record: type) -> dict[str, str]:
    """The descriptions of a dataclass's fields, from ``Attributes`` in its docstring, by name."""
    attributes = inspect.cleandoc(record.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", attributes, re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in entries}


def _term(name: str, hint: Any) -> Term:
    plain: dict[Any, Kind] = {
        bool: "truth value",
        int: "whole number",
        float: "number",
        str: "string",
    }
    if hint in plain:
        return Term(plain[hint])
    parts = get_args(hint)
    if get_origin(hint) is Literal and all(isinstance(value, str) for value in parts):
        return Term("string", parts)
    if get_origin(hint) is tuple and (of := _term(name, parts[0])).kind == "string":
        return Term("list of strings", of.allowed)
    raise RubricError(
        f"{name} is {hint}: use bool, int, float, str, a Literal of strings, or a tuple of strings"
    )


class _Parser:
    """A recursive-descent parser. Every parsing method returns the term that it parsed."""

    def __init__(self, text: str, terms: Mapping[str, Term] | None) -> None:
        self.text = text.strip()
        self.terms = terms
        self.tokens = self._split(text.rstrip())
        self.place = 0
        self.depth = 0
        self.names: dict[str, None] = {}

    def condition(self) -> Condition:
        self._want("truth value", self._or(), "the condition")
        if self.place < len(self.tokens):
            raise RubricError(f"unexpected {self._next()!r}: {_LANGUAGE}")
        return Condition(
            self.text,
            " ".join(
                token.replace(".", "_") if kind == "name" else token for kind, token in self.tokens
            ),
            frozenset(n.partition(".")[2] for n in self.names if n.startswith("facts.")),
            frozenset(n.partition(".")[2] for n in self.names if n.startswith("task.")),
        )

    @staticmethod
    def _split(text: str) -> list[tuple[str, str]]:
        tokens, place = [], 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise RubricError(f"cannot read {text[place : place + 20]!r}: {_LANGUAGE}")
            tokens.append((str(match.lastgroup), match[match.lastgroup or 0]))
            place = match.end()
        return tokens

    def _peek(self) -> str:
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    def _next(self) -> str:
        if self.place == len(self.tokens):
            raise RubricError(f"the condition is incomplete: {_LANGUAGE}")
        self.place += 1
        return self.tokens[self.place - 1][1]

    def _expect(self, symbol: str) -> None:
        token = self._next()
        if token != symbol:
            raise RubricError(f"expected {symbol!r}, found {token!r}: {_LANGUAGE}")

    @staticmethod
    def _want(kind: Kind, term: Term, subject: str) -> None:
        if term.kind not in (kind, "unknown"):
            raise RubricError(f"{subject} is a {term.kind}, not a {kind}")

    def _or(self) -> Term:
        return self._chain("||", lambda: self._chain("&&", self._relation))

    def _chain(self, symbol: str, operand: Any) -> Term:
        first: Term = operand()
        while self._peek() == symbol:
            self._want("truth value", first, f"the left side of {symbol}")
            self._next()
            self._want("truth value", operand(), f"the right side of {symbol}")
            first = Term("truth value")
        return first

    def _relation(self) -> Term:
        left = self._unary()
        symbol = self._peek()
        if symbol not in ("==", "!=", "<", "<=", ">", ">=", "in"):
            return left
        self._next()
        right = self._unary()
        if symbol == "in":
            self._want("string", left, "the left side of 'in'")
            self._want("list of strings", right, "the right side of 'in'")
        elif "unknown" not in (left.kind, right.kind):
            if left.kind != right.kind:
                raise RubricError(f"a {left.kind} cannot be compared with a {right.kind}")
            if symbol not in ("==", "!=") and left.kind not in ("whole number", "number"):
                raise RubricError(f"a {left.kind} has no order: use == or != in place of {symbol}")
            if left.kind == "list of strings":
                raise RubricError(f"lists cannot be compared with {symbol}: use 'in' or size()")
        self._fit(left, right)
        self._fit(right, left)
        return Term("truth value")

    @staticmethod
    def _fit(field: Term, constant: Term) -> None:
        for value in constant.constants:
            if field.allowed is not None and value not in field.allowed:
                raise RubricError(
                    f"the field never has the value {value!r}: {nearest(value, field.allowed)}"
                )

    def _unary(self) -> Term:
        if self._peek() != "!":
            return self._primary()
        self._next()
        self._enter()
        self._want("truth value", self._unary(), "the operand of !")
        self.depth -= 1
        return Term("truth value")

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise RubricError(f"the condition nests deeper than {MAX_DEPTH} levels")

    def _primary(self) -> Term:
        token = self._next()
        kind = self.tokens[self.place - 1][0]
        if kind == "name":
            return self._name(token)
        if kind == "string":
            return Term("string", constants=(token[1:-1],))
        if kind == "number":
            if len(token) > 15:
                raise RubricError(f"the number {token} is too long")
            return Term("number" if "." in token else "whole number")
        if token in ("true", "false"):
            return Term("truth value")
        if token == "(":
            self._enter()
            inner = self._or()
            self._expect(")")
            self.depth -= 1
            return inner
        if token == "[":
            return self._list()
        if token == "size":
            self._expect("(")
            self._enter()
            self._want("list of strings", self._primary(), "the argument of size()")
            self._expect(")")
            self.depth -= 1
            return Term("whole number")
        raise RubricError(f"unexpected {token!r}: {_LANGUAGE}")

    def _name(self, name: str) -> Term:
        self.names[name] = None
        if self.terms is None:
            return Term("unknown")
        if name not in self.terms:
            raise RubricError(f"there is no {name!r}: {nearest(name, self.terms)}")
        return self.terms[name]

    def _list(self) -> Term:
        constants: list[str] = []
        while True:
            item = self._next()
            if self.tokens[self.place - 1][0] != "string":
                raise RubricError(f"a list contains {item!r}: use strings only")
            constants.append(item[1:-1])
            symbol = self._next()
            if symbol == "]":
                return Term("list of strings", constants=tuple(constants))
            if symbol != ",":
                raise RubricError(f"expected ',' or ']' in a list, found {symbol!r}")
