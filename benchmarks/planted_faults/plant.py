"""Plants a fault: finds the function that the fault names and replaces code in it."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.planted_faults.pattern import Match, Replacement


@dataclass(frozen=True)
class Fault:
    """A change of one function that a test must find.

    Attributes:
        name: The wrong behaviour in words.
        place: ``module:function``, both dotted; ``package/file`` for another language than Python.
        old: The pattern to replace.
        new: The code that takes its place.
        tests: The test file that must find the fault.
    """

    name: str
    place: str
    old: str
    new: str
    tests: str

    def path(self, root: Path) -> Path:
        """Returns the changed file of a tree.

        Raises:
            ValueError: If the tree has no such file.
        """
        module, _, file = self.place.partition(":")[0].partition("/")
        folder = root.joinpath(*module.split("."))
        python = [folder.with_suffix(".py"), folder / "__init__.py"]
        for path in [folder / file] if file else python:
            if path.is_file():
                return path
        raise ValueError(f"fault {self.name!r}: {self.place} has no file; name the new module")

    def planted(self, source: str) -> str:
        """Returns the text of the changed file.

        Args:
            source: The text of the file without the fault.

        Raises:
            ValueError: If the function is missing, the pattern does not match exactly once, the
                pattern names a local variable, or the new code cannot run.
        """
        function = self.place.partition(":")[2]
        try:
            if function:
                return _in_python(source, function, Replacement(self.old, self.new))
            return _in_text(source, self.old, self.new)
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"fault {self.name!r} in {self.place}: {error}") from None


def _in_python(source: str, function: str, replacement: Replacement) -> str:
    module = ast.parse(source)
    definitions = dict[str, list[ast.stmt]]()
    for name, node in _definitions(module, ""):
        definitions.setdefault(name, []).append(node)
    if function not in definitions:
        similar = difflib.get_close_matches(function, definitions, cutoff=0.3)
        raise ValueError(f"no {function}; similar: {', '.join(similar) or 'nothing'}")
    scopes = definitions[function]
    matches = [match for scope in scopes for match in replacement.matches(scope)]
    if len(matches) != 1:
        lines = "".join(f", line {match.nodes[0].lineno}" for match in matches)
        raise ValueError(f"the pattern matches {len(matches)} times, not once{lines}")
    _check_variables(module, scopes, replacement, matches[0])
    planted = replacement.apply(source, matches[0])
    compile(planted, function, "exec")
    return planted


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yields the dotted names of functions, classes and their assigned names, with their nodes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + child.name, child
            yield from _definitions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            for name in _bound([child]):
                yield prefix + name, child
        elif isinstance(child, ast.stmt):
            yield from _definitions(child, prefix)


def _check_variables(
    module: ast.Module, scopes: Sequence[ast.stmt], replacement: Replacement, match: Match
) -> None:
    """Refuses local variables in the pattern, and variables of the new code that do not exist."""
    old, new = replacement.variables()
    if isinstance(match.nodes[0], ast.keyword):  # the argument's name is no variable
        old, new = old - {match.nodes[0].arg}, new - {match.nodes[0].arg}
    parts = [part for scope in scopes for part in ast.walk(scope)]
    functions = [part for part in parts if isinstance(part, ast.FunctionDef | ast.Lambda)]
    stable = _imported(functions) | {"self", "cls"} | {getattr(node, "name", "") for node in scopes}
    local = old & (_bound(functions) - stable)
    if local:
        raise ValueError(f"{min(local)} is a local variable; write ${min(local)}")
    available = {part.id for part in parts if isinstance(part, ast.Name)} | set(dir(builtins))
    available |= _imported([module]) | {name for name, _ in _definitions(module, "")}
    missing = new - available - _bound(replacement.new)
    if missing:
        raise ValueError(f"the new code reads {min(missing)}, which the function does not have")


def _bound(nodes: Sequence[ast.AST]) -> set[str]:
    """Returns the names that the nodes assign, import, define or take as parameters."""
    names = _imported(nodes)
    for part in (part for node in nodes for part in ast.walk(node)):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
    return names


def _imported(nodes: Sequence[ast.AST]) -> set[str]:
    parts = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.alias)]
    return {part.asname or part.name.partition(".")[0] for part in parts}


def _in_text(source: str, old: str, new: str) -> str:
    """Replaces text in which ``$name`` is a word and any white space, or none, separates words."""
    parts = []
    for token in re.findall(r"\$\w+|\w+|\S", old):
        if not token.startswith("$"):
            parts.append(re.escape(token))
        elif f"(?P<{token[1:]}>" in "".join(parts):
            parts.append(f"(?P={token[1:]})")
        else:
            parts.append(rf"(?P<{token[1:]}>\w+)")
    pattern = re.compile(r"\s*".join(parts))
    matches = list(pattern.finditer(source))
    if len(matches) != 1:
        raise ValueError(f"the pattern matches {len(matches)} times, not once")
    (match,) = matches
    text = re.sub(r"\$(\w+)", lambda name: match[name[1]], new)
    return source[: match.start()] + text + source[match.end() :]
