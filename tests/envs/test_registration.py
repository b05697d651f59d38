"""Environments by name, in every process."""

import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from trca.common.registry import load_file
from trca.envs import make, register
from trca.envs.registration import creator
from trca.envs.retrieval.passages import CorpusError
from trca.envs.retrieval.storage import StoredDataError
from trca.envs.searchqa.data.questions import QuestionFileError, QuestionsMissingError
from trca.envs.webshop.data.jsonfile import DataFileError
from trca.envs.webshop.data.sources import CatalogueMissingError

MINE = "from trca.envs.alfworld.env import ALFWorldEnv\n\n\nclass Mine(ALFWorldEnv): ...\n"
IN_ANOTHER_PROCESS = """
import pickle, sys
from trca.envs import make
maker = pickle.load(sys.stdin.buffer)
for env in (maker(split="train"), make("test/Mine-v0", split="train")):
    assert type(env.unwrapped).__name__ == "Mine"
"""


def test_a_relative_file_is_found_from_the_folder_of_a_trial(tmp_path, monkeypatch):
    """Ray Tune starts a trial in a separate folder."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "trial").mkdir()
    monkeypatch.setenv("TUNE_ORIG_WORKING_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path / "trial")
    make = creator("mine.py:Mine")
    monkeypatch.delenv("TUNE_ORIG_WORKING_DIR")  # as in an env runner elsewhere
    monkeypatch.chdir(tmp_path)
    assert type(make(split="train").unwrapped).__name__ == "Mine"


def test_a_class_out_of_a_file_is_known_by_its_id_in_another_process(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    register("test/Mine-v0", load_file(tmp_path / "mine.py").Mine)
    program = [sys.executable, "-c", IN_ANOTHER_PROCESS]
    done = subprocess.run(program, input=pickle.dumps(creator("test/Mine-v0")), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_a_wrong_argument_is_named_with_the_nearest_argument():
    for name in ("trca.envs:trca/ALFWorld-v0", "trca/ALFWorld-v0"):
        with pytest.raises(ValueError, match=r"no argument 'game': did you mean 'games'\?"):
            gymnasium.make(name, game="small")
    with pytest.raises(ValueError, match="WebShopEnv has no argument 'catalog': did you mean"):
        gymnasium.make("trca/WebShop-v0", catalog="small")
    assert gymnasium.make("trca/ALFWorld-v0", render_mode="ansi").render_mode == "ansi"


MAKERS = """
from tests.toy import Rooms


class Levels(Rooms):
    def __init__(self, level=1, **kwargs):
        super().__init__(**kwargs)
        self.level = level


def fixed():
    return Rooms()


def chosen(split="train"):
    return Rooms(split=split)
"""


def test_a_function_that_makes_a_text_environment_gets_its_arguments_or_refuses_them(tmp_path):
    file = tmp_path / "makers.py"
    file.write_text(MAKERS)
    assert make(f"{file}:chosen", split="test").unwrapped.split == "test"
    assert make(f"{file}:fixed").unwrapped.split == "train"
    with pytest.raises(ValueError, match="makes a text environment without 'split'"):
        make(f"{file}:fixed", split="test")


def test_a_text_environment_keeps_the_arguments_of_its_registration(tmp_path, monkeypatch):
    (tmp_path / "levels.py").write_text(MAKERS)
    monkeypatch.syspath_prepend(tmp_path)
    gymnasium.register("tests/Hard-v0", entry_point="levels:Levels", kwargs={"level": 3})
    try:
        assert make("tests/Hard-v0").unwrapped.level == 3
        assert make("tests/Hard-v0", level=5).unwrapped.level == 5
    finally:
        gymnasium.registry.pop("tests/Hard-v0")


@pytest.mark.parametrize(
    "error",
    [
        DataFileError(Path("a"), "broken"),
        CatalogueMissingError(Path("a"), "missing"),
        StoredDataError(Path("a"), "changed"),
        CorpusError(Path("a"), 3, "no text"),
        QuestionFileError(Path("a"), "no answer", 3),
        QuestionsMissingError(Path("a"), "missing"),
    ],
)
def test_an_error_of_data_reads_the_same_from_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
