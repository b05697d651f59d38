"""Vectors and numbered actions, and RLlib's PPO on them."""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import InvalidAction
from gymnasium.spaces import Text
from gymnasium.utils.env_checker import check_env

from trca.envs import ActionChoice, make
from trca.envs.choice import hashed_words
from trca.envs.demonstrations import Demonstrations

PPO_ITERATIONS = 30
NAMES = ("alfworld", "webshop", "searchqa", "examples/plain_key_door.py:KeyDoor")


@pytest.mark.filterwarnings("error", "ignore:.*different from the unwrapped version")
@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_finds_nothing_wrong(name: str) -> None:
    check_env(ActionChoice(make(name)), skip_render_check=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_number_takes_the_admissible_action_of_that_place(name: str) -> None:
    text, numbers = make(name), ActionChoice(make(name))
    observation, info = text.reset(seed=3)
    _, seen = numbers.reset(seed=3)
    rng = np.random.default_rng(5)
    over = False
    while not over:
        assert seen["text"] == observation
        assert seen["admissible_actions"] == info["admissible_actions"]
        number = int(rng.integers(len(info["admissible_actions"])))
        action = info["admissible_actions"][number].replace("<your query>", info["task"])
        action = action.replace("<your answer>", info["task"])
        observation, reward, *ended, info = text.step(action)
        _, paid, *over_too, seen = numbers.step(np.int64(number))
        assert (paid, over_too) == (reward, ended)
        over = any(ended)


def test_the_observation_is_instruction_memory_text_actions_and_mask() -> None:
    env = ActionChoice(make("alfworld"), choices=40, size=32)
    vector, info = env.reset(seed=0)
    admissible = info["admissible_actions"]
    assert vector.shape == (43 * 32 + 40,)
    parts = vector[: 43 * 32].reshape(43, 32)
    assert np.array_equal(parts[0], hashed_words(info["task"], 32))
    assert np.array_equal(parts[2], hashed_words(info["text"], 32))
    for place, action in enumerate(admissible):
        assert np.array_equal(parts[3 + place], hashed_words(action, 32))
    assert not parts[3 + len(admissible) :].any()
    assert vector[-40:].tolist() == [1.0] * len(admissible) + [0.0] * (40 - len(admissible))


def test_a_number_beyond_the_admissible_actions_is_not_accepted() -> None:
    env = ActionChoice(make("alfworld"), choices=64)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(np.int64(63))
    assert not info["parsed"]
    assert not info["accepted"]
    assert (reward, terminated, truncated) == (0.0, False, False)


class Labels(gymnasium.Env[str, str]):
    """A plain game that offers texts with brackets, control characters and one blank."""

    observation_space = action_space = Text(99)
    open_actions = ("say <your word>",)
    offers = ("pick <basic>", "pick 6 <10> 12", "pick 6\x94 x 9\x94", "say <your word>")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "a label", {"task": "the task", "admissible_actions": list(self.offers)}

    def step(self, action):
        return action, 0.0, False, False, {"admissible_actions": list(self.offers)}

    def demonstrator_action(self):
        return "pick <basic>"


def test_an_offered_action_is_sent_as_it_is_and_only_a_declared_blank_is_filled() -> None:
    for isolation in ("none", "process"):
        env = ActionChoice(make(Labels, isolation=isolation))
        env.reset(seed=0)
        sent = [env.step(np.int64(number))[-1]["text"] for number in range(4)]
        assert sent == [*Labels.offers[:3], "say the task"]
        env.close()


def test_a_random_demonstration_sends_an_offered_action_as_it_is() -> None:
    env = Demonstrations(make(Labels), randomness=1.0, draw=random.Random(0))
    _, info = env.reset()
    drawn = set()
    for _ in range(24):
        drawn.add(info["demonstration"].action)
        *_, info = env.step("look")
    assert set(Labels.offers[:3]) < drawn


@pytest.mark.parametrize("action", [-1, np.int64(-1), 48, 1.9, None, np.array([2]), "look"])
def test_an_action_outside_the_space_is_refused(action: Any) -> None:
    env = ActionChoice(make("alfworld"))
    env.reset(seed=0)
    with pytest.raises(InvalidAction, match="give a whole number from 0 to 47"):
        env.step(action)


def test_more_actions_than_choices_say_what_to_set() -> None:
    env = ActionChoice(make("alfworld"), choices=3)
    with pytest.raises(
        ValueError, match=r"has \d+ admissible actions, but choices is 3: set choices="
    ):
        env.reset(seed=0)
    with pytest.raises(ValueError, match="give 1 or more"):
        ActionChoice(make("alfworld"), choices=0)


def test_words_are_hashed_without_case_and_counted() -> None:
    both = hashed_words("red key, red KEY door", 512)
    assert np.array_equal(both, hashed_words("door key key red red", 512))
    assert np.isclose(np.linalg.norm(both), 1.0)
    assert np.allclose(sorted(abs(both[both != 0])), np.array([1, 2, 2]) / 3)
    assert not hashed_words("...", 8).any()


def test_stock_ppo_trains_a_policy_for_each_agent(cluster: Any) -> None:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.multi_agent_env import make_multi_agent

    doors = make_multi_agent(
        lambda _: ActionChoice(make("examples/plain_key_door.py:KeyDoor"), choices=6, size=32)
    )
    config = (
        PPOConfig()
        .environment(doors, env_config={"num_agents": 2})
        .env_runners(num_env_runners=0)
        .multi_agent(policies={"0", "1"}, policy_mapping_fn=lambda agent, *_, **__: str(agent))
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
    )
    algorithm = config.build_algo()
    try:
        result = algorithm.train()
    finally:
        algorithm.stop()
    assert result["env_runners"]["agent_episode_returns_mean"].keys() == {"0", "1"}
    assert all(result["learners"][policy]["num_module_steps_trained"] for policy in ("0", "1"))


@pytest.mark.slow
def test_stock_ppo_learns_to_open_the_door(cluster: Any) -> None:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.tune.registry import register_env

    register_env(
        "key-door-choice",
        lambda _: ActionChoice(make("examples/plain_key_door.py:KeyDoor"), choices=6, size=32),
    )
    config = (
        PPOConfig()
        .environment("key-door-choice")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .learners(num_learners=0)
        .training(
            train_batch_size_per_learner=1024, minibatch_size=128, num_epochs=8, lr=1e-3,
            entropy_coeff=0.01,
        )
        .debugging(seed=0)
    )  # fmt: skip
    algorithm = config.build_algo()
    try:
        returns = [
            algorithm.train()["env_runners"]["episode_return_mean"] for _ in range(PPO_ITERATIONS)
        ]
    finally:
        algorithm.stop()
    assert returns[0] < 0.3
    assert returns[-1] > 0.8
