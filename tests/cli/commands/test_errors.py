"""The error that ends a run is one line: the cause, and the file with the trace."""

import json
import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.calls import done, refused, trca
from trca.common.errors import words

SMALL = [
    "--model=shrunk:Qwen/Qwen2.5-1.5B-Instruct",
    "--iterations=1",
    "--set=tasks_per_iteration=1",
    "--set=group_size=2",
    "--set=env_config.max_steps=2",
    "--set=max_new_tokens=4",
    "--set=max_prompt_tokens=160",
    "--set=evaluation_tasks=1",
    "--set=num_env_runners=0",
    "--set=num_learners=0",
]


@pytest.fixture
def train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return trca("train", "quickstart", *SMALL, *arguments)

    return run


def one_line(text):
    lines = [line for line in text.splitlines() if line.startswith("error:")]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set=num_learners=1", "--set=num_gpus_per_learner=1"], "asks for 1 GPU and"),
        (["--set=max_prompt_tokens=10"], "max_prompt_tokens is 10"),
        (["--set=credit=rule.py:mine"], "needs weight"),
        (["--model=empty"], "model is 'empty'"),
        (["--storage-path=rule.py"], "a file is in the way"),
        (["--storage-path=rule.py/runs"], "a file is in the way"),
        (["--storage-path=/proc/runs"], "cannot write to /proc/runs"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_made(train, tmp_path, arguments, message):
    (tmp_path / "rule.py").write_text("def mine(batch, weight): ...\n")
    (tmp_path / "empty").mkdir()
    result = train(*arguments)
    assert result.exit_code == 2, result.output
    assert message in one_line(result.output)
    made = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}  # of rule.py
    assert made == {"empty", "rule.py"}


def test_a_sweep_and_a_run_are_no_configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs" / "mine").mkdir(parents=True)
    (tmp_path / "outputs" / "mine" / "config.yaml").write_text("iterations: 1\n")
    for arguments, message in (
        (["train", "sweeps/lambda"], "sweeps/lambda is a sweep: start it with trca sweep"),
        (
            ["train", "outputs/mine"],
            "outputs/mine is a run and no config: name outputs/mine/config.yaml",
        ),
        (
            ["inspect", "outputs"],
            "outputs is not a run: it has no config.yaml. A run in it: outputs/",
        ),
    ):
        output = refused(*arguments)
        assert message in one_line(output)


@contextmanager
def full_disk(most=0):
    """No file may grow past so many bytes, as on a full disk; before and after any may."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_before_any_checkpoint_claims_no_saved_iteration(train):
    with full_disk():
        result = train()
    assert result.exit_code == 2
    assert "free space there. Nothing is saved" in one_line(result.output)
    assert "Iteration 0" not in result.output


def test_a_disk_that_is_full_at_the_checkpoint_says_what_to_do_and_the_run_goes_on(train, cluster):
    with full_disk(300_000):
        result = train()
    assert result.exit_code == 1
    assert "error: the disk is full" in result.output
    assert "free space there. Log: outputs/quickstart/logs/output.log" in result.output
    assert "Nothing is saved yet. Resume: trca train --resume" in result.output
    status = json.loads(Path("outputs/quickstart/status.json").read_text())
    assert status["state"] == "failed"
    output = done("train", "--resume=quickstart")
    assert "1/1" in output


@pytest.mark.slow
def test_a_run_whose_every_group_is_missing_ends_with_the_first_reason_and_the_log(
    train, tmp_path, cluster
):
    (tmp_path / "down.py").write_text(
        "from trca.envs.alfworld.env import ALFWorldEnv\n"
        "class Down(ALFWorldEnv):\n"
        "    def step(self, action):\n"
        "        raise RuntimeError('the simulator does not answer')\n"
    )
    result = train("--env=down.py:Down", "--iterations=4", "--set=num_env_runners=1")
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if line.startswith("error:")]
    assert "task 'small/train/" in line
    place = "(in Down, at down.py:4 in step)"
    assert f"the simulator does not answer {place} (every rollout is missing" in line
    assert "Log: outputs/quickstart/logs/output.log" in line
    logs = tmp_path / "outputs/quickstart/logs"
    log = (logs / "output.log").read_text()
    assert "raise RuntimeError('the simulator does not answer')" in log  # of the runner's process
    assert (logs / "env_runner_1.err").is_file()


def test_an_error_in_training_is_one_line_with_the_log_and_a_status_in_words(
    train, tmp_path, cluster
):
    (tmp_path / "rule.py").write_text("def mine(batch):\n    raise KeyError('no such column')\n")
    result = train("--set", "credit=rule.py:mine")
    assert result.exit_code == 1
    line = one_line(result.output)
    assert "KeyError: 'no such column'" in line
    assert "Log: outputs/quickstart/logs/output.log" in line
    assert "Nothing is saved yet. Resume: trca train --resume outputs/quickstart" in (result.output)
    status = json.loads((tmp_path / "outputs/quickstart/status.json").read_text())
    assert status["state"] == "failed"
    rule = "in credit rule rule.py:mine, at rule.py:2 in mine"
    assert status["message"] == f"KeyError: 'no such column' ({rule})"
    log = (tmp_path / "outputs/quickstart/logs/output.log").read_text()
    assert "Traceback" in log
    assert "rule.py" in log


def test_an_error_that_ray_wrapped_is_told_in_the_words_of_its_cause():
    from ray.exceptions import RayTaskError

    trace = (
        "\x1b[36mray::Runner.sample()\x1b[39m (pid=1)\n  File 'x.py'\nValueError: out of \x1b[1mx\n"
    )
    assert words(RayTaskError("sample", trace, ValueError("out of\nx"))) == "out of x"
    assert words(RuntimeError(trace)) == "ValueError: out of x"
    assert words(TypeError("a\nb")) == "TypeError: a b"
    assert words(AssertionError()) == "AssertionError"


def test_a_run_in_use_is_refused_and_names_the_process(tmp_path):
    from trca.runs.folder import RunFolder

    run = RunFolder.create(tmp_path, "mine")
    run.write_settings({"algorithm": "GRPO"})
    with run.locked():
        assert f"is in use by process {os.getpid()}" in refused("train", f"--resume={run.path}")
    with run.locked():
        pass


def test_a_run_that_trains_no_action_says_so_and_names_the_commands_that_show_why(train, cluster):
    result = train()
    assert result.exit_code == 0, result.output
    assert "iteration 1 trained no action: no response contains a readable" in result.output
    end = result.output[result.output.rindex("1/1") :]
    assert "warning: only 0% of the responses contain a readable action" in end
    advice = end[end.index("What next:") :]
    for command in ("diagnose", "inspect", "view"):
        assert f"trca {command} outputs/quickstart" in advice
