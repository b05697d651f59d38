"""Imports of the package: one direction, no cycle, and no torch for environments."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import trca

ROOT = Path(trca.__file__).parent
BELOW = {
    "common": set(),
    "tune_configs": {"common"},
    "rubric": {"common"},
    "envs": {"rubric", "common"},
    "policies": {"envs", "rubric", "common"},
    "records": {"envs", "rubric", "common"},
    "runs": {"records", "tune_configs", "envs", "rubric", "common"},
}
"""Package -> the packages that it may import."""
BELOW["algorithms"] = {"policies", "runs", *BELOW["runs"]}
BELOW["interop"] = {"common"}
BELOW["analysis"] = {"algorithms", *BELOW["algorithms"]}
BELOW["cli"] = {"analysis", *BELOW["analysis"]}

ROOMS = {
    "algorithms": {
        "settings": set(),
        "credit": {"settings"},
        "rollouts": {"settings"},
        "learner": {"settings"},
        "base": {"learner", "rollouts", "credit", "settings"},
        "rules": {"credit", "settings"},
        "imitation": {"rules", "base", "learner", "rollouts", "settings"},
    },
    "cli": {
        "show": set(),
        "preflight": set(),
        "run": {"preflight", "show"},
        "view": {"preflight", "show"},
        "sweep": {"run", "preflight", "show"},
        "commands": {"sweep", "view", "run", "preflight", "show"},
    },
}
"""Room of a package -> the rooms of the package that it may import."""


@cache
def modules():
    """Name of each module of the package -> its syntax tree."""
    trees = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def imported(tree, name, names):
    """The modules that a module imports, also in functions and for type checkers.

    Args:
        tree: The syntax tree of the module.
        name: The name of the module.
        names: Names of all modules.
    """
    targets = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                targets.add(inner if inner in names else node.module)
    return (targets & names) - {name}


def cycles(graph):
    """The first cycle of a graph as a list of its nodes; empty without a cycle."""
    done, path = set(), []

    def walk(node):
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        path.append(node)
        for other in sorted(graph[node]):
            if cycle := walk(other):
                return cycle
        path.pop()
        done.add(node)
        return []

    for node in sorted(graph):
        if cycle := walk(node):
            return cycle
    return []


@cache
def graph():
    """Name of each module -> the modules that the module imports."""
    return {name: imported(tree, name, set(modules())) for name, tree in modules().items()}


DOORS = {
    "trca",
    "trca.__main__",
    "trca.algorithms",
    "trca.algorithms.catalog",
    "trca.cli",
    "trca.cli.app",
}
"""Modules that re-export names for users: lazy names, the list of algorithms, the commands."""


def test_a_cycle_is_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_module_imports_itself_by_way_of_others():
    others_of = {
        name: others - {"trca"} for name, others in graph().items()
    }  # `trca` has lazy names
    assert not cycles(others_of)


def package_of(module):
    """The ``envs`` of ``trca.envs.webshop``; empty for ``trca``."""
    inside = module.removeprefix("trca.")
    return next((part for part in (inside, inside.split(".")[0]) if part in BELOW), "")


def room_of(module):
    """The ``learner`` of ``trca.algorithms.learner.rows``; empty for a door."""
    if module in DOORS:
        return ""
    return module.split(".")[2]


def test_every_module_is_in_a_package_of_the_order():
    assert {name for name in modules() if not package_of(name)} == {"trca", "trca.__main__"}


def test_dependencies_point_one_way():
    wrong = [
        f"{name} imports {other}"
        for name, others in graph().items()
        for other in others - {"trca"}
        if name not in DOORS
        if package_of(other) not in {package_of(name)} | BELOW[package_of(name)]
    ]
    assert not wrong


def test_no_module_imports_a_plug_in():
    plugins = {path.parent.name for path in ROOT.parent.glob("plugins/*/*/__init__.py")}
    assert plugins
    wrong = [
        f"{name} imports {node.module}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in plugins
    ]
    assert not wrong


@pytest.mark.parametrize("package", ROOMS)
def test_the_rooms_of_a_package_have_an_order(package):
    inside = {n: o for n, o in graph().items() if package_of(n) == package and n not in DOORS}
    wrong = [
        f"{name} ({room_of(name)}) imports {other} ({room_of(other)})"
        for name, others in inside.items()
        for other in others & inside.keys()
        if room_of(other) not in {room_of(name)} | ROOMS[package].get(room_of(name), set())
    ]
    assert not wrong


@pytest.mark.parametrize("package", ROOMS)
def test_every_file_of_a_package_is_in_a_room(package):
    beside = {path.name for path in (ROOT / package).glob("*.py")}
    assert beside <= {"__init__.py", "__main__.py", "app.py", "catalog.py", "imitation.py"}


def test_environments_load_neither_torch_nor_ray_nor_transformers():
    program = (
        "import sys, trca, trca.rubric, trca.envs;"
        "heavy = {'torch', 'ray', 'transformers', 'matplotlib', 'scipy', 'pyarrow', 'rich'};"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_recorded_runs_are_analysed_without_ray():
    names = sorted(
        name for name in modules() if package_of(name) in ("analysis", "runs", "records")
    )
    program = (
        f"import sys, {', '.join(names)};"
        "sys.exit(' '.join({'torch', 'ray', 'transformers'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
