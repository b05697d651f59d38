"""Reads an ALFWorld PDDL problem: typed objects, initial facts, and the goal as a flat query."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

Fact: TypeAlias = tuple[str, ...]
"""A ground atom: predicate, then arguments, all in lower case."""
Node: TypeAlias = "str | list[Node]"

_TOKEN: Final = re.compile(r"[()]|[^\s()]+")
_COMMENT: Final = re.compile(r";[^\n]*")


class PddlError(ValueError):
    """The text is no PDDL problem that ALFWorld's domain can play."""


@dataclass(frozen=True, slots=True)
class Query:
    """One existential block of a goal, grounded on the facts that never change.

    Attributes:
        cases: Each is a set of changing facts; the block holds when all facts of some case do.
    """

    cases: tuple[tuple[Fact, ...], ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A parsed problem.

    Attributes:
        types: Type of each declared object.
        facts: The facts of the initial state.
        goal: The blocks that must all hold.
    """

    types: dict[str, str]
    facts: dict[str, list[Fact]]
    goal: tuple[Query, ...]


def parse_problem(text: str, fluents: frozenset[str]) -> Problem:
    """Parses a problem.

    Args:
        text: The PDDL.
        fluents: Predicates that actions change; all others are evaluated here and now.

    Raises:
        PddlError: Says what is wrong.
    """
    sections = {node[0]: node for node in _tree(text) if isinstance(node, list) and node}
    for name in (":objects", ":init", ":goal"):
        if name not in sections:
            raise PddlError(f"it has no {name} section")
    types = dict(_typed(sections[":objects"][1:]))
    facts: defaultdict[str, list[Fact]] = defaultdict(list)
    for node in dict.fromkeys(_atom(node) for node in sections[":init"][1:] if _is_fact(node)):
        for name in node[1:]:
            if name not in types:
                raise PddlError(f"{name!r} is in a fact and not among the objects")
        facts[node[0]].append(node)
    if len(sections[":goal"]) != 2:
        raise PddlError("its :goal is not one condition")
    goal = sections[":goal"][1]
    blocks = goal[1:] if isinstance(goal, list) and goal[:1] == ["and"] else [goal]
    return Problem(types, dict(facts), tuple(_query(b, types, facts, fluents) for b in blocks))


def _tree(text: str) -> list[Node]:
    root: list[Node] = []
    stack = [root]
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if token == "(":
            inner: list[Node] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif token == ")":
            stack.pop()
            if not stack:
                raise PddlError("it closes a parenthesis that was never opened")
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise PddlError("it ends in the middle: a parenthesis is not closed")
    if len(root) != 1 or not isinstance(root[0], list) or root[0][:1] != ["define"]:
        raise PddlError("it does not open with (define")
    return root[0][1:]


def _typed(nodes: list[Node]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    waiting: list[str] = []
    words = iter(nodes)
    for word in words:
        if not isinstance(word, str):
            raise PddlError("a list of names holds a parenthesis")
        if word != "-":
            waiting.append(word)
            continue
        kind = next(words, None)
        if not isinstance(kind, str):
            raise PddlError("a '-' is not followed by a type")
        pairs += [(name, kind) for name in waiting]
        waiting = []
    if waiting:
        raise PddlError(f"{waiting[0]!r} has no type")
    return pairs


def _is_fact(node: Node) -> bool:
    return not (isinstance(node, list) and node[:1] == ["="])


def _atom(node: Node) -> Fact:
    if not isinstance(node, list) or not node or not all(isinstance(word, str) for word in node):
        raise PddlError(f"{str(node)[:80]} is not a fact")
    return tuple(str(word) for word in node)


def _query(
    block: Node, types: dict[str, str], facts: dict[str, list[Fact]], fluents: frozenset[str]
) -> Query:
    variables: list[tuple[str, str]] = []
    atoms: list[Fact] = []
    unequal: list[tuple[str, str]] = []
    _flatten(block, variables, atoms, unequal)
    static = [atom for atom in atoms if atom[0] not in fluents]
    changing = [atom for atom in atoms if atom[0] in fluents]
    bindings: list[dict[str, str]] = [{}]
    for atom in static:
        bindings = [
            {**binding, **dict(zip(atom[1:], fact[1:], strict=True))}
            for binding in bindings
            for fact in facts.get(atom[0], ())
            if len(fact) == len(atom)
            and all(binding.get(a, f) == f for a, f in zip(atom[1:], fact[1:], strict=True))
            and all(a.startswith("?") or a == f for a, f in zip(atom[1:], fact[1:], strict=True))
        ]
    cases: dict[tuple[Fact, ...], None] = {}
    for binding in bindings:
        free = [(name, kind) for name, kind in variables if name not in binding]
        pools = [[name for name, kind in types.items() if kind == wanted] for _, wanted in free]
        for values in product(*pools):
            full = binding | {name: value for (name, _), value in zip(free, values, strict=True)}
            if any(full.get(a, a) == full.get(b, b) for a, b in unequal):
                continue
            case = tuple((c[0], *(full.get(word, word) for word in c[1:])) for c in changing)
            cases[case] = None
    return Query(tuple(cases))


def _flatten(
    node: Node,
    variables: list[tuple[str, str]],
    atoms: list[Fact],
    unequal: list[tuple[str, str]],
) -> None:
    if not isinstance(node, list) or not node:
        raise PddlError("its goal has an empty condition")
    match node:
        case ["and", *parts]:
            for part in parts:
                _flatten(part, variables, atoms, unequal)
        case ["exists", [*names], inner]:
            variables += _typed(names)
            _flatten(inner, variables, atoms, unequal)
        case ["not", ["=", str(a), str(b)]]:
            unequal.append((a, b))
        case [str(head), *_] if head in ("or", "not", "forall", "imply", "when", "="):
            raise PddlError(f"its goal uses {head!r}, which no ALFWorld goal does")
        case _:
            atoms.append(_atom(node))
