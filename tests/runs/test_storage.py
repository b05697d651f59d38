from pathlib import Path

import pytest
from pyarrow.fs import copy_files

from trca.runs import storage
from trca.runs.folder import RunFolder
from trca.tune_configs.files import ConfigError


def weights(text):
    return lambda folder: (folder / "weights").write_text(text)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes this process another machine, with a separate cache."""

    def become(name):
        monkeypatch.setenv("TRCA_CACHE", str(tmp_path / name))

    become("first")
    return become


@pytest.fixture
def uri(tmp_path):
    return f"file://{tmp_path}/bucket/runs"


@pytest.fixture
def run(machine, uri):
    run = RunFolder.create(uri, "mine")
    run.write_config({"algorithm": "GRPO"})
    for iteration, best in ((1, True), (2, False)):
        run.append_metrics({"iteration": iteration})
        run.save_checkpoint(iteration, weights(f"weights {iteration}"), best)
        run.set_status("running", iteration)
    return run


def test_another_machine_continues_a_stopped_run(machine, uri, run):
    machine("second")
    there = RunFolder.open(run.address)
    assert there.path != run.path
    assert there.read_config() == {"algorithm": "GRPO"}
    assert [row["iteration"] for row in there.metrics()] == [1, 2]
    assert (there.checkpoint("last") / "weights").read_text() == "weights 2"
    assert (there.checkpoint("best") / "weights").read_text() == "weights 1"
    there.save_checkpoint(3, weights("weights 3"), best=True)
    there.set_status("finished", 3)
    machine("first")
    back = RunFolder.open("mine", uri)
    assert (back.checkpoint("best") / "weights").read_text() == "weights 3"
    assert sorted(p.name for p in (back.path / "checkpoints").iterdir()) == [
        "best",
        "iteration_000003",
        "last",
    ]


def test_a_running_local_run_is_not_replaced_by_the_storage(uri, run):
    with run.locked():
        run.append_metrics({"iteration": 3})
        seen = RunFolder.open("mine", uri)
        assert len(seen.metrics()) == 3
        with pytest.raises(ConfigError, match="in use by process"), seen.locked():
            pass
    assert len(RunFolder.open("mine", uri).metrics()) == 2  # the pushed rows


def test_a_pull_removes_files_that_the_storage_does_not_have(tmp_path, uri, run):
    (run.path / "old").mkdir()
    (run.path / "old" / "file").touch()
    (run.path / "curve.png").touch()
    again = RunFolder.open("mine", uri)
    assert again.path == run.path
    assert not {"old", "curve.png"} & {path.name for path in again.path.iterdir()}
    assert again.checkpoint("last").name == "iteration_000002"


def test_the_index_of_a_checkpoint_in_shards_travels_and_drafts_do_not(machine, run):
    def shards(folder):
        for name in (".metadata", "__0_0.distcp", ".model.part"):
            (folder / name).write_text(name)

    run.save_checkpoint(3, shards, best=True)
    run.set_status("running", 3)
    machine("second")
    there = RunFolder.open(run.address).checkpoint()
    assert sorted(path.name for path in there.iterdir()) == [".metadata", "__0_0.distcp"]


def test_a_push_after_a_pull_copies_only_changes(machine, run, monkeypatch):
    machine("second")
    there = RunFolder.open(run.address)
    copied = []

    def noted(source, *arguments, **settings):
        copied.append(Path(source).name)
        copy_files(source, *arguments, **settings)

    monkeypatch.setattr(storage, "copy_files", noted)
    there.append_metrics({"iteration": 3})
    there.set_status("running", 3)
    assert sorted(copied) == ["metrics.jsonl", "status.json"]


def test_the_storage_has_only_plain_files(tmp_path, run):
    there = tmp_path / "bucket" / "runs" / "mine"
    (run.path / "logs").mkdir()
    (run.path / "logs" / "ray").symlink_to("/tmp", target_is_directory=True)
    with run.locked():
        run.set_status("running", 2)
    assert not [path for path in there.rglob("*") if path.is_symlink()]
    assert not (there / "lock").exists()
    assert not (there / "logs" / "ray").exists()


def test_changes_of_a_failed_push_are_not_lost(tmp_path, uri, run):
    bucket = tmp_path / "bucket"
    run.save_checkpoint(3, weights("weights 3"), best=True)
    bucket.rename(tmp_path / "gone")
    bucket.touch()
    with pytest.raises(ConfigError, match="the storage file://"):
        run.set_status("running", 3)
    bucket.unlink()
    (tmp_path / "gone").rename(bucket)
    again = RunFolder.open("mine", uri)
    assert (again.checkpoint("last") / "weights").read_text() == "weights 3"
    again.set_status("running", 3)
    assert (bucket / "runs/mine/checkpoints/last.link").read_text() == "iteration_000003"


def test_an_interrupted_push_leaves_the_last_checkpoint(tmp_path, machine, run, monkeypatch):
    run.save_checkpoint(3, weights("weights 3"), best=True)
    there = tmp_path / "bucket/runs/mine/checkpoints"
    there.joinpath("iteration_000003").touch()  # blocks the new checkpoint
    with pytest.raises(ConfigError):
        run.set_status("running", 3)
    there.joinpath("iteration_000003").unlink()
    machine("second")
    assert (RunFolder.open(run.address).checkpoint("last") / "weights").read_text() == "weights 2"


def test_a_name_on_the_storage_is_taken_on_every_machine(machine, uri, run):
    machine("second")
    assert RunFolder.exists("mine", uri)
    assert RunFolder.create(uri, "mine").name == "mine-2"
    with pytest.raises(ConfigError, match="runs/mine exists"):
        RunFolder.create(uri, "mine", numbered=False)


def test_the_error_for_a_missing_run_or_storage_names_it(machine, uri, run):
    with pytest.raises(ConfigError, match="no run 'mime': did you mean 'mine'"):
        RunFolder.open("mime", uri)
    with pytest.raises(ConfigError, match="the storage ftp://x/y"):
        RunFolder.open("mine", "ftp://x/y")
