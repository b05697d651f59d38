"""The error for a missing package or plug-in names the fix."""

import subprocess
import sys

import pytest

from trca.common import extras

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


@pytest.mark.parametrize(
    ("package", "other"), [("ray", "2.50.0"), ("ray", "2.61.0"), ("torch", "2.12.1+cpu")]
)
def test_a_version_outside_the_range_is_named(monkeypatch, package, other):
    assert extras.missing_training() == ""
    true = extras.version
    monkeypatch.setattr(extras, "version", lambda name: other if name == package else true(name))
    lack = extras.missing_training()
    assert lack.startswith(f"training needs {package} ")
    assert f" and found {other}: pip install 'trca[train]'" in lack
    assert lack.count("found") == 1
