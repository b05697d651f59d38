"""Reads an ALFWorld PDDL problem: typed objects, initial facts, and the goal as a flat query."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Final, TypeAlias

Fact: TypeAlias = tuple[str, ...]
"""A ground atom: the predicate and its arguments, all in lower case."""
Signatures: TypeAlias = Mapping[str, tuple[str, ...]]
"""Predicate -> the types of its arguments."""
Cases: TypeAlias = tuple[tuple[Fact, ...], ...]
"""One existential block of a goal, grounded on the facts that never change.

Each case is a set of changing facts. The block holds if all facts of a case hold.
"""
Node: TypeAlias = "str | list[Node]"

_TOKEN: Final = re.compile(r"[()]|[^\s()]+")
_MOST_CASES: Final = 100_000
_COMMENT: Final = re.compile(r";[^\n]*")


class PddlError(ValueError):
    """The text is not a PDDL problem for ALFWorld's domain."""


def parse_problem(
    text: str, signatures: Signatures, changing: Signatures
) -> tuple[dict[str, list[Fact]], tuple[Cases, ...]]:
    """Parses a problem with the predicates of its initial state and those that actions change.

    All further predicates of the goal are evaluated on the initial state. Returns the facts of the
    initial state by predicate, and the blocks of the goal that must all hold.
    """
    sections = {node[0]: node[1:] for node in _tree(text) if node and isinstance(node[0], str)}
    for name in (":objects", ":init", ":goal"):
        if name not in sections:
            raise PddlError(f"it has no {name} section")
    declared = _typed(sections[":objects"])
    types = dict(declared)
    if len(types) != len(declared):
        raise PddlError("it declares an object twice")
    facts: defaultdict[str, list[Fact]] = defaultdict(list)
    costless = (node for node in sections[":init"] if node[:1] != ["="])
    for fact in dict.fromkeys(map(_atom, costless)):
        _check(fact, signatures, types)
        facts[fact[0]].append(fact)
    if len(sections[":goal"]) != 1:
        raise PddlError("its :goal is not one condition")
    goal = sections[":goal"][0]
    blocks = goal[1:] if isinstance(goal, list) and goal[:1] == ["and"] else [goal]
    predicates = {**signatures, **changing}
    return dict(facts), tuple(_cases(b, types, facts, predicates, changing) for b in blocks)


def _tree(text: str) -> list[list[Node]]:
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
                raise PddlError("it closes a parenthesis that is not open")
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise PddlError("it is truncated: a parenthesis is not closed")
    if len(root) != 1 or not isinstance(root[0], list) or root[0][:1] != ["define"]:
        raise PddlError("it does not begin with (define")
    return [node for node in root[0][1:] if isinstance(node, list)]


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


def _check(fact: Fact, signatures: Signatures, types: Mapping[str, str]) -> None:
    """Refuses a fact with an unknown predicate or with arguments of a wrong type."""
    if fact[0] not in signatures:
        raise PddlError(f"unknown predicate {fact[0]!r}: ALFWorld has {', '.join(signatures)}")
    given = tuple(types.get(name, "nothing declared") for name in fact[1:])
    if given != signatures[fact[0]]:
        expected = ", ".join(signatures[fact[0]])
        raise PddlError(
            f"({' '.join(fact)[:200]}) is about {', '.join(given)}, not about {expected}"
        )


def _atom(node: Node) -> Fact:
    if not isinstance(node, list) or not node or not all(isinstance(word, str) for word in node):
        raise PddlError(f"{str(node)[:80]} is not a fact")
    return tuple(str(word) for word in node)


def _cases(
    block: Node,
    types: Mapping[str, str],
    facts: Mapping[str, list[Fact]],
    predicates: Signatures,
    changing: Signatures,
) -> Cases:
    """Grounds a block of the goal on the facts that never change."""
    variables: list[tuple[str, str]] = []
    atoms: list[Fact] = []
    unequal: list[tuple[str, str]] = []
    _flatten(block, variables, atoms, unequal)
    kinds = dict(variables)
    if len(kinds) != len(variables):
        raise PddlError("its goal declares a variable twice in one block")
    for atom in atoms:
        _check(atom, predicates, {**types, **kinds})
    bindings: list[dict[str, str]] = [{}]
    for atom in atoms:
        if atom[0] not in changing:
            bindings = [
                {**binding, **dict(zip(atom[1:], fact[1:], strict=True))}
                for binding in bindings
                for fact in facts.get(atom[0], ())
                if all(
                    binding.get(a, f if a in kinds else a) == f
                    for a, f in zip(atom[1:], fact[1:], strict=True)
                )
            ]
            _limit(len(bindings))
    bound = bindings[0] if bindings else kinds
    free = [name for name in kinds if name not in bound]
    pools = [[name for name, kind in types.items() if kind == kinds[variable]] for variable in free]
    _limit(len(bindings) * prod(len(pool) for pool in pools))
    goal_atoms = [atom for atom in atoms if atom[0] in changing]
    cases: dict[tuple[Fact, ...], None] = {}
    for binding, values in product(bindings, product(*pools)):
        full = {**binding, **dict(zip(free, values, strict=True))}
        if any(full.get(a, a) == full.get(b, b) for a, b in unequal):
            continue
        cases[tuple((c[0], *(full.get(word, word) for word in c[1:])) for c in goal_atoms)] = None
    if not cases:
        raise PddlError("its goal can never be met: nothing in the room fits it")
    return tuple(cases)


def _limit(cases: int) -> None:
    if cases > _MOST_CASES:
        raise PddlError(f"its goal has over {_MOST_CASES} cases")


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
            raise PddlError(f"its goal uses {head!r}, which ALFWorld's goals do not use")
        case _:
            atoms.append(_atom(node))
