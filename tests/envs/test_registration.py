"""Environments by name, in every process."""

from trca.envs.registration import creator


def test_a_relative_file_is_found_from_the_folder_of_a_trial(tmp_path, monkeypatch):
    """Ray Tune starts a trial in a folder of its own."""
    (tmp_path / "mine.py").write_text(
        "from trca.envs.alfworld.env import ALFWorldEnv\n\n\nclass Mine(ALFWorldEnv): ...\n"
    )
    (tmp_path / "trial").mkdir()
    monkeypatch.setenv("TUNE_ORIG_WORKING_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path / "trial")
    make = creator("mine.py:Mine")
    monkeypatch.delenv("TUNE_ORIG_WORKING_DIR")  # as in an env runner elsewhere
    monkeypatch.chdir(tmp_path)
    assert type(make(split="train").unwrapped).__name__ == "Mine"
