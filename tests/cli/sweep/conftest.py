"""A small sweep, and an environment for sweeps."""

import sys

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


@pytest.fixture
def sweep(tmp_path):
    """Writes a sweep; returns the commands that start and resume the sweep."""

    def command(**changes):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(SWEEP | changes))
        start = [sys.executable, "-m", "trca", "sweep", f"--storage-path={tmp_path}/runs"]
        return [*start, str(path)], [*start, "--resume=mine"]

    return command
