"""The error for a missing package or plug-in names the fix."""

import subprocess
import sys

import pytest

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
