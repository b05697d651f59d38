import errno
import resource
import signal

import pytest

from trca.common.files import write_text
from trca.runs.folder import RunFolder, run_name
from trca.tune_configs.files import ConfigError


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path, "run")


def test_a_damaged_file_is_named(run):
    (run.path / "status.json").write_text('{"state": "fin')
    with pytest.raises(ConfigError, match=r"status.json is damaged .*restore the file"):
        run.status()
    (run.path / "config.yaml").write_bytes(b"seed: \xff")
    with pytest.raises(ConfigError, match=r"config.yaml is damaged .*restore the file"):
        run.read_config()


def weights(text):
    return lambda folder: (folder / "weights").write_text(text)


def test_a_taken_name_gets_a_number_and_a_name_given_by_hand_is_never_overwritten(tmp_path):
    made = [RunFolder.create(tmp_path, "quickstart").name for _ in range(3)]
    assert made == ["quickstart", "quickstart-2", "quickstart-3"]
    run = RunFolder.create(tmp_path, "mine", numbered=False)
    with pytest.raises(
        ConfigError, match="exists: choose another --name, or delete the folder, unless"
    ):
        RunFolder.create(tmp_path, "mine", numbered=False)
    run.write_config({})
    with pytest.raises(
        ConfigError, match="exists: choose another --name, or continue the run: --resume"
    ):
        RunFolder.create(tmp_path, "mine", numbered=False)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "-\n", "run@best"])
def test_a_name_that_is_no_folder_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="use letters"):
        RunFolder.create(tmp_path, name)


def test_a_run_is_found_by_name_and_by_path(tmp_path, run):
    run.write_config({"lr": 4e-4, "env_config": {"games": "small"}})
    assert RunFolder.open("run", tmp_path).read_config() == {
        "lr": 4e-4,
        "env_config": {"games": "small"},
    }
    assert RunFolder.open(run.path).name == "run"
    with pytest.raises(ConfigError, match="no run 'rum': did you mean 'run'"):
        RunFolder.open("rum", tmp_path)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("quickstart", "quickstart"),
        ("paper/alfworld_qwen2.5_1.5b", "alfworld_qwen2.5_1.5b"),
        ("mine/of.today.yaml", "of.today"),
        ("outputs/quickstart/config.yaml", "quickstart"),
    ],
)
def test_a_run_is_named_after_its_config(config, name):
    assert run_name(config) == name


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_metrics_survive_a_line_that_was_cut_off_and_rewinding_deletes_later_iterations(run):
    for iteration in (1, 2, 3):
        run.append_metrics({"iteration": iteration})
        (run.rollouts(iteration) / "train.parquet").touch()
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 4, "succ')
    assert [row["iteration"] for row in run.metrics()] == [1, 2, 3]
    run.rewind(2)
    assert [row["iteration"] for row in run.metrics()] == [1, 2]
    assert names(run.path / "rollouts") == ["iteration_000001", "iteration_000002"]


def test_the_best_and_the_last_checkpoint_are_kept(run):
    for iteration, best in ((1, True), (2, True), (3, False), (4, False)):
        run.save_checkpoint(iteration, weights(str(iteration)), best)
    assert (run.checkpoint("best") / "weights").read_text() == "2"
    assert (run.checkpoint("last") / "weights").read_text() == "4"
    assert run.checkpoint_iteration("best") == 2
    kept = ["best", "iteration_000002", "iteration_000004", "last"]
    assert names(run.path / "checkpoints") == kept


def test_the_error_for_a_run_without_checkpoint_names_the_fix(run):
    with pytest.raises(ConfigError, match="no checkpoint yet"):
        run.checkpoint()
    run.save_checkpoint(1, weights("1"), best=False)
    with pytest.raises(ConfigError, match=r"best of an evaluation yet: use .*@last"):
        run.checkpoint("best")


def test_a_failed_checkpoint_leaves_the_last_checkpoint(run):
    run.save_checkpoint(1, weights("whole"), best=True)

    def half(folder):
        (folder / "weights").write_text("ha")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        run.save_checkpoint(2, half, best=True)
    assert (run.checkpoint("last") / "weights").read_text() == "whole"
    assert run.checkpoint("best") == run.checkpoint("last")
    assert names(run.path / "checkpoints") == ["best", "iteration_000001", "last"]


@pytest.fixture
def small_files():
    """Limits files to 64 kB, as on a nearly full disk."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("small_files")
def test_a_disk_that_is_full_keeps_the_last_checkpoint_and_the_status(run):
    run.save_checkpoint(1, weights("w" * 1000), best=True)
    run.set_status("running", 1)
    with pytest.raises(OSError, match="File too large"):
        run.save_checkpoint(2, weights("w" * 100_000), best=True)
    with pytest.raises(OSError, match="File too large"):
        write_text(run.path / "status.json", "x" * 100_000)
    assert (run.checkpoint("last") / "weights").read_text() == "w" * 1000
    assert run.read_json("status.json")["iteration"] == 1
    assert not list(run.path.glob(".status*"))


def test_a_checkpoint_interrupted_by_a_kill_is_ignored(run):
    run.save_checkpoint(1, weights("whole"), best=True)
    draft = run.path / "checkpoints" / ".iteration_000002.part"
    draft.mkdir()
    (draft / "weights").write_text("ha")
    assert run.checkpoint_iteration() == 1
    run.save_checkpoint(2, weights("two"), best=False)
    assert [p.name for p in run.checkpoint("last").iterdir()] == ["weights"]
    assert not draft.exists()
