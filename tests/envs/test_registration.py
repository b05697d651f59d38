"""Environments by name, in every process."""

import pickle
import subprocess
import sys

import gymnasium
import pytest

from trca.common.registry import load_file
from trca.envs import register
from trca.envs.registration import creator

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
