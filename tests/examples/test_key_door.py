"""Environments in a user's file train by file name, and errors name their missing parts."""

from pathlib import Path

import pytest

from trca.algorithms.settings.parameters import TextParameters, in_environment, switch
from trca.envs import make
from trca.envs.check import self_check
from trca.envs.registration import check_library
from trca.tune_configs.files import ConfigError, assign, read

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDER = EXAMPLES / "key_door" / "key_door"
PLAIN, JUDGED = f"{EXAMPLES}/plain_key_door.py:KeyDoor", f"{FOLDER}/env.py:KeyDoor"
SMALL = {
    "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
    "iterations": 2,
    "tasks_per_iteration": 2,
    "group_size": 2,
    "max_new_tokens": 6,
    "minibatch_size": 16,
    "train_malformed": True,
    "evaluation_tasks": 2,
    "num_env_runners": 0,
    "num_learners": 0,
}


def settings(algorithm: str, env: str) -> TextParameters:
    base = in_environment(switch(read("quickstart"), algorithm), env)
    return TextParameters.resolve(assign(base, {**SMALL, "env_config.max_steps": 3}))


@pytest.mark.parametrize(
    ("algorithm", "env"), [("GRPO", PLAIN), ("GiGPO", PLAIN), ("TRCA", JUDGED)]
)
def test_it_trains(cluster: None, algorithm: str, env: str) -> None:
    trainer = settings(algorithm, env).algorithm_config().build_algo()
    try:
        for _ in range(2):
            trainer.train()
            steps = [step for rollout in trainer.rollouts for step in rollout.steps]
            assert len(trainer.rollouts) == 4
            assert {len(step.judgments) for step in steps} == {15 if env == JUDGED else 0}
            if env == PLAIN:
                assert all(step.context == step.observation for step in steps)
        assert trainer.panel("test").environment == "KeyDoor"
    finally:
        trainer.stop()


def test_trca_names_the_missing_parts_of_a_plain_environment_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match="KeyDoor declares no adapter_class: add one") as error:
        settings("TRCA", PLAIN)
    assert "\n" not in str(error.value)


def test_it_is_sound() -> None:
    env = make(JUDGED)
    report = self_check(env, env.unwrapped.task_ids[:24])  # type: ignore[attr-defined]
    assert report.ok, report.problems
    assert min(report.firing.values()) > 0, report.firing


def test_its_library_is_checked_against_its_adapter() -> None:
    assert len(check_library(FOLDER / "rubric.yaml", JUDGED).ids) == 15
