"""Gymnasium's and RLlib's environment checks, on environments with default settings."""

import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.wrappers import PassiveEnvChecker

from trca.common.registry import load_file
from trca.envs import register
from trca.envs.registration import PACKAGED

EXAMPLES = Path(__file__).parents[2] / "examples"
register("test/JudgedKeyDoor-v0", load_file(EXAMPLES / "key_door" / "key_door" / "env.py").KeyDoor)
register("test/PlainKeyDoor-v0", load_file(EXAMPLES / "plain_key_door.py").KeyDoor)
EXAMPLE_IDS = ("test/JudgedKeyDoor-v0", "test/PlainKeyDoor-v0")
IDS = (*PACKAGED, *EXAMPLE_IDS)
WORKERS = {"vectorization_mode": "async", "vector_kwargs": {"shared_memory": False}}

pytestmark = pytest.mark.parametrize("name", IDS)


def draws(name, seed):
    """A generator of actions that depend on observations only."""
    rng = np.random.default_rng(seed)

    def act(admissible):
        return str(rng.choice(list(admissible) or ["look"]))

    return act


def restarted(env):
    """The observation and info of a vector in the step after an episode's last step."""
    observation, info = env.reset()
    return observation, 0.0, False, False, info


@pytest.mark.filterwarnings("error", "ignore:.*different from the unwrapped version")
def test_gymnasium_finds_nothing_wrong_with_what_it_makes(name):
    made = gymnasium.make(name)
    assert made.has_wrapper_attr("judge") == (name != "test/PlainKeyDoor-v0")
    check_env(made, skip_render_check=name in EXAMPLE_IDS)


@pytest.mark.filterwarnings("error")
def test_an_episode_under_gymnasiums_passive_checks_warns_of_nothing(name):
    made = gymnasium.make(name)
    layer = made
    while not isinstance(layer, PassiveEnvChecker):
        layer = layer.env
    _, info = made.reset(seed=1)
    act, over = draws(name, 1), False
    while not over:
        _, _, terminated, truncated, info = made.step(act(info["admissible_actions"]))
        over = terminated or truncated


def test_a_seed_repeats_tasks_and_episodes_in_another_copy(name):
    def played():
        env = gymnasium.make(name)
        act, results = draws(name, 2), []
        for seed in (5, None, None):
            results.append(env.reset(seed=seed))
            over = False
            while not over:
                results.append(env.step(act(results[-1][-1]["admissible_actions"])))
                over = results[-1][2] or results[-1][3]
        return results

    assert data_equivalence(played(), played(), exact=True)


@pytest.mark.parametrize("options", [{}, WORKERS])
def test_a_vector_plays_what_its_environments_play_alone(name, options):
    """Plays at least two episodes, since a vector resets an environment after an episode."""
    vector = gymnasium.make_vec(name, num_envs=2, **options)
    alone = [gymnasium.make(name) for _ in range(2)]
    observations, info = vector.reset(seed=[3, 4])
    single = [env.reset(seed=seed) for env, seed in zip(alone, (3, 4), strict=True)]
    act, ended = draws(name, 3), np.zeros(2, bool)
    episodes = 0
    while episodes < 3:
        assert tuple(observations) == tuple(each[0] for each in single)
        shown = [each[-1] for each in single]
        for key in ("task_id", "context", "memory", "admissible_actions"):
            assert list(info[key]) == [each[key] for each in shown], key
        actions = tuple(act(each["admissible_actions"]) for each in shown)
        observations, rewards, terminated, truncated, info = vector.step(actions)
        single = [
            restarted(env) if over else env.step(action)
            for env, action, over in zip(alone, actions, ended, strict=True)
        ]
        assert rewards.tolist() == [each[1] for each in single]
        ended = terminated | truncated
        assert ended.tolist() == [each[2] or each[3] for each in single]
        episodes += int(ended.sum())
    vector.close()


def test_rllib_finds_nothing_wrong(name):
    """RLlib checks multi-agent environments only; its wrapper makes two agents of this one.

    RLlib's runner for single agents mistakes a batch of texts, a tuple, for a tuple of
    observations.
    """
    pytest.importorskip("ray")
    from ray.rllib.env.multi_agent_env import make_multi_agent
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        env = make_multi_agent(name)({"num_agents": 2})
        check_multiagent_environments(env)
