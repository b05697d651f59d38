"""A small sweep, an environment for sweeps, and the processes of sweeps."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
import yaml

SWEEP = {
    "base": "quickstart",
    "set": {
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "iterations": 1,
        "evaluation_interval": 5,
        "evaluation_tasks": 2,
        "tasks_per_iteration": 1,
        "group_size": 2,
        "env_config.max_steps": 2,
        "max_new_tokens": 4,
        "max_prompt_tokens": 160,
        "num_env_runners": 0,
        "num_learners": 0,
    },
    "grid": {"algorithm": ["TRCA", "GRPO"]},
    "seeds": [0],
    "side_by_side": 2,
}

COMMAND = [sys.executable, "-m", "trca", "sweep"]

EASY = """
from trca.envs.text_env import Outcome, TextEnv


class Easy(TextEnv):
    def __init__(self, split="train", max_steps=1, ease=0.5):
        super().__init__(split, max_steps)
        self._ease = ease

    @property
    def task_ids(self):
        return tuple(f"{self.split}-{number}" for number in range(10))

    instruction = "say anything."
    task_type = "Easy"
    admissible_actions = ("anything",)

    def start_task(self, task_id, options):
        self._easy = int(task_id.rpartition("-")[2]) < 10 * self._ease
        return "You are free to speak."

    def take_action(self, action):
        return Outcome("It was easy." if self._easy else "It was hard.", float(self._easy), True)
"""
"""An environment with the share of easy tasks as a setting: the success follows from the point."""

EASY_RUN = {
    "algorithm": "GRPO",
    "env": "easy.py:Easy",
    "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
    "tracking": [],
    "iterations": 2,
    "evaluation_tasks": 4,
    "tasks_per_iteration": 10,
    "group_size": 2,
    "max_new_tokens": 4,
    "max_prompt_tokens": 512,
}


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **more}


def started(command, env=None):
    """A process whose output is read through a pipe."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env or environment(),
    )


def finish(command, env=None):
    """Runs a command to its end."""
    env = env or environment()
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=1800)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def succeed(command, env=None):
    """Runs a command to its successful end, and returns its output."""
    done = finish(command, env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kill_once(command, condition):
    """Kills a process and all processes of its session once the condition holds."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env=environment(), start_new_session=True
    )
    while process.poll() is None and not condition():
        time.sleep(0.01)
    assert process.poll() is None, "the process ended before it was killed"
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def play(run, rates, state="finished", key="success_rate"):
    """Writes the metrics and the state of a training."""
    run.path.mkdir(parents=True, exist_ok=True)
    for iteration, rate in enumerate(rates, start=1):
        row = {"iteration": iteration, "trajectories": 32 * iteration, key: rate}
        run.append_metrics(row)
    run.set_status(state, len(rates))


@pytest.fixture
def sweep(tmp_path):
    """Writes a sweep; returns the commands that start and resume the sweep."""

    def command(**changes):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(SWEEP | changes))
        start = [*COMMAND, f"--storage-path={tmp_path}/runs"]
        return [*start, str(path)], [*start, "--resume=mine"]

    return command
