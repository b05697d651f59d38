"""Gymnasium's vector environments accept every environment."""

import gymnasium
import pytest

import trca.envs  # noqa: F401 (registers the environments)

IDS = ("trca/ALFWorld-v0", "trca/WebShop-v0", "trca/SearchQA-v0")
ACTIONS = ("look", "search[mug]", "search[Ada Balan]", "", "\ud800 é\n")


def play(vector):
    """The observations, rewards, ends and memory lines of several steps."""
    observations, info = vector.reset(seed=7)
    seen = [(observations, tuple(info["memory"]))]
    for action in ACTIONS:
        observations, rewards, ended, cut, info = vector.step((action,) * vector.num_envs)
        seen.append((observations, rewards.tolist(), ended.tolist(), cut.tolist()))
        seen.append((tuple(info["context"]), tuple(info["memory"])))
    vector.close()
    return seen


@pytest.mark.parametrize("env_id", IDS)
def test_an_async_vector_shows_what_the_sync_one_shows(env_id):
    sync = play(gymnasium.make_vec(env_id, num_envs=2))
    options = {"shared_memory": False}
    vector = gymnasium.make_vec(
        env_id, num_envs=2, vectorization_mode="async", vector_kwargs=options
    )
    assert play(vector) == sync
    assert all(len(observation) > 20 for observation in sync[0][0])


def test_an_async_vector_with_shared_memory_is_refused_with_the_option_to_set():
    with pytest.raises(ValueError, match="`shared_memory=False`") as refusal:
        gymnasium.make_vec("trca/SearchQA-v0", num_envs=1, vectorization_mode="async")
    assert "texts of any length" in str(refusal.value.__cause__)


def test_every_step_of_a_vector_environment_has_rubric_information():
    vector = gymnasium.make_vec(
        "trca/ALFWorld-v0", num_envs=2, vectorization_mode="sync", max_steps=2
    )
    _, info = vector.reset(seed=7)
    for _ in range(4):  # the third step resets both environments
        assert info["_rubric"].all()
        assert info["rubric"]["judgments"].shape == (2, 15)
        *_, info = vector.step(("look",) * 2)
    vector.close()


def test_the_observation_space_prints_its_name():
    env = gymnasium.make("trca/ALFWorld-v0")
    assert str(env.observation_space) == repr(env.action_space) == "AnyText()"
