"""The user's files: relative names become absolute, and a run reads its copies."""

import shutil

import pytest

from trca.runs.folder import RunFolder
from trca.runs.own_files import keep
from trca.tune_configs.files import ConfigError, absolute, read


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory: a user's folder with a rule, a library and an environment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.py").write_text("def mine(batch): ...\n")
    (tmp_path / "rubric.yaml").write_text("environment: mine\n")
    (tmp_path / "env.py").write_text("class Mine:\n    library = 'rubric.yaml'\n")
    (tmp_path / "policy").mkdir()
    return tmp_path


def test_relative_names_of_existing_files_become_absolute(folder):
    settings = {
        "credit": "rule.py:mine",
        "env": "env.py:Mine",
        "model": "./policy",
        "env_config": {"library": "rubric.yaml", "games": "small", "retriever": {"at": "rule.py"}},
        "algorithm": "TRCA",
        "lr": 1.0,
    }
    resolved = absolute(settings)
    assert resolved["credit"] == f"{folder}/rule.py:mine"
    assert resolved["env"] == f"{folder}/env.py:Mine"
    assert resolved["model"] == f"{folder}/policy"
    assert resolved["env_config"] == {
        "library": f"{folder}/rubric.yaml",
        "games": "small",
        "retriever": {"at": f"{folder}/rule.py"},
    }
    assert (resolved["algorithm"], resolved["lr"]) == ("TRCA", 1.0)


def test_a_word_is_not_replaced_by_a_file_of_that_name(folder):
    (folder / "small").mkdir()
    assert absolute({"games": "small"}) == {"games": "small"}
    assert absolute({"model": "Qwen/Qwen3-0.6B"}) == {"model": "Qwen/Qwen3-0.6B"}


def test_a_config_names_files_relative_to_its_folder(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "own.yaml").write_text("credit: theirs.py:rule\nenv_config: {library: l.yaml}\n")
    (elsewhere / "theirs.py").write_text("")
    (elsewhere / "l.yaml").write_text("")
    settings = read(elsewhere / "own.yaml")
    assert settings["credit"] == f"{elsewhere}/theirs.py:rule"
    assert settings["env_config"] == {"library": f"{elsewhere}/l.yaml"}


@pytest.fixture
def run(folder):
    """A run with the user's files."""
    settings = {"credit": "rule.py:mine", "env": "env.py:Mine", "model": "policy"}
    run = RunFolder.create(folder / "runs", "mine")
    run.write_settings(absolute(settings))
    return run


def test_a_run_keeps_copies_with_hashes_and_reads_them(folder, run):
    record = run.own_files()
    assert set(record) == {"files/rule.py", "files/env.py", "files/rubric.yaml"}
    assert record["files/rule.py"]["from"] == f"{folder}/rule.py"
    assert len(record["files/rule.py"]["sha256"]) == 64
    (folder / "rule.py").unlink()
    assert run.read_config()["credit"] == f"{run.path}/files/rule.py:mine"


def test_a_moved_run_reads_its_copies(folder, run, tmp_path_factory):
    there = tmp_path_factory.mktemp("there") / "moved"
    shutil.move(run.path, there)
    shutil.rmtree(folder)
    settings = RunFolder(there).read_config()
    assert settings["credit"] == f"{there}/files/rule.py:mine"
    assert settings["env"] == f"{there}/files/env.py:Mine"
    assert read(there / "config.yaml")["credit"] == f"{there}/files/rule.py:mine"


def test_writing_a_run_s_settings_again_changes_nothing(run):
    record, settings = run.own_files(), run.read_config()
    run.write_settings(settings)
    assert (run.own_files(), run.read_config()) == (record, settings)


def test_the_error_for_a_changed_or_missing_copy_names_the_copy(run):
    copy = run.path / "files" / "rule.py"
    copy.write_text("def other(batch): ...\n")
    with pytest.raises(
        ConfigError, match=r"rule\.py differs from the file at the start of the run"
    ):
        run.read_config()
    copy.unlink()
    with pytest.raises(ConfigError, match=r"rule\.py is missing"):
        run.read_config()


def test_two_files_with_the_same_name_are_both_copied(folder):
    (folder / "a").mkdir()
    (folder / "a" / "rule.py").write_text("# another\n")
    run = RunFolder.create(folder / "runs", "two")
    kept = keep(absolute({"credit": "rule.py:mine", "env": "a/rule.py:Env"}), run.path)
    assert kept == {"credit": "files/rule.py:mine", "env": "files/2/rule.py:Env"}
    assert (run.path / "files" / "2" / "rule.py").read_text() == "# another\n"


def test_libraries_with_equal_names_in_python_files_keep_their_names(folder):
    (folder / "a").mkdir()
    (folder / "a" / "rubric.yaml").write_text("environment: theirs\n")
    run = RunFolder.create(folder / "runs", "two")
    settings = {"env_config": {"library": "a/rubric.yaml"}, "env": "env.py:Mine"}
    kept = keep(absolute(settings), run.path)
    assert kept["env_config"] == {"library": "files/2/rubric.yaml"}
    assert (run.path / "files" / "rubric.yaml").read_text() == "environment: mine\n"
    assert (run.path / "files" / "2" / "rubric.yaml").read_text() == "environment: theirs\n"


def test_two_environments_with_equally_named_libraries_keep_both(folder):
    (folder / "a").mkdir()
    shutil.copy(folder / "env.py", folder / "a" / "other.py")
    (folder / "a" / "rubric.yaml").write_text("environment: theirs\n")
    run = RunFolder.create(folder / "runs", "two")
    settings = absolute({"env": "env.py:Mine", "credit": "a/other.py:Mine"})
    kept = keep(settings, run.path)
    copies = [run.path / text.partition(":")[0] for text in kept.values()]
    libraries = [copy.with_name("rubric.yaml").read_text() for copy in copies]
    assert libraries == ["environment: mine\n", "environment: theirs\n"]
    assert len(run.own_files()) == 4
    run.write_settings(settings)
    record = run.own_files()
    run.write_settings(run.read_config())
    assert run.own_files() == record


@pytest.mark.parametrize("named", [False, True])
def test_a_library_in_a_folder_beside_a_python_file_keeps_its_place(folder, named):
    (folder / "data").mkdir()
    (folder / "data" / "deep.yaml").write_text("environment: deep\n")
    (folder / "deep.py").write_text('library = "data/deep.yaml"\n')
    run = RunFolder.create(folder / "runs", "deep")
    library = {"env_config": {"library": "data/deep.yaml"}} if named else {}
    kept = keep(absolute({**library, "env": "deep.py:Mine"}), run.path)
    assert kept["env"] == "files/deep.py:Mine"
    assert (run.path / "files" / "data" / "deep.yaml").read_text() == "environment: deep\n"
    assert not named or kept["env_config"]["library"] == "files/data/deep.yaml"
