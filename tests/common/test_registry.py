"""Objects by name, by file and by module, and the errors for wrong names."""

import sys

import pytest

from trca.common.registry import Registry, own_file, short_name

OWN = """
import math
from textwrap import dedent

def build(size=2):
    return size

class Toy: ...
"""


@pytest.fixture
def shelf():
    return Registry("engine", {"deque": "collections:deque", "plain": dict})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def test_a_name_gives_its_object_and_a_reference_is_imported_when_asked_for():
    shelf = Registry("engine", {"absent": "no.such.module:Engine", "plain": dict})
    assert shelf.names() == ("absent", "plain")
    assert shelf.get("plain") is dict
    with pytest.raises(ModuleNotFoundError):
        shelf.get("absent")


def test_registered_as_a_value_or_by_a_decorator(shelf):
    @shelf.register("mine")
    def mine(): ...

    shelf.register("list", list)
    assert shelf.get("mine") is mine
    assert shelf.get("list") is list
    assert "mine" in shelf
    assert "yours" not in shelf


def test_a_name_is_registered_once_but_a_definition_may_be_run_again(shelf):
    with pytest.raises(ValueError, match="engine 'plain' is already registered"):
        shelf.register("plain", list)
    cell = "def mine(): ..."
    for _ in range(2):
        names = {"__name__": "notebook"}
        exec(cell, names)
        shelf.register("mine", names["mine"])
    assert shelf.get("mine") is names["mine"]


def test_a_name_with_a_colon_is_refused(shelf):
    with pytest.raises(ValueError, match="colon"):
        shelf.register("file.py:mine", dict)


def test_a_users_object_is_found_by_file_and_by_module(shelf, file):
    assert shelf.get(f"{file}:build")() == 2
    assert shelf.get("collections:OrderedDict").__name__ == "OrderedDict"


def test_a_file_is_run_once_and_again_when_it_changed(shelf, file):
    first = shelf.get(f"{file}:Toy")
    assert shelf.get(f"{file}:Toy") is first
    file.write_text(OWN + "changed = True\n")
    assert shelf.get(f"{file}:Toy") is not first
    assert shelf.get(f"{file}:changed")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Deque", "unknown engine 'Deque': did you mean 'deque'.*or give path/to/file.py:NAME"),
        ("{own}", "names no object: write .*own.py:NAME"),
        ("{folder}/absent.py:Toy", r"no file .*absent\.py"),
        ("{own}:toy", r"own.py has no 'toy': did you mean 'Toy'\? Known: build, Toy"),
        ("no.such.module:Toy", "engine: cannot import 'no.such.module': ModuleNotFoundError"),
    ],
)
def test_the_error_for_an_unknown_object_names_the_nearest(shelf, file, name, message):
    with pytest.raises(ValueError, match=message):
        shelf.get(name.format(own=file, folder=file.parent))


def test_a_failing_file_gives_its_reason_and_leaves_no_module(shelf, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("1 / 0\n")
    with pytest.raises(ValueError, match=r"broken.py cannot be loaded: ZeroDivisionError"):
        shelf.get(f"{path}:build")
    assert not [name for name in sys.modules if name.startswith("trca_own_broken")]


def test_the_file_of_a_name():
    assert str(own_file("a/b.py:Toy")) == "a/b.py"
    assert own_file("package.module:Toy") is None
    assert own_file("trca") is None


def test_a_relative_file_is_found_from_a_trial_of_tune(tmp_path, monkeypatch):
    (tmp_path / "start").mkdir()
    (tmp_path / "trial").mkdir()
    (tmp_path / "start" / "own.py").write_text("def rule(batch): ...\n")
    monkeypatch.setenv("TUNE_ORIG_WORKING_DIR", str(tmp_path / "start"))
    monkeypatch.chdir(tmp_path / "trial")
    assert Registry("credit rule").get("own.py:rule").__name__ == "rule"


def test_a_name_is_read_without_the_folder_of_its_file():
    assert short_name("/a/b/env.py:Game") == "env.py:Game"
    for name in ("trca/ALFWorld-v0", "package.module:Game", "trca.envs:trca/ALFWorld-v0"):
        assert short_name(name) == name


def test_a_copy_of_a_file_is_the_same_module(tmp_path):
    rules = Registry("credit rule")
    text = "class Mine: ...\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "mine.py").write_text(text)
    (tmp_path / "a" / "mine.py").write_text(text)
    first = rules.get(f"{tmp_path}/mine.py:Mine")
    assert rules.get(f"{tmp_path}/a/mine.py:Mine") is first
    (tmp_path / "a" / "mine.py").write_text(text + "# changed\n")
    assert rules.get(f"{tmp_path}/a/mine.py:Mine") is not first
