"""Vector environments: refused shared memory and rubric information; see `test_conformance`."""

import gymnasium
import pytest

import trca.envs  # noqa: F401 (registers the environments)


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
