"""The list of planted faults keeps up with the source."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "planted_faults.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("planted_faults", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted_faults"] = module
    spec.loader.exec_module(module)
    return module


def test_every_fault_finds_the_text_it_replaces(script, tmp_path):
    for fault in script.FAULTS:
        source = SCRIPT.parents[1] / "trca" / fault.file
        copy = tmp_path / "trca" / fault.file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(source.read_text())
        script.plant(tmp_path, fault)
        assert copy.read_text() != source.read_text()
        assert (SCRIPT.parents[1] / fault.tests).is_file()


def test_a_fault_whose_text_is_gone_is_named(script, tmp_path):
    fault = script.Fault("a lost word", "gone.py", "old", "new", "tests")
    with pytest.raises(ValueError, match=r"'a lost word': trca/gone\.py has 0 times"):
        script.plant(tmp_path, fault)
