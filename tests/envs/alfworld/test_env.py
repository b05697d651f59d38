"""`ALFWorldEnv` keeps the contract of text environments for any string."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.text_env import as_action

TASK = "small/train/heat-0012"


@pytest.fixture
def env():
    return ALFWorldEnv()


@pytest.fixture(scope="module")
def patient():
    """An environment with a very high step limit."""
    env = ALFWorldEnv(max_steps=10**9)
    env.reset(options={"task": TASK})
    return env


def test_the_first_observation_lists_the_room_and_the_task(env):
    observation, info = env.reset(options={"task": TASK})
    assert observation.startswith("-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of")
    assert observation.endswith(f"Your task is to: {info['task']}")
    assert info["task_id"] == TASK
    assert (info["split"], info["task_type"]) == ("train", "Heat")
    assert "go to microwave 1" in info["admissible_actions"]
    assert not {"parsed", "accepted", "won", "score", "rubric"} & set(info)


@given(st.text() | st.sampled_from(["go to fridge 1", "open fridge 1", "look", "inventory"]))
@settings(max_examples=300, deadline=None)
def test_any_string_is_answered(patient, action):
    observation, reward, terminated, truncated, info = patient.step(action)
    assert isinstance(observation, str)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["parsed"] == bool(as_action(action).strip())
    assert info["accepted"] == (observation != "Nothing happens.")


def test_many_environments_share_their_games():
    envs = [ALFWorldEnv() for _ in range(64)]
    for env in envs:
        env.reset(options={"task": TASK})
    assert len({id(env._simulator.game) for env in envs}) == 1
