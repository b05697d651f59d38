"""Replacements of Python code that are written as patterns with metavariables.

A pattern is Python in which ``$name`` matches any expression or identifier, ``*$name`` for any
number of arguments, elements or statements, and ``**$name`` for any number of keyword arguments.
The same name matches equal code. Syntax trees are compared, so layout, comments and quotes have
no effect. The text outside of the replaced code stays equal.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Bound = dict[str, Any]
"""Metavariable to a node, or to a list of nodes for ``*$name`` and ``**$name``."""

_MARK = "metavariable_"
_IGNORED = ("ctx", "kind", "type_comment")


@dataclass(frozen=True)
class Match:
    """Code that a pattern matches.

    Attributes:
        nodes: Neighbouring statements of a block, or one expression or keyword argument.
        bound: The code that the metavariables stand for.
    """

    nodes: Sequence[Any]
    bound: Bound


class Replacement:
    """A pattern and the code that takes its place.

    An expression replaces an expression. Otherwise statements replace neighbouring statements of a
    block; no statement becomes ``pass``. ``name=value`` also replaces a keyword argument.

    Args:
        old: Python with metavariables.
        new: Python with metavariables of ``old``.

    Raises:
        ValueError: If ``old`` or ``new`` is not Python, or ``new`` has another metavariable.
    """

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = _parse(old), _parse(new)
        unbound = _names(self.new, marked=True) - _names(self.old, marked=True)
        if unbound:
            raise ValueError(f"${min(unbound)} is in the new code and not in the old code")
        self._is_expression = _is_expression(self.old) and _is_expression(self.new)

    def variables(self) -> tuple[set[str], set[str]]:
        """Returns the variables of the old and of the new code; no metavariables."""
        return _names(self.old, marked=False), _names(self.new, marked=False)

    def matches(self, scope: ast.stmt) -> Iterator[Match]:
        """Yields every match in a statement, which may be the match."""
        for node in _walk(ast.Module([scope], [])):
            for pattern, candidate in self._candidates(node):
                bound = _match_list(pattern, candidate, {})
                if bound is not None:
                    yield Match(candidate, bound)

    def _candidates(self, node: ast.AST) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
        """Yields a pattern and nodes of the same kind, which may match."""
        if self._is_expression:
            if isinstance(node, ast.expr):
                yield [self.old[0].value], [node]
        elif isinstance(node, ast.keyword):
            keywords = _as_keywords(self.old)
            if len(keywords) == 1:
                yield keywords, [node]
        else:
            for block in _blocks(node):
                for first in range(len(block)):
                    for last in range(first, len(block)):
                        yield self.old, block[first : last + 1]

    def apply(self, source: str, match: Match) -> str:
        """Returns the source with the new code in place of a match."""
        first, last = match.nodes[0], match.nodes[-1]
        start = _offset(source, first.lineno, first.col_offset)
        end = _offset(source, last.end_lineno, last.end_col_offset)
        new = substitute(self.new, match.bound)
        if self._is_expression:
            text = f"({ast.unparse(new[0])})"
        elif isinstance(first, ast.keyword):
            text = ", ".join(f"{k.arg}=({ast.unparse(k.value)})" for k in _as_keywords(new))
        else:
            lines = "\n".join(ast.unparse(node) for node in new or [ast.Pass()]).split("\n")
            text = ("\n" + " " * first.col_offset).join(lines)
        return source[:start] + text + source[end:]


def substitute(template: Sequence[Any], bound: Bound) -> list[Any]:
    """Returns a copy of the nodes with code in place of the metavariables."""
    copies = [_Substitution(bound).visit(copy.deepcopy(node)) for node in template]
    return [node for each in copies for node in (each if isinstance(each, list) else [each])]


class _Substitution(ast.NodeTransformer):
    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def visit(self, node: ast.AST) -> Any:
        name, many = _metavariable(node)
        # One expression behind a star, as in `[*$x]`, keeps the star.
        if name and many <= isinstance(self._bound[name], list):
            return copy.deepcopy(self._bound[name])
        for field, value in ast.iter_fields(node):
            if isinstance(value, str) and value.startswith(_MARK):
                setattr(node, field, self._bound[value.removeprefix(_MARK)].id)
        self.generic_visit(node)
        if isinstance(node, ast.Call):  # *$name may stand for keyword arguments
            node.keywords[:0] = [arg for arg in node.args if isinstance(arg, ast.keyword)]
            node.args = [arg for arg in node.args if not isinstance(arg, ast.keyword)]
        return node


def _parse(text: str) -> list[Any]:
    try:
        return ast.parse(re.sub(r"\$(?=[a-z_])", _MARK, text)).body
    except SyntaxError as error:
        raise ValueError(f"not Python: {text!r}: {error}") from None


def _is_expression(nodes: Sequence[ast.stmt]) -> bool:
    return (
        len(nodes) == 1
        and isinstance(nodes[0], ast.Expr)
        and not isinstance(nodes[0].value, ast.Starred)
    )


def _as_keywords(nodes: Sequence[Any]) -> list[ast.keyword]:
    """Reads ``name=value`` as a keyword argument."""
    return [
        ast.keyword(node.targets[0].id, node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    ]


def _names(nodes: Sequence[ast.AST], *, marked: bool) -> set[str]:
    """Returns the metavariables, or the remaining variables that the nodes read or write."""
    parts = [part for node in nodes for part in ast.walk(node)]
    if not marked:
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        return {name for name in names if not name.startswith(_MARK)}
    values = [value for part in parts for _, value in ast.iter_fields(part)]
    texts = [value for value in values if isinstance(value, str)]
    return {text.removeprefix(_MARK) for text in texts if text.startswith(_MARK)}


def _walk(scope: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes outside f-strings: Python 3.11 gives no positions inside f-strings."""
    yield scope
    if not isinstance(scope, ast.JoinedStr):
        for child in ast.iter_child_nodes(scope):
            yield from _walk(child)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yields the lists of statements of a node, without an ``elif``, which has no text for them."""
    for _, block in ast.iter_fields(node):
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            is_elif = isinstance(node, ast.If) and block[0].col_offset == node.col_offset
            if not is_elif:
                yield block


def _metavariable(node: Any) -> tuple[str, bool]:
    """Returns the name of a metavariable, or ``""``; and whether it matches several nodes."""
    many = True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Starred):
        node = node.value.value
    elif isinstance(node, ast.Starred) or (isinstance(node, ast.keyword) and node.arg is None):
        node = node.value
    else:
        many = False
    if isinstance(node, ast.Name) and node.id.startswith(_MARK):
        return node.id.removeprefix(_MARK), many
    return "", False


def _match_list(pattern: Sequence[Any], nodes: Sequence[Any], bound: Bound) -> Bound | None:
    if not pattern:
        return None if nodes else bound
    name, many = _metavariable(pattern[0])
    if many:
        for size in range(len(nodes) + 1):
            rest = _bind(name, list(nodes[:size]), bound)
            if rest is not None:
                rest = _match_list(pattern[1:], nodes[size:], rest)
            if rest is not None:
                return rest
        return None
    first = _match(pattern[0], nodes[0], bound) if nodes else None
    return None if first is None else _match_list(pattern[1:], nodes[1:], first)


def _match(pattern: Any, node: Any, bound: Bound) -> Bound | None:
    if isinstance(pattern, str) and pattern.startswith(_MARK) and isinstance(node, str):
        return _bind(pattern.removeprefix(_MARK), ast.Name(node), bound)
    if isinstance(pattern, list) and isinstance(node, list):
        return _match_list(pattern, node, bound)
    if not isinstance(pattern, ast.AST):
        return bound if type(pattern) is type(node) and pattern == node else None
    name, _ = _metavariable(pattern)
    if name and isinstance(node, ast.expr):
        return _bind(name, node, bound)
    if type(pattern) is not type(node):
        return None
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
        wanted = [*pattern.args, *pattern.keywords]
        inner = _match_list(wanted, [*node.args, *node.keywords], bound)
        return None if inner is None else _match(pattern.func, node.func, inner)
    for field in pattern._fields:
        if field not in _IGNORED:
            inner = _match(getattr(pattern, field), getattr(node, field), bound)
            if inner is None:
                return None
            bound = inner
    return bound


def _bind(name: str, code: Any, bound: Bound) -> Bound | None:
    if name in bound and _dump(bound[name]) != _dump(code):
        return None
    return {name: code, **bound}


def _dump(code: Any) -> list[str]:
    nodes = code if isinstance(code, list) else [code]
    return [re.sub(r"(, )?ctx=\w+\(\)", "", ast.dump(node)) for node in nodes]


def _offset(source: str, line: int, column: int) -> int:
    """Returns the place in the text of a line and a column in bytes of UTF-8."""
    lines = source.split("\n")
    before = sum(len(text) + 1 for text in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode())
