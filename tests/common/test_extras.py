"""The error for a missing package or plug-in names the fix."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trca.common import extras

ROOT = Path(__file__).parents[2]
NO_PLUGIN = (
    "import importlib.metadata as metadata, sys\n"
    "sys.modules['trca_interop'] = None\n"
    "metadata.entry_points = lambda group: metadata.EntryPoints(())\n"
)
"""Begin of a program in an environment without plug-ins."""


@pytest.mark.parametrize(
    ("program", "code", "error"),
    [
        ("import trca.interop.trl", 1, "trca.interop needs the plug-in trca_interop"),
        (
            "import trca.cli; trca.cli.app(['import-dump', 'dump', '--config=mine.yaml'])",
            2,
            "import-dump is a command of a plug-in",
        ),
    ],
)
def test_the_error_for_the_missing_plug_in_names_its_installation(program, code, error):
    done = subprocess.run(
        [sys.executable, "-c", NO_PLUGIN + program], capture_output=True, text=True
    )
    assert done.returncode == code
    last = done.stderr.splitlines()[-1]
    assert error in last
    assert last.endswith("pip install ./plugins/interop in a checkout of TRCA")


def test_an_install_command_names_a_folder_and_an_extra_of_the_checkout():
    assert extras.install("train") == "pip install '.[train]' in a checkout of TRCA"
    assert extras.install(folder="./plugins/interop").startswith("pip install ./plugins/interop in")
    lack = extras.missing_extra("no_such_package", "a feature", "lora")
    assert lack == "a feature needs no_such_package: " + extras.install("lora")
    assert extras.missing_extra("numpy", "a feature", "lora") == ""


def test_no_file_installs_the_package_by_a_name_that_no_index_has():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout
    kinds = {".py", ".md", ".yaml", ".toml", ".ipynb", ".sh", ".sbatch"}
    files = [ROOT / n for n in names.splitlines() if Path(n).suffix in kinds]
    texts = {file: file.read_text() for file in files if file.is_file() and file != Path(__file__)}
    assert len(texts) > 500
    by_name = re.compile(r"(?:pip|uv|uvx) [^\n`]*(?<![\w/.-])trca(?:-interop)?\[")
    assert [str(f) for f, text in texts.items() if by_name.search(text)] == []


@pytest.mark.parametrize(
    ("package", "other"), [("ray", "2.50.0"), ("ray", "2.61.0"), ("torch", "2.12.1+cpu")]
)
def test_a_version_outside_the_range_is_named(monkeypatch, package, other):
    assert extras.missing_training() == ""
    true = extras.version
    monkeypatch.setattr(extras, "version", lambda name: other if name == package else true(name))
    lack = extras.missing_training()
    assert lack.startswith(f"training needs {package} ")
    assert f" and found {other}: pip install '.[train]' in a checkout of TRCA" in lack
    assert lack.count("found") == 1
