import dataclasses
import re
import zipfile
from pathlib import Path
from shutil import copytree

import pytest

from tests.cli.calls import done, refused, trca
from trca.envs.registration import env_class
from trca.rubric import RubricLibrary
from trca.rubric.conditions import field_meanings, field_terms


def show(library, columns):
    """What ``trca rubric show`` prints into a pipe of so many columns, as one line of words."""
    output = done("rubric", "show", library, env={"COLUMNS": str(columns)})
    assert max(map(len, output.splitlines())) <= columns
    return " ".join(output.split())


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("library", ["alfworld", "webshop", "searchqa"])
def test_show_loses_nothing_of_a_library_in_a_narrow_pipe(library, columns):
    output = show(library, columns)
    for operator in RubricLibrary.load(library).operators:
        for part in (operator.id, operator.category, operator.description, operator.condition):
            assert " ".join(part.split()) in output


@pytest.mark.parametrize("environment", ["alfworld", "webshop", "searchqa"])
def test_every_fact_and_binding_field_is_listed_with_type_and_meaning(environment):
    adapter = env_class(environment).adapter_class
    output = " ".join(trca("rubric", "facts", environment).output.split())
    for prefix, record in (("facts", adapter.facts_type), ("task", adapter.binding_type)):
        meanings = field_meanings(record)
        assert list(meanings) == [field.name for field in dataclasses.fields(record)]
        for name, term in field_terms(prefix, record).items():
            assert f"{name} {term.kind}" in output
            meaning = meanings[name.partition(".")[2]]
            assert all(part in output for part in re.split(r"`+[^`]+`+", meaning))
    assert "one of '', " in output
    assert "`" not in output


def test_facts_of_an_unknown_environment_name_the_nearest():
    assert "did you mean 'alfworld'" in refused("rubric", "facts", "alfwurld")


def test_check_accepts_a_sound_library_and_names_what_is_wrong_with_another(tmp_path):
    assert trca("rubric", "check").exit_code == 0
    path = tmp_path / "mine.yaml"
    path.write_text("environment: alfworld\noperators: []\n")
    assert "mine.yaml: no evidence operator" in refused("rubric", "check", str(path))


KEY_DOOR = Path(__file__).parents[3] / "examples" / "key_door" / "key_door"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("budgets=5", "budgets is 5: give a number for each category"),
        ("budgets={1: 2}", "unknown budget '1'"),
        ("lambda_=abc", "lambda is 'abc': give a number from 0 to 1"),
        ("team=alfworld_planner", "the agents play alone: leave team out"),
    ],
)
def test_an_argument_that_makes_no_sense_is_one_line(value, words):
    assert words in refused("rubric", "check", "alfworld", "--env=alfworld", "--set", value)


def test_an_environment_that_raises_while_it_is_measured_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copytree(KEY_DOOR, tmp_path / "game")
    env = tmp_path / "game" / "env.py"
    text = env.read_text()
    env.write_text(
        text.replace(
            "def oracle_action(self) -> str:",
            "def oracle_action(self):\n        raise KeyError('boom')\n\n    def other(self):",
        )
    )
    assert env.read_text() != text
    command = "rubric", "check", "game/rubric.yaml", "--env", "game/env.py:KeyDoor"
    words = refused(*command, code=1)
    assert "boom" in words
    assert "outputs/logs/rubric.log" in words


def test_names_with_brackets_are_printed_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    library = Path("my[old].yaml")
    library.write_text((KEY_DOOR / "rubric.yaml").read_text())
    assert str(library) in done("rubric", "check", library, f"--env={KEY_DOOR}/env.py:KeyDoor")
    assert "cd 'p [old]/game'" in done("new-env", "game", "--to", "p [old]")


def test_control_characters_of_a_library_do_not_reach_the_terminal(tmp_path):
    text = (KEY_DOOR / "rubric.yaml").read_text()
    first = re.search("description: (.*)", text)[1]
    library = tmp_path / "odd.yaml"
    library.write_text(text.replace(first, '"\\e]0;title\\a\\e[2J gone"', 1))
    shown = trca("rubric", "show", str(library)).output
    assert "\x1b" not in shown
    assert r"\x1b]0;title\x07\x1b[2J gone" in shown


def test_a_broken_archive_of_games_is_refused(tmp_path):
    archive = tmp_path / "games.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("readme.txt", "nothing here")
    words = refused("data", "alfworld", "--from", str(archive), "--to", str(tmp_path / "games"))
    assert "no games in this archive" in words
