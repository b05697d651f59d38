"""The rules and tables equal those of the package ``alfworld``."""

import json
import runpy
from pathlib import Path

import pytest

from trca.envs.alfworld import resources

THERE = Path(pytest.importorskip("alfworld").__file__).parent
TABLES = json.loads((Path(resources.__file__).parent / "data/rules/tables.json").read_text())


def test_domain_and_grammar_are_alfworlds():
    assert (THERE / "data" / "alfred.pddl").read_text() == resources.DOMAIN
    assert (THERE / "data" / "alfred.twl2").read_text() == resources.GRAMMAR


def test_tables_are_alfworlds():
    theirs = runpy.run_path(str(THERE / "gen" / "constants.py"))
    assert TABLES["objects"] == theirs["OBJECTS"]
    for ours, name in (
        ("receptacle_objects", "VAL_RECEPTACLE_OBJECTS"),
        ("action_objects", "VAL_ACTION_OBJECTS"),
    ):
        assert {k: set(v) for k, v in TABLES[ours].items()} == {
            k: set(v) for k, v in theirs[name].items()
        }
    assert set(TABLES["openable"]) == theirs["OPENABLE_CLASS_SET"]
    assert set(TABLES["movable_receptacles"]) == theirs["MOVABLE_RECEPTACLES_SET"]


def test_goals_are_alfworlds():
    theirs = runpy.run_path(str(THERE / "gen" / "goal_library.py"))["gdict"]
    for name, goal in TABLES["goals"].items():
        assert goal == {key: theirs[name][key] for key in goal}
