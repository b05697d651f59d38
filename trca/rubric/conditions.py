"""The conditions of rubric operators: a small, typed, total subset of CEL.

A condition is a truth value built from ``facts.<name>``, ``task.<name>``, strings, numbers, lists
of strings, ``&& || ! == != < <= > >= in size()`` and parentheses. The subset has no macros, no
arithmetic, no indexing and no further functions. Therefore evaluation takes time linear in the
length of the condition and of the facts, and it neither loops nor raises on well-typed facts with
finite numbers. A condition is parsed once, when a library is loaded. The parser checks names and
types, and returns one function per expression. Every condition is also valid CEL (https://cel.dev)
and has the same value there.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import numpy as np

from trca.common.errors import short_line
from trca.common.names import nearest
from trca.common.shared import Shared, named

MAX_LENGTH: Final = 600
"""Largest length of a condition, in characters."""
MAX_DEPTH: Final = 16
"""Largest nesting depth of parentheses, brackets and negations."""
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<name>(?:facts|task)\.[A-Za-z_][A-Za-z0-9_]*)
      | (?P<string>'[^'\\\r\n]*'|"[^"\\\r\n]*")
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

    ``allowed`` has the permitted values of the expression or its elements; None for any value.
    ``constants`` are the strings of a constant expression.
    """

    kind: Kind
    allowed: tuple[str, ...] | None = None
    constants: tuple[str, ...] = ()


_TRUTH: Final = Term("truth value")
_WHOLE: Final = Term("whole number")


@dataclasses.dataclass(frozen=True)
class Clause:
    """A part of a condition between ``&&`` and ``||``, and its field values by qualified name."""

    text: str
    values: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Condition(Shared):
    """A parsed condition, or an expression inside a condition.

    Attributes:
        text: The condition as written, without parentheses around it.
        reads: The names in ``facts.<name>``.
        binds: The names in ``task.<name>``.
        term: The type.
        sides: The conditions that an outermost ``&&`` or ``||`` joins.
    """

    text: str
    reads: frozenset[str]
    binds: frozenset[str]
    term: Term
    sides: tuple[Condition, ...]
    _value: Callable[[Any, Any], Any]

    @classmethod
    def parse(cls, text: str, terms: Mapping[str, Term] | None = None) -> Condition:
        """Parses a condition.

        Args:
            text: The expression.
            terms: Fields with their types by qualified name (see `field_terms`). With None, names
                and types are not checked, neither here nor by `evaluate`.

        Raises:
            RubricError: If the expression is outside the subset or does not fit ``terms``.
        """
        if len(text) > MAX_LENGTH:
            raise RubricError(f"the condition has {len(text)} characters: use at most {MAX_LENGTH}")
        return named(_Parser(text, terms).condition(), Condition.parse, text, terms)

    def evaluate(self, facts: Any, binding: Any) -> bool:
        """The value of the condition for the facts of a transition and the task binding.

        Raises:
            TypeError: If the result depends on a field whose value does not have the field's type.
        """
        return bool(self._value(facts, binding))

    def explain(self, facts: Any, binding: Any) -> tuple[Clause, ...]:
        """The clauses that make the condition true, in order; empty for a false condition.

        Of a true ``&&``, the result has all sides; of ``||``, the true sides. Groups in parentheses
        are split too. A negation is one clause.
        """
        try:
            if not self.evaluate(facts, binding):
                return ()
        except TypeError:
            return ()
        if self.sides:
            return tuple(clause for side in self.sides for clause in side.explain(facts, binding))
        values = {f"facts.{name}": getattr(facts, name) for name in sorted(self.reads)}
        values |= {f"task.{name}": getattr(binding, name) for name in sorted(self.binds)}
        return (Clause(self.text, values),)


_NUMBERS: Final = (int, float, np.integer, np.floating)
_TYPES: Final[dict[Kind, tuple[type, ...]]] = {
    "truth value": (bool, np.bool_),
    "whole number": _NUMBERS,
    "number": _NUMBERS,
    "string": (str,),
    "list of strings": (tuple, list),
    "unknown": (object,),
}
_PLAIN: Final[dict[Any, Kind]] = {
    bool: "truth value", int: "whole number", float: "number", str: "string"
}  # fmt: skip
_RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
}


def _field(name: str, kind: Kind) -> Callable[[Any, Any], Any]:
    """A function that reads a field and checks its type. NaN, which has no order, is no number."""
    record, _, field = name.partition(".")
    types = _TYPES[kind]

    def read(facts: Any, binding: Any) -> Any:
        value = getattr(facts if record == "facts" else binding, field)
        fits = isinstance(value, types)
        if fits and types is _NUMBERS:
            fits = value == value and not isinstance(value, bool)
        if not fits:
            raise TypeError(f"{name} is {short_line(repr(value))}, not a {kind}")
        return value

    return read


def _join(sides: Sequence[Condition], decisive: bool) -> Callable[[Any, Any], bool]:
    """``||`` if true is decisive, else ``&&``. As in CEL, a decisive side overrules an error."""

    def value(facts: Any, binding: Any) -> bool:
        error = None
        for side in sides:
            try:
                if side.evaluate(facts, binding) is decisive:
                    return decisive
            except TypeError as side_error:
                error = side_error
        if error is not None:
            raise error
        return not decisive

    return value


def field_terms(prefix: str, record: type) -> dict[str, Term]:
    """The fields of a dataclass, ``facts`` or ``task``, by qualified name such as ``facts.verb``.

    A field is bool, int, float, str, a `Literal` of strings, or a tuple of strings or of such
    literals; any other type is a RubricError.
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
    if hint in _PLAIN:
        return Term(_PLAIN[hint])
    parts = get_args(hint)
    if get_origin(hint) is Literal and all(isinstance(value, str) for value in parts):
        return Term("string", parts)
    if get_origin(hint) is tuple and (of := _term(name, parts[0])).kind == "string":
        return Term("list of strings", of.allowed)
    raise RubricError(
        f"{name} is {hint}: use bool, int, float, str, a Literal of strings, or a tuple of strings"
    )


def _want(kind: Kind, expression: Condition, subject: str) -> None:
    if expression.term.kind not in (kind, "unknown"):
        raise RubricError(f"{subject} is a {expression.term.kind}, not a {kind}")


class _Parser:
    """A recursive-descent parser. Every parsing method returns the expression that it parsed."""

    def __init__(self, text: str, terms: Mapping[str, Term] | None) -> None:
        self.terms = terms
        self.tokens: list[re.Match[str]] = []
        self.place = 0
        self.depth = 0
        text, end = text.rstrip(), 0
        while end < len(text):
            token = _TOKEN.match(text, end)
            if token is None:
                raise RubricError(f"cannot read {text[end : end + 20]!r}: {_LANGUAGE}")
            self.tokens.append(token)
            end = token.end()

    def condition(self) -> Condition:
        condition = self._or()
        _want("truth value", condition, "the condition")
        if self.place < len(self.tokens):
            raise RubricError(f"unexpected {self._peek()!r}: {_LANGUAGE}")
        return condition

    def _peek(self) -> str:
        return self.tokens[self.place][0].strip() if self.place < len(self.tokens) else ""

    def _next(self) -> str:
        if self.place == len(self.tokens):
            raise RubricError(f"the condition is incomplete: {_LANGUAGE}")
        self.place += 1
        return self.tokens[self.place - 1][0].strip()

    def _expect(self, symbol: str) -> None:
        token = self._next()
        if token != symbol:
            raise RubricError(f"expected {symbol!r}, found {token!r}: {_LANGUAGE}")

    def _since(
        self,
        start: int,
        term: Term,
        value: Callable[[Any, Any], Any],
        sides: Sequence[Condition] = (),
    ) -> Condition:
        """The expression from the token with the index ``start`` to the last token read."""
        tokens = self.tokens[start : self.place]
        text = " ".join("".join(token[0] for token in tokens).split())
        names = [token["name"] for token in tokens if token["name"]]
        reads, binds = (
            frozenset(name.removeprefix(prefix) for name in names if name.startswith(prefix))
            for prefix in ("facts.", "task.")
        )
        return Condition(text, reads, binds, term, tuple(sides), value)

    def _or(self) -> Condition:
        return self._chain("||", lambda: self._chain("&&", self._relation))

    def _chain(self, symbol: str, operand: Callable[[], Condition]) -> Condition:
        start, sides = self.place, [operand()]
        while self._peek() == symbol:
            _want("truth value", sides[-1], f"the left side of {symbol}")
            self._next()
            sides.append(operand())
            _want("truth value", sides[-1], f"the right side of {symbol}")
        if len(sides) == 1:
            return sides[0]
        return self._since(start, _TRUTH, _join(sides, symbol == "||"), sides)

    def _relation(self) -> Condition:
        start, left = self.place, self._unary()
        symbol = self._peek()
        if symbol not in _RELATIONS:
            return left
        self._next()
        right = self._unary()
        kind, other = left.term.kind, right.term.kind
        if symbol == "in":
            _want("string", left, "the left side of 'in'")
            _want("list of strings", right, "the right side of 'in'")
        elif "unknown" not in (kind, other):
            if kind != other:
                raise RubricError(f"a {kind} cannot be compared with a {other}")
            if symbol not in ("==", "!=") and kind not in ("whole number", "number"):
                raise RubricError(f"a {kind} has no order: use == or != in place of {symbol}")
            if kind == "list of strings":
                raise RubricError(f"lists cannot be compared with {symbol}: use 'in' or size()")
        for term, other_term in ((left.term, right.term), (right.term, left.term)):
            for value in other_term.constants:
                if term.allowed is not None and value not in term.allowed:
                    hint = nearest(value, term.allowed)
                    raise RubricError(f"the field never has the value {value!r}: {hint}")
        relation, first, second = _RELATIONS[symbol], left._value, right._value
        return self._since(start, _TRUTH, lambda f, b: relation(first(f, b), second(f, b)))

    def _unary(self) -> Condition:
        if self._peek() != "!":
            return self._primary()
        start = self.place
        self._next()
        operand = self._nested(self._unary)
        _want("truth value", operand, "the operand of !")
        return self._since(start, _TRUTH, lambda f, b: not operand.evaluate(f, b))

    def _nested(self, parse: Callable[[], Condition]) -> Condition:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise RubricError(f"the condition nests deeper than {MAX_DEPTH} levels")
        expression = parse()
        self.depth -= 1
        return expression

    def _primary(self) -> Condition:
        start, token = self.place, self._next()
        if token == "(":
            inner = self._nested(self._or)
            self._expect(")")
            return inner
        if token == "size":
            self._expect("(")
            values = self._nested(self._primary)
            _want("list of strings", values, "the argument of size()")
            self._expect(")")
            return self._since(start, _WHOLE, lambda f, b: len(values._value(f, b)))
        kind = self.tokens[start].lastgroup
        if kind == "name":
            if self.terms is not None and token not in self.terms:
                raise RubricError(f"there is no {token!r}: {nearest(token, self.terms)}")
            term = Term("unknown") if self.terms is None else self.terms[token]
            return self._since(start, term, _field(token, term.kind))
        constant: Any
        if kind == "string":
            constant = token[1:-1]
            term = Term("string", constants=(constant,))
        elif kind == "number":
            if len(token) > 15:
                raise RubricError(f"the number {token} is too long")
            term = Term("number") if "." in token else _WHOLE
            constant = float(token) if "." in token else int(token)
        elif token in ("true", "false"):
            term, constant = _TRUTH, token == "true"
        elif token == "[":
            items, symbol = list[str](), ","
            while symbol == ",":
                items.append(self._next())
                if self.tokens[self.place - 1].lastgroup != "string":
                    raise RubricError(f"a list contains {items[-1]!r}: use strings only")
                symbol = self._next()
            if symbol != "]":
                raise RubricError(f"expected ',' or ']' in a list, found {symbol!r}")
            constant = tuple(item[1:-1] for item in items)
            term = Term("list of strings", constants=constant)
        else:
            raise RubricError(f"unexpected {token!r}: {_LANGUAGE}")
        return self._since(start, term, lambda f, b: constant)
