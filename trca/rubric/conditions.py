"""The conditions of rubric operators: a small, typed, total part of CEL.

A condition is a truth value built from ``facts.<name>``, ``task.<name>``, strings, numbers, lists
of strings, ``&& || ! == != < <= > >= in size()`` and parentheses. There are no macros, no
arithmetic, no indexing and no other functions, so an expression costs time linear in its length and
in the facts it reads, and it can neither loop nor raise on well-typed facts. CEL evaluates it; this
module parses it once, when a library is loaded, to list the names it uses, to refuse what is not in
the language, and to say later which of its clauses were true.
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

MAX_LENGTH: Final = 600
"""Longest condition, in characters."""
MAX_DEPTH: Final = 16
"""Deepest nesting of parentheses, brackets and negations."""

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
    """An invalid library; the message names the file, the operator, the fault and the fix."""


@dataclasses.dataclass(frozen=True)
class Term:
    """The type of a part of a condition, or of a field of the facts or the binding.

    Attributes:
        kind: The type.
        allowed: The values that it (or its elements) can have; None for any value.
        constants: The strings in it, when it is a constant.
    """

    kind: Kind
    allowed: tuple[str, ...] | None = None
    constants: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Clause:
    """A part of a condition between ``&&`` and ``||``, and the values it read.

    Attributes:
        text: The part, as the condition writes it.
        values: The values it read, by qualified name such as ``facts.verb``.
    """

    text: str
    values: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Condition:
    """A parsed condition.

    Attributes:
        text: The condition as written.
        program: The CEL text over flat variables (``facts.verb`` is ``facts_verb``), which CEL
            converts several times faster than fields of a map.
        reads: The names used as ``facts.<name>``.
        binds: The names used as ``task.<name>``.
    """

    text: str
    program: str
    reads: frozenset[str]
    binds: frozenset[str]

    @classmethod
    def parse(cls, text: str, terms: Mapping[str, Term] | None = None) -> Condition:
        """Parses a condition.

        Args:
            text: The expression.
            terms: The known fields by qualified name (see `field_terms`); with None, names and
                types are not checked.

        Raises:
            RubricError: When the expression is not in the language, or does not fit ``terms``.
        """
        if len(text) > MAX_LENGTH:
            raise RubricError(f"the condition has {len(text)} characters: at most {MAX_LENGTH}")
        return _Parser(text, terms).condition()

    def evaluate(self, facts: Any, binding: Any) -> bool:
        """Evaluates the condition with CEL.

        Args:
            facts: The facts of a transition.
            binding: The task binding.

        Raises:
            Exception: When CEL cannot evaluate it, as on facts of a wrong type.
        """
        values = {f"facts_{name}": getattr(facts, name) for name in self.reads}
        values |= {f"task_{name}": getattr(binding, name) for name in self.binds}
        return bool(self._compiled.execute(values))

    def explain(self, facts: Any, binding: Any) -> tuple[Clause, ...]:
        """The clauses that make the condition true, in order; none when it is not true.

        All sides of a true ``&&`` are given, and the true sides of ``||``; groups in parentheses
        are taken apart too. A negation is one clause.

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
        import cel  # its package loads a command line of its own, for a quarter of a second

        return cel.compile(self.program)


def _parts(text: str) -> list[str]:
    """The sides of the outermost ``||`` of a valid condition, else of ``&&``, else the whole."""
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
        record: A dataclass whose fields are bool, int, float, str, a `Literal` of strings, or a
            tuple of such strings.

    Raises:
        TypeError: When a field has another type.
    """
    hints = get_type_hints(record)
    return {
        f"{prefix}.{field.name}": _term(f"{record.__name__}.{field.name}", hints[field.name])
        for field in dataclasses.fields(record)
    }


def field_meanings(record: type) -> dict[str, str]:
    """What the fields of a dataclass mean: the ``Attributes`` of its docstring, by name."""
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
    if get_origin(hint) is Literal:
        return Term("string", tuple(str(value) for value in get_args(hint)))
    if get_origin(hint) is tuple:
        return Term("list of strings", _term(name, get_args(hint)[0]).allowed)
    raise TypeError(f"{name} is {hint}: use bool, int, float, str, Literal or a tuple of strings")


class _Parser:
    """A recursive-descent parser; every method returns the term it parsed."""

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
            raise RubricError(f"{self._next()!r} is not expected there: {_LANGUAGE}")
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
            raise RubricError(f"the condition ends too early: {_LANGUAGE}")
        self.place += 1
        return self.tokens[self.place - 1][1]

    def _expect(self, symbol: str) -> None:
        found = self._next()
        if found != symbol:
            raise RubricError(f"{found!r} stands where {symbol!r} should: {_LANGUAGE}")

    @staticmethod
    def _want(kind: Kind, term: Term, what: str) -> None:
        if term.kind not in (kind, "unknown"):
            raise RubricError(f"{what} is a {term.kind}, not a {kind}")

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
                raise RubricError(f"{value!r} can never be there: {nearest(value, field.allowed)}")

    def _unary(self) -> Term:
        if self._peek() != "!":
            return self._primary()
        self._next()
        self._enter()
        self._want("truth value", self._unary(), "what ! negates")
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
            self._want("list of strings", self._primary(), "what size() counts")
            self._expect(")")
            self.depth -= 1
            return Term("whole number")
        raise RubricError(f"{token!r} is not expected there: {_LANGUAGE}")

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
                raise RubricError(f"{item!r} stands in a list: lists hold strings only")
            constants.append(item[1:-1])
            symbol = self._next()
            if symbol == "]":
                return Term("list of strings", constants=tuple(constants))
            if symbol != ",":
                raise RubricError(f"{symbol!r} stands where ',' or ']' should in a list")
