"""`ALFWorldEnv` keeps the contract of text environments, whatever string it is given."""

import copy
import gc
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.text_env import UNPARSED

TASK = "small/train/heat-0012"


@pytest.fixture
def env():
    return ALFWorldEnv()


@pytest.fixture(scope="module")
def patient():
    """An environment with room for very many steps."""
    env = ALFWorldEnv(max_steps=10**9)
    env.reset(options={"task": TASK})
    return env


def transcript(env, task, seed, meanwhile=lambda: None):
    rng = random.Random(seed)
    observation, info = env.reset(options={"task": task})
    said = [observation, *info["admissible_actions"]]
    over = False
    while not over:
        meanwhile()
        observation, _, terminated, truncated, info = env.step(
            rng.choice([*info["admissible_actions"], "nonsense"])
        )
        said += [observation, *info["admissible_actions"], str(info["accepted"])]
        over = terminated or truncated
    return said


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


def test_the_step_limit_truncates(env):
    env.reset(options={"task": TASK})
    ends = [env.step("look")[2:4] for _ in range(25)]
    assert ends == [(False, False)] * 24 + [(False, True)]
    with pytest.raises(ResetNeeded, match="over"):
        env.step("look")


def test_a_step_needs_a_reset(env):
    for call in (lambda: env.step("look"), env.oracle_action, env.demonstrator_action):
        with pytest.raises(ResetNeeded, match="reset"):
            call()


@pytest.mark.parametrize("blank", [UNPARSED, " ", "\n\t", "\u2003"])
def test_a_blank_command_is_not_parsed_and_nothing_happens(env, blank):
    _, before = env.reset(options={"task": TASK})
    observation, reward, terminated, _, info = env.step(blank)
    assert observation == "Nothing happens."
    assert (reward, terminated, info["parsed"], info["accepted"]) == (0.0, False, False, False)
    assert info["admissible_actions"] == before["admissible_actions"]


@pytest.mark.parametrize("garbage", ["\0", "GO TO microwave 1", "go to microwave 99", "x" * 2**20])
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
    assert info["parsed"] == bool(action.strip())
    assert info["accepted"] == (observation != "Nothing happens.")


def test_equal_commands_give_equal_episodes(env):
    other = ALFWorldEnv()
    for number, task in enumerate(env.task_ids[:6]):
        assert transcript(env, task, number) == transcript(other, task, number)


def test_environments_that_share_a_game_do_not_disturb_each_other(env):
    other = ALFWorldEnv(max_steps=10**9)
    other.reset(options={"task": TASK})

    def play_the_other():
        if other.step(other.oracle_action())[2]:
            other.reset(options={"task": TASK})

    assert transcript(ALFWorldEnv(), TASK, 0, play_the_other) == transcript(env, TASK, 0)


def test_environments_in_threads_play_as_they_do_alone(env):
    tasks = env.task_ids[:16]
    alone = [transcript(env, task, 0) for task in tasks]
    with ThreadPoolExecutor(8) as threads:
        together = threads.map(lambda task: transcript(ALFWorldEnv(), task, 0), tasks)
        assert list(together) == alone


def test_a_seed_draws_the_same_tasks(env):
    def drawn(seed):
        first = env.reset(seed=seed)[1]["task_id"]
        return [first, *(env.reset()[1]["task_id"] for _ in range(4))]

    assert drawn(3) == drawn(3)
    assert len({tuple(drawn(seed)) for seed in range(4)}) == 4


def test_the_info_of_a_step_is_the_callers_own(env):
    _, info = env.reset(options={"task": TASK})
    offered = copy.copy(info["admissible_actions"])
    info["admissible_actions"].clear()
    assert env.step("nonsense")[4]["admissible_actions"] == offered


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


def test_render_tells_the_episode(env):
    assert env.render() is None
    env = ALFWorldEnv(render_mode="ansi")
    observation, _ = env.reset(options={"task": TASK})
    answer = env.step("inventory")[0]
    assert env.render() == f"{observation}\n\n> inventory\n{answer}"


def test_gymnasium_finds_nothing_to_complain_about():
    check_env(ALFWorldEnv(), skip_render_check=True)


def test_many_environments_share_their_games():
    from trca.envs.alfworld.simulator import Game

    envs = [ALFWorldEnv() for _ in range(64)]
    for env in envs:
        env.reset(options={"task": TASK})
    assert len({id(env._simulator.game) for env in envs}) == 1
    gc.collect()
    assert sum(isinstance(thing, Game) for thing in gc.get_objects()) <= 80


FRESH = """
import sys, gymnasium
env = gymnasium.make("trca.envs:trca/ALFWorld-v0", games="small", split="valid_unseen")
observation, info = env.reset(seed=0)
while True:
    observation, reward, terminated, truncated, info = env.step(env.unwrapped.oracle_action())
    assert len(info["rubric"]["judgments"]) == 15
    if terminated or truncated:
        break
assert info["won"]
import trca.envs
print(sorted({"torch", "ray", "transformers", "textworld", "alfworld"} & set(sys.modules)))
"""


def test_gymnasium_makes_the_world_with_no_import_of_ours_and_nothing_heavy():
    fresh = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, check=False
    )
    assert fresh.returncode == 0, fresh.stderr
    assert fresh.stdout.strip() == "[]"


def test_a_made_environment_can_be_made_again_from_its_spec():
    env = gymnasium.make("trca/ALFWorld-v0", split="valid_seen", max_steps=7)
    again = gymnasium.make(env.spec)
    assert again.unwrapped.split == "valid_seen"
    assert again.unwrapped.max_steps == 7
    assert str(again) == str(env)
