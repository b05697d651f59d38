"""`ALFWorldEnv` keeps the contract of text environments for any string."""

import gc
import random

import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.text_env import UNPARSED, as_action

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


def transcript(env, task, seed, meanwhile=lambda: None):
    rng = random.Random(seed)
    observation, info = env.reset(options={"task": task})
    texts = [observation, *info["admissible_actions"]]
    over = False
    while not over:
        meanwhile()
        observation, _, terminated, truncated, info = env.step(
            rng.choice([*info["admissible_actions"], "nonsense"])
        )
        texts += [observation, *info["admissible_actions"], str(info["accepted"])]
        over = terminated or truncated
    return texts


def test_the_first_observation_lists_the_room_and_the_task(env):
    observation, info = env.reset(options={"task": TASK})
    assert observation.startswith("-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of")
    assert observation.endswith(f"Your task is to: {info['task']}")
    assert info["task_id"] == TASK
    assert (info["split"], info["task_type"]) == ("train", "Heat")
    assert "go to microwave 1" in info["admissible_actions"]
    assert not {"parsed", "accepted", "won", "score", "rubric"} & set(info)


def test_success_ends_the_episode_with_reward_one(env):
    env.reset(options={"task": TASK})
    rewards, terminated = [], False
    while not terminated:
        _, reward, terminated, truncated, info = env.step(env.oracle_action())
        assert not truncated
        assert info["score"] == reward == float(terminated)
        rewards.append(reward)
    assert sum(rewards) == 1.0
    assert info["won"] is True
    with pytest.raises(ResetNeeded, match="over"):
        env.step("look")


@pytest.mark.parametrize("blank", [UNPARSED, " ", "\n\t", "\u2003"])
def test_a_blank_command_is_not_parsed_and_nothing_happens(env, blank):
    _, before = env.reset(options={"task": TASK})
    observation, reward, terminated, _, info = env.step(blank)
    assert observation == "Nothing happens."
    assert (reward, terminated, info["parsed"], info["accepted"]) == (0.0, False, False, False)
    assert info["admissible_actions"] == before["admissible_actions"]


@pytest.mark.parametrize(
    "garbage", ["ｌｏｏｋ", "GO TO microwave 1", "go to microwave 99", "x" * 2**20]
)
def test_garbage_is_parsed_and_not_accepted(env, garbage):
    env.reset(options={"task": TASK})
    observation, _, _, _, info = env.step(garbage)
    assert (observation, info["parsed"], info["accepted"]) == ("Nothing happens.", True, False)


@given(st.text() | st.sampled_from(["go to fridge 1", "open fridge 1", "look", "inventory"]))
@settings(max_examples=2000, deadline=None)
def test_any_string_is_answered(patient, action):
    observation, reward, terminated, truncated, info = patient.step(action)
    assert isinstance(observation, str)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["parsed"] == bool(as_action(action).strip())
    assert info["accepted"] == (observation != "Nothing happens.")


def test_environments_that_share_a_game_do_not_disturb_each_other(env):
    other = ALFWorldEnv(max_steps=10**9)
    other.reset(options={"task": TASK})

    def play_the_other():
        if other.step(other.oracle_action())[2]:
            other.reset(options={"task": TASK})

    assert transcript(ALFWorldEnv(), TASK, 0, play_the_other) == transcript(env, TASK, 0)


def test_the_panel_names_split_and_tasks(env):
    assert env.panel.environment == "trca/ALFWorld-v0"
    assert env.panel.task_ids == env.task_ids
    assert env.panel.hash == ALFWorldEnv().panel.hash
    assert env.panel.hash != ALFWorldEnv(split="valid_seen").panel.hash
    assert env.panel.hash != ALFWorldEnv("small-1").panel.hash


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"games": "smal"}, "did you mean 'small'"),
        ({"split": "valid"}, "Known: train, valid_seen, valid_unseen"),
        ({"task_types": ["Clear"]}, "did you mean 'Clean'"),
        ({"max_steps": 0}, "give 1 or more"),
        ({"render_mode": "human"}, "Known: ansi"),
    ],
)
def test_unknown_choices_list_the_known_ones(kwargs, message):
    with pytest.raises(ValueError, match=message):
        ALFWorldEnv(**kwargs)


def test_an_unknown_task_names_the_nearest(env):
    with pytest.raises(ValueError, match="did you mean 'small/train/heat-0012'"):
        env.reset(options={"task": "small/train/heat-012"})
    with pytest.raises(ValueError, match="unknown task of split 'train'"):
        env.reset(options={"task": "small/valid_seen/heat-0000"})


def test_many_environments_share_their_games():
    from trca.envs.alfworld.simulator import Game

    envs = [ALFWorldEnv() for _ in range(64)]
    for env in envs:
        env.reset(options={"task": TASK})
    assert len({id(env._simulator.game) for env in envs}) == 1
    gc.collect()
    assert sum(isinstance(thing, Game) for thing in gc.get_objects()) <= 80
