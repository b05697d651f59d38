"""Dumps of verl, verl-agent and SkyRL become run folders that every command of runs reads."""

import json

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from foreign import LIBRARY, play
from trca.algorithms.rules.trca import trca as trca_rule
from trca.algorithms.settings.parameters import TextParameters
from trca.cli import app
from trca.records import StepBatch, read_rollouts
from trca.rubric import RubricLibrary
from trca.tune_configs.files import read
from trca_interop.dumps import dump_files, read_dump, write_dump

OPERATORS = RubricLibrary.load(LIBRARY).ids


def trca(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def line_of_verl(row, step=3):
    """A line as verl's ``_write_generations`` writes it."""
    group, rollout, annotation = row
    said = {"input": f"prompt {annotation['step']}", "output": f"<action>{annotation['action']}"}
    columns = {"uid": group, "traj_uid": rollout, "trca": annotation}
    return said | {"gts": None, "score": 0.0, "step": step} | columns


def write(path, lines):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(scope="module")
def played():
    return play(groups=3)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "rooms.yaml"
    settings = read("quickstart") | {"env": "tests.toy:Rooms", "env_config": {}}
    path.write_text(yaml.safe_dump(settings))
    return path


def test_a_dump_is_read_in_any_order_and_with_copies(played, tmp_path):
    rollouts, rows = played
    order = np.random.default_rng(0).permutation([*range(len(rows)), 0, 1])
    write(tmp_path / "3.jsonl", [line_of_verl(rows[k]) for k in order])
    found, prompts = read_dump(tmp_path / "3.jsonl", OPERATORS)
    by_name = {(r.task_id, tuple(s.observation for s in r.steps), r.won): r for r in found}
    assert len(found) == len(rollouts)
    assert prompts == [f"prompt {k}" for r in found for k in range(len(r.steps))]
    for rollout in rollouts:
        key = rollout.task_id.replace("train-", "task ")
        same = by_name[key, tuple(s.observation for s in rollout.steps), rollout.won]
        assert same.truncated == rollout.truncated
        assert same.last_observation == rollout.last_observation
        assert same.steps[0].response == f"<action>{same.steps[0].action}"


def test_the_commands_of_runs_read_an_imported_dump(played, config, tmp_path):
    rollouts, rows = played
    lines = [line_of_verl(row) for row in rows]
    write(tmp_path / "dump" / "3.jsonl", lines)
    write(tmp_path / "dump" / "global_step_10_training_input.jsonl", lines)
    done = trca(
        "import-dump", tmp_path / "dump", f"--config={config}", f"--storage-path={tmp_path}"
    )
    assert done.exit_code == 0, done.output
    assert f"24 rollouts with {2 * len(rows)} steps" in done.output
    run = tmp_path / "imported"
    settings = TextParameters.resolve(read(str(config)), "config", need_data=False)
    library = RubricLibrary.load(LIBRARY)
    batch = StepBatch.from_rollouts(rollouts, library.categories)
    wanted, rewards = trca_rule(batch, settings), batch.rubric_rewards(settings.budgets)
    for number in (3, 10):
        (path,) = run.glob(f"rollouts/iteration_{number:06d}/train.parquet")
        got = np.concatenate([rollout.advantages for rollout in read_rollouts(path)])
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)
        steps = [step for rollout in read_rollouts(path) for step in rollout.steps]
        assert [step.breakthrough for step in steps] == rewards.breakthrough.tolist()
    change = tmp_path / "change.json"
    done = trca("recredit", run, "--credit=gigpo", f"--output={change}")
    assert done.exit_code == 0, done.output
    assert json.loads(change.read_text())["iterations"] == [3, 10]
    assert trca("diagnose", run).exit_code == 0
    done = trca("view", run, f"--export={tmp_path / 'page.html'}")
    assert done.exit_code == 0, done.output
    done = trca("inspect", run, "--iteration=10", "--rollout=1")
    assert done.exit_code == 0, done.output


def test_a_line_without_ids_or_annotations_names_them(played, tmp_path):
    line = line_of_verl(played[1][0])
    plain = {k: v for k, v in line.items() if k not in ("uid", "traj_uid", "trca")}
    write(tmp_path / "1.jsonl", [plain])
    with pytest.raises(ValueError, match=r"line 1: this dump of verl lacks uid, traj_uid, trca"):
        read_dump(tmp_path / "1.jsonl")
    write(tmp_path / "1.jsonl", [{"input_prompt": "", "output_response": "", "score": 1.0}])
    with pytest.raises(ValueError, match=r"SkyRL's evaluation lacks uid.*dump_data_batch=true"):
        read_dump(tmp_path / "1.jsonl")
    short = {k: v for k, v in line["trca"].items() if k not in ("won", "reward")}
    write(tmp_path / "1.jsonl", [line | {"trca": short}])
    with pytest.raises(ValueError, match="line 1: the annotation lacks reward, won: write"):
        read_dump(tmp_path / "1.jsonl")
    write(tmp_path / "1.jsonl", [line | {"trca": json.dumps(line["trca"])}])
    with pytest.raises(ValueError, match=r"line 1 has .* as annotation"):
        read_dump(tmp_path / "1.jsonl")
    write(tmp_path / "1.jsonl", [line])
    with pytest.raises(ValueError, match="15 judgments, and the library has 2 operators"):
        read_dump(tmp_path / "1.jsonl", ("a", "b"))


def test_files_are_found_by_step(tmp_path):
    with pytest.raises(ValueError, match=r"has no .jsonl file"):
        dump_files(tmp_path)
    for name in ("10", "9", "global_step_11_training_input"):
        write(tmp_path / f"{name}.jsonl", [])
    assert list(dump_files(tmp_path)) == [9, 10, 11]
    assert list(dump_files(tmp_path / "9.jsonl")) == [9]
    write(tmp_path / "0011.jsonl", [])
    with pytest.raises(ValueError, match="are both of step 11"):
        dump_files(tmp_path)
    write(tmp_path / "trca_12.jsonl", [])
    assert list(dump_files(tmp_path)) == [12]


def test_files_without_steps_and_wrong_values_are_refused(played, config, tmp_path):
    line = line_of_verl(played[1][0])
    for lines in ([], [line | {"trca": []}]):
        write(tmp_path / "dump" / "1.jsonl", lines)
        done = trca("import-dump", tmp_path / "dump", f"--storage-path={tmp_path}")
        assert done.exit_code == 2
        assert "has no steps" in done.output
    wrong = [
        ("step", [0]),
        ("step", True),
        ("reward", float("nan")),
        ("reward", 10**400),
        ("reward", "1"),
        ("won", "false"),
        ("parsed", 0),
        ("context", 7),
        ("judgments", [2] + [0] * 14),
        ("judgments", [[0]] + [0] * 14),
        ("judgments", 5),
    ]
    for key, value in wrong:
        text = json.dumps(line | {"trca": line["trca"] | {key: value}})
        (tmp_path / "dump" / "1.jsonl").write_text(f"\n{text}\n")
        done = trca("import-dump", tmp_path / "dump", f"--config={config}", "--name=new")
        assert done.exit_code == 2, done.output
        assert f"line 2: {'the ' * (key == 'judgments')}{key}" in done.output
    assert not (tmp_path / "imported").exists()


def test_an_imported_run_has_every_setting(played, tmp_path):
    write(tmp_path / "dump" / "1.jsonl", [line_of_verl(row) for row in played[1]])
    (tmp_path / "mine.yaml").write_text("env: tests.toy:Rooms\nmodel: tiny\n")
    config = f"--config={tmp_path}/mine.yaml"
    done = trca("import-dump", tmp_path / "dump", config, f"--storage-path={tmp_path}")
    assert done.exit_code == 0, done.output
    done = trca("view", tmp_path / "imported", f"--export={tmp_path / 'page.html'}")
    assert done.exit_code == 0, done.output


def test_lines_that_are_no_json_or_no_text_are_named(played, config, tmp_path):
    line = line_of_verl(played[1][0])
    half = json.dumps(line | {"trca": line["trca"] | {"observation": "x\ud800"}})
    for text, problem in ((half, "which is no character"), ("[" * 99_999, "recursion")):
        (tmp_path / "1.jsonl").write_text(f"{json.dumps(line)}\n{text}\n")
        done = trca("import-dump", tmp_path / "1.jsonl", f"--config={config}", "--name=new")
        assert done.exit_code == 2, done.output
        assert "line 2: " in done.output
        assert problem in done.output
    done = trca("import-dump", tmp_path / "missing", f"--config={config}")
    assert "missing: there is no such file or folder" in done.output


def test_a_name_that_exists_is_refused(played, config, tmp_path):
    write(tmp_path / "1.jsonl", [line_of_verl(row) for row in played[1]])
    command = [
        "import-dump",
        tmp_path / "1.jsonl",
        f"--config={config}",
        f"--storage-path={tmp_path}",
    ]
    assert trca(*command, "--name=mine").exit_code == 0
    done = trca(*command, "--name=mine")
    assert done.exit_code == 2
    assert "mine" in done.output


def test_rows_with_whole_trajectories_of_one_length_are_written(tmp_path):
    steps = np.array([[{"step": 0}, {"step": 1}], [{"step": 0}, {"step": 1}]], dtype=object)
    write_dump(tmp_path / "1.jsonl", ["g", "g"], ["a", "b"], steps)
    lines = [json.loads(line) for line in (tmp_path / "1.jsonl").read_text().splitlines()]
    assert [line["trca"] for line in lines] == [[{"step": 0}, {"step": 1}]] * 2
