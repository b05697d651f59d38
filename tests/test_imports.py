"""Imports of the package: no cycle between modules, dependencies one way, and no torch for envs."""

import ast
import subprocess
import sys
from pathlib import Path

import trca

ROOT = Path(trca.__file__).parent
ALLOWED = {
    "common": set(),
    "rubric": {"common"},
    "envs": {"rubric", "common"},
    "interop": {"envs", "rubric", "common"},
    "policies": {"rubric", "envs", "common"},
    "algorithms": {
        *("policies", "rubric", "envs", "common"),
        *("tune_configs.files", "tune_configs.recording", "algorithms.recorder"),
    },
    "tune_configs.files": {"common"},
    "tune_configs.recording": {"common"},
    "tune_configs": {
        *("algorithms", "policies", "rubric", "envs", "common"),
        *("tune_configs.files", "tune_configs.recording"),
    },
}
ALLOWED["cli"] = set(ALLOWED)
# The recorder writes the files that the commands read; both names of these files lie in `cli`.
ALLOWED["algorithms.recorder"] = {*ALLOWED, "algorithms", "tune_configs"}


def modules():
    """Name of each module of the package -> its syntax tree."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree, name, known, everywhere):
    """The modules of the package that a module imports.

    Args:
        tree: Its syntax tree.
        name: Its name.
        known: Names of all modules.
        everywhere: Whether imports within functions count too; those for type checkers never do.
    """
    found = set()

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if not everywhere and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return (found & known) - {name}


def cycles(graph):
    """The first cycle of a graph as a list of its nodes; nothing where there is none."""
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


TREES = modules()


def graph_of(everywhere):
    return {name: imported(tree, name, set(TREES), everywhere) for name, tree in TREES.items()}


def test_a_cycle_is_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_module_imports_itself_by_way_of_others():
    assert not cycles(graph_of(everywhere=False))


def package_of(module):
    """The ``envs`` of ``trca.envs.webshop``; blank for ``trca`` and what lies directly in it.

    ``trca.tune_configs.files`` reads presets and imports nothing above ``common``: it is a part of
    its own.
    """
    inside = module.removeprefix("trca.")
    return next((part for part in (inside, inside.split(".")[0]) if part in ALLOWED), "")


def test_dependencies_point_one_way():
    wrong = [
        f"{name} imports {other}"
        for name, others in graph_of(everywhere=True).items()
        for other in others
        if package_of(name)  # ``trca`` itself is the front door: lazy names, ``python -m trca``
        if package_of(other) not in {"", package_of(name)} | ALLOWED[package_of(name)]
    ]
    assert not wrong


def test_environments_load_neither_torch_nor_ray_nor_transformers():
    program = (
        "import sys, trca, trca.rubric, trca.envs;"
        "heavy = {'torch', 'ray', 'transformers', 'matplotlib', 'scipy', 'pyarrow', 'cel', 'rich'};"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
