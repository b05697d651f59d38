"""Metrics and rollouts in real trackers, read from the trackers' files."""

import json
import struct

import numpy as np
import pytest

from tests.cli.commands.test_inspect import played
from trca.algorithms.settings.parameters import TextParameters
from trca.cli.preflight.preflight import Preflight
from trca.envs import make
from trca.runs.folder import RunFolder
from trca.runs.trackers import Tracking, as_markdown, missing_trackers, sample
from trca.tune_configs.files import ConfigError, assign, read
from trca.tune_configs.run_parameters import TRACKERS

SECRETS = {
    "MLFLOW_TRACKING_PASSWORD": "mlflow-sesame",
    "MLFLOW_TRACKING_TOKEN": "token-sesame",
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdefsesame00",
    "HF_TOKEN": "hf_sesame",
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A folder for all trackers. Some trackers read their environment only once per process."""
    folder = tmp_path_factory.mktemp("stores")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_DIR", str(folder))
        patch.setenv("WANDB__SERVICE_WAIT", "300")  # W&B's process starts late on a busy machine
        patch.setenv("WANDB_INIT_TIMEOUT", "300")
        patch.setenv("TRACKIO_DIR", f"{folder}/trackio")
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        yield folder


@pytest.fixture(scope="module")
def rollouts():
    """Four successful rollouts and a failed rollout."""
    env = make("alfworld")
    task = env.get_wrapper_attr("task_ids")[0]
    made = [played(env, task) for _ in range(4)]
    lost = played(env, task)
    lost.won, lost.steps = False, lost.steps[:1]
    for each in [*made, lost]:
        each.advantages = np.full(len(each.steps), 0.5)
    return [*made, lost]


def settings(*trackers, **changes):
    given = {"tracking": list(trackers), "iterations": 3, **changes}
    return TextParameters.resolve(assign(read("quickstart"), given), "quickstart")


def mlflow_store(folder, name):
    from mlflow import MlflowClient, artifacts

    client = MlflowClient()
    experiment = client.get_experiment_by_name("trca")
    runs = [r for r in client.search_runs([experiment.experiment_id]) if r.info.run_name == name]
    (run,) = runs
    run_id = run.info.run_id
    history = {
        key: [(each.step, each.value) for each in client.get_metric_history(run_id, key)]
        for key in run.data.metrics
    }
    paths = [each.path for each in client.list_artifacts(run_id, "rollouts")]
    text = artifacts.load_text(f"runs:/{run_id}/{paths[0]}")
    return run_id, history, run.data.params["lr"], len(paths), text


def wandb_records(path):
    """Yields the records of W&B's file: LevelDB's log format, one protocol buffer per record."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, position, parts = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def wandb_store(folder, name):
    import wandb

    wandb.teardown()  # W&B's service writes the last records when it stops
    history, ids, rates, tables = {}, set(), [], 0
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        records = list(wandb_records(path))
        (run,) = (r.run for r in records if r.HasField("run"))
        if run.display_name != name:
            continue
        ids.add(run.run_id)
        rates += [i.value_json for i in run.config.update if i.key == "lr"]
        for record in records:
            row = {i.key or ".".join(i.nested_key): i.value_json for i in record.history.item}
            for key, value in row.items():
                if key == "rollouts._type":
                    tables += 1
                elif not key.startswith(("_", "rollouts", "turns")):
                    history.setdefault(key, []).append((int(row["_step"]), json.loads(value)))
    (run_id,) = ids
    kept = "wandb/offline-run-*/files/media/table"
    text = next(folder.glob(f"{kept}/rollouts_*.json")).read_text()
    turns = json.loads(next(folder.glob(f"{kept}/turns_*.json")).read_text())
    assert turns["columns"][-5:] == ["response", "r^F", "r^B", "A", "operators"]
    row = dict(zip(turns["columns"], turns["data"][0], strict=True))
    assert (row["turn"], row["A"]) == (0, 0.5)
    assert row["observation"]
    assert any(each[-1] for each in turns["data"])
    return run_id, history, rates[0], tables, text


def trackio_store(folder, name):
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    (run,) = [r for r in trackio.Api().runs("trca") if r.name.startswith(f"{name}-")]
    history, tables, text = {}, 0, ""
    for row in SQLiteStorage.get_logs("trca", run.name):
        for key, value in row.items():
            if key == "rollouts":
                tables, text = tables + 1, text + json.dumps(value)
            elif key.startswith("rollout_"):
                said = value["messages"][2]
                assert (said["role"], said["metadata"]["A"]) == ("assistant", 0.5)
                assert {"turn", "r^F", "r^B", "operators"} <= said["metadata"].keys()
            elif key == "turns":
                assert value["_type"] == "trackio.table"
            elif key not in ("step", "timestamp"):
                history.setdefault(key, []).append((row["step"], value))
    return run.name, history, str(run.config["lr"]), tables, text


def tensorboard_store(folder, name):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / name / "tensorboard"))
    events.Reload()
    history = {
        key: [(each.step, pytest.approx(each.value)) for each in events.Scalars(key)]
        for key in events.Tags()["scalars"]
    }
    texts = events.Tensors("rollouts/text_summary")
    return "", history, None, len(texts), texts[0].tensor_proto.string_val[0].decode()


STORES = {
    "tensorboard": tensorboard_store,
    "mlflow": mlflow_store,
    "wandb": wandb_store,
    "trackio": trackio_store,
}


def row(iteration):
    return {"iteration": float(iteration), "success_rate": iteration / 10, "operators/pass@1": 0.5}


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_tracker_has_metrics_and_rollouts_and_a_resumed_run_continues_in_the_tracker(
    tracker, stores, rollouts
):
    name = f"run-{tracker}"
    run, messages = RunFolder.create(stores, name), []
    trackers = Tracking(settings(tracker), run, 0, messages.append)
    trackers.log(row(1), rollouts, 1)
    trackers.log(row(2), rollouts, 2)
    trackers.close(ended=False)
    trackers = Tracking(settings(tracker), run, 1, messages.append)
    trackers.log(row(2), rollouts, 2)  # the run was killed before the checkpoint of iteration 2
    trackers.log(row(3), rollouts, 3)
    trackers.close(ended=True)
    assert messages == []
    key, history, rate, samples, text = STORES[tracker](stores, name)
    assert history["success_rate"] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert len(history) == 3
    assert samples == 2  # first and last iteration
    assert rollouts[0].steps[0].observation.splitlines()[0] in text.replace("\\n", "\n")
    assert rate is None or float(rate) == settings().lr
    record = run.read_json("tracking.json")
    assert record == ({tracker: {"run": key, "iteration": 3}} if key else None)


def test_nothing_secret_is_written(stores):
    files = [path for path in stores.rglob("*") if path.is_file()]
    assert {"mlflow.db", "trca.db", "tracking.json"} <= {path.name for path in files}
    assert any(path.suffix == ".wandb" for path in files)
    for path in files:
        data = path.read_bytes()
        assert not [name for name, value in SECRETS.items() if value.encode() in data], path


def test_a_failing_tracker_is_reported_once_and_does_not_stop_another_tracker(stores, rollouts):
    import wandb

    run, messages = RunFolder.create(stores, "failing"), []
    trackers = Tracking(settings("wandb", "tensorboard"), run, 0, messages.append)
    trackers.log(row(1), rollouts, 1)
    wandb.finish()
    trackers.log(row(2), rollouts, 2)
    trackers.log(row(3), rollouts, 3)
    trackers.close(True)
    (line,) = messages
    assert line.startswith("wandb failed, training continues: ")
    assert len(tensorboard_store(stores, "failing")[1]["success_rate"]) == 3
    assert run.read_json("tracking.json")["wandb"]["iteration"] == 1


def test_a_password_in_the_address_of_a_server_is_refused(stores, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:mlflow-sesame@127.0.0.1:9")
    run = RunFolder.create(stores, "with_password")
    with pytest.raises(ValueError, match="MLFLOW_TRACKING_PASSWORD") as refused:
        Tracking(settings("mlflow"), run, 0, print)
    assert "sesame" not in str(refused.value)


def test_a_tracker_that_cannot_start_closes_all_started_trackers(stores):
    import mlflow

    run = RunFolder.create(stores, "refused")
    (run.path / "tensorboard").write_text("a file in place of the folder of event files")
    with pytest.raises(OSError, match="tensorboard"):
        Tracking(settings("mlflow", "tensorboard"), run, 0, print)
    assert mlflow.active_run() is None
    key = run.read_json("tracking.json")["mlflow"]["run"]
    assert mlflow.get_run(key).info.status == "KILLED"


def test_a_trial_is_in_its_sweeps_group(stores, rollouts):
    from mlflow import MlflowClient

    sweep = RunFolder.create(stores, "lambda")
    trial = RunFolder.create(sweep.path / "trials", "001_lambda-0.2")
    trial.write_json("trial.json", {"sweep": "lambda"})
    trackers = Tracking(settings("mlflow"), trial, 0, print)
    trackers.log(row(1), rollouts, 1)
    trackers.close(ended=True)
    run = MlflowClient().get_run(trial.read_json("tracking.json")["mlflow"]["run"])
    assert run.data.tags["sweep"] == "lambda"
    assert run.info.status == "FINISHED"


def test_a_sample_has_at_most_two_successful_and_two_failed_rollouts(rollouts):
    shown = sample(rollouts, 7)
    assert [each["won"] for each in shown] == [True, True, False]
    text = as_markdown(shown)
    assert f"lost, score {rollouts[-1].score:g}, 1 steps" in text
    assert rollouts[0].instruction in text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["mflow"], "tracking is .*unknown tracker 'mflow': did you mean 'mlflow'"),
        (["wandb", "wandb"], "name each tracker once"),
        ("mlflow", "tracking is 'mlflow'"),
    ],
)
def test_an_unknown_tracker_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        TextParameters.resolve(assign(read("quickstart"), {"tracking": given}), "mine")


def test_a_tracker_that_is_not_installed_names_its_extra(monkeypatch):
    there = __import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "trca.common.extras.find_spec", lambda name: None if name == "wandb" else there(name)
    )
    lack = "tracking: wandb needs wandb: pip install '.[wandb]' in a checkout of TRCA"
    assert missing_trackers(TRACKERS) == [lack]
    with pytest.raises(ConfigError) as error:
        Preflight(settings("wandb")).check()
    assert str(error.value) == lack
    assert lack in Preflight(settings("wandb")).lacks()
