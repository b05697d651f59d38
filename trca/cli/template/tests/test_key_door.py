"""Tests of the environment and its rubric."""

from typing import Any

import gymnasium
import key_door
import pytest
from gymnasium.utils.env_checker import check_env

from trca.envs.check import self_check
from trca.envs.library_report import measure


@pytest.fixture
def env() -> Any:
    assert key_door  # the import registers the environment
    return gymnasium.make("key_door/KeyDoor-v0")


def test_gymnasium_finds_nothing_wrong(env: Any) -> None:
    check_env(env.unwrapped, skip_render_check=True)


def test_an_unknown_split_or_task_is_refused(env: Any) -> None:
    for split in ("valid", "tset"):
        with pytest.raises(ValueError, match=f"unknown split '{split}': choose train or test"):
            gymnasium.make("key_door/KeyDoor-v0", split=split)
    with pytest.raises(ValueError, match="no task 'train-64' in split 'train'"):
        env.reset(options={"task": "train-64"})


def test_the_oracle_wins_and_episodes_repeat(env: Any) -> None:
    report = self_check(env, env.unwrapped.task_ids[:16])
    assert report.ok, report.problems


def test_every_operator_of_the_rubric_fires_and_none_always(env: Any) -> None:
    report = measure(env, env.unwrapped.task_ids[:32])
    assert not [text for text in report.problems if "fire together" not in text]
    coverage = {name: agent.coverage for name, agent in report.agents.items()}
    assert coverage["oracle"] > coverage["random"]
