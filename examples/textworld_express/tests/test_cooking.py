"""CookingWorld itself, in Java: parity with the package, repetition, rubric, failures, training."""

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

if shutil.which("java") is None:
    pytest.skip("TextWorldExpress needs Java, and there is no java", allow_module_level=True)

import gymnasium
import trca_textworld_express
from parity import PARAMETERS, at_random, compare, gold
from textworld_express import TextWorldExpressEnv
from trca_textworld_express import simulator
from trca_textworld_express.env import CookingWorld
from trca_textworld_express.simulator import Simulator, shared_java
from trca_textworld_express.tasks import task_ids

from trca.algorithms.settings.parameters import TextParameters
from trca.envs import make
from trca.envs.check import self_check
from trca.envs.library_report import measure
from trca.envs.text_env import OracleError
from trca.tune_configs.files import assign, read

PACKAGE = Path(__file__).parents[1]
SMALL = {"rooms": 3, "ingredients": 2, "distractors": 2}


@pytest.fixture(scope="module")
def package():
    made = TextWorldExpressEnv(envStepLimit=1000)
    yield made
    made.close()


@pytest.mark.parametrize("fold", ["train", "dev", "test"])
@pytest.mark.parametrize("settings", PARAMETERS)
def test_texts_valid_actions_and_scores_are_those_of_the_package(package, fold, settings):
    env = CookingWorld(fold, max_steps=100, **settings)
    for number, task in enumerate(env.task_ids[:2]):
        found, reward, _ = compare(env, package, env._simulator.parameters, task, gold)
        assert not found
        assert reward == 1
        choose = at_random(number)
        found, _, _ = compare(env, package, env._simulator.parameters, task, choose)
        assert not found


def test_the_folds_are_the_package_s(package):
    seeds = package.getValidSeedsTrain(), package.getValidSeedsDev(), package.getValidSeedsTest()
    for fold, each in zip(("train", "dev", "test"), seeds, strict=True):
        assert task_ids(fold) == tuple(f"{fold}/{seed}" for seed in each)


def test_the_oracle_wins_episodes_repeat_and_hostile_actions_do_no_harm():
    env = make(CookingWorld, max_steps=60, split="test", **SMALL)
    report = self_check(env, env.unwrapped.task_ids[:40])
    env.close()
    assert report.ok, report.problems
    assert report.random_wins == 0


def test_the_default_game_is_the_benchmark_s():
    env = CookingWorld()
    env.reset(options={"task": "train/0"})
    theirs = env._simulator._call(env._simulator._game, "getGenerationPropertiesJSON")
    for setting in ('"numLocations": 11', '"numIngredients": 3', '"numDistractorItems": 10'):
        assert setting in theirs
    assert '"includeDoors": 1' in theirs
    assert '"limitInventorySize": 1' in theirs


def test_games_share_one_java_and_do_not_disturb_each_other():
    """Episodes side by side in threads have the texts of episodes one by one."""
    envs = [CookingWorld(**SMALL) for _ in range(24)]

    def texts(env, task):
        env.reset(options={"task": task})
        return [env.step(action)[0] for action in [env.oracle_action()] + ["look around"] * 30]

    tasks = envs[0].task_ids[:24]
    alone = [texts(envs[0], task) for task in tasks]
    together = {}
    threads = [
        threading.Thread(target=lambda e=env, t=task: together.update({t: texts(e, t)}))
        for env, task in zip(envs, tasks, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[task] for task in tasks] == alone
    assert len({env._simulator._java.process.pid for env in envs}) == 1


def test_java_ends_with_the_last_game():
    one, other = CookingWorld(**SMALL), CookingWorld(**SMALL)
    one.reset()
    other.reset()
    process = one._simulator._java.process
    one.close()
    assert process.poll() is None
    assert other.step("look around")[-1]["accepted"]
    other.close()
    assert process.wait(300) == -signal.SIGKILL


def test_the_end_of_java_is_a_technical_failure_and_the_next_task_starts_it_again():
    env = CookingWorld(**SMALL)
    env.reset(options={"task": "train/3"})
    process = shared_java().process
    os.kill(process.pid, signal.SIGKILL)
    process.wait(300)
    with pytest.raises(RuntimeError, match="TextWorldExpress failed"):
        env.step("look around")
    env.reset(options={"task": "train/3"})
    assert env.step("look around")[-1]["accepted"]
    env.close()


def test_a_wrong_cut_loses_and_an_invalid_action_is_refused():
    env = CookingWorld(**SMALL)
    env.reset(options={"task": "train/3"})  # slices and roasts a white onion
    info = env.step("take moon")[-1]
    assert not info["accepted"]
    for action in ("open door to north", "move north", "take white onion", "move south"):
        assert env.step(action)[-1]["accepted"]
    _, reward, terminated, _, info = env.step("cook white onion in stove")
    assert (reward, terminated, info["won"], info["accepted"]) == (0, True, False, True)
    assert 0 < info["score"] < 1


def test_the_oracle_refuses_to_continue_another_s_game():
    env = CookingWorld(**SMALL)
    env.reset(options={"task": "train/3"})
    env.step("look around")
    with pytest.raises(OracleError, match="from the first state only"):
        env.oracle_action()


def test_a_fault_of_the_simulator_is_an_error():
    with pytest.raises(RuntimeError, match="call start"):
        Simulator("").instruction()
    with pytest.raises(ValueError, match="rooms is 12: give 1 to 11"):
        CookingWorld(rooms=12)
    with pytest.raises(ValueError, match="Unrecognized property name"):
        Simulator("nonsense=1").start(0, "train")
    with pytest.raises(RuntimeError, match="Unknown fold"):
        Simulator("").start(0, "nonsense")


def test_without_java_the_error_names_it(monkeypatch):
    monkeypatch.setattr(simulator, "_java", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="TextWorldExpress needs Java"):
        Simulator("").start(0, "train")


def test_every_operator_of_the_rubric_fires_on_someone():
    env = make(CookingWorld, max_steps=30, **SMALL)
    report = measure(env, env.unwrapped.task_ids[:60])
    env.close()
    assert not [text for text in report.problems if "never" in text or "every step" in text]
    assert report.agents["oracle"].success == 1
    assert 0.3 < report.agents["demonstrator"].success < 0.7
    assert report.agents["random"].success < 0.05
    assert report.agents["demonstrator"].coverage > 2 * report.agents["random"].coverage


def test_gymnasium_knows_it():
    assert trca_textworld_express
    env = gymnasium.make("textworld_express/CookingWorld-v0", panel=3, split="valid")
    assert env.unwrapped.task_ids == task_ids("valid", 3)


def test_it_trains():
    small = {
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "tasks_per_iteration": 1,
        "group_size": 2,
        "max_new_tokens": 6,
        "train_malformed": True,
        "evaluation_tasks": 2,
        "env_config.max_steps": 3,
    }
    settings = TextParameters.resolve(assign(read(str(PACKAGE / "cooking.yaml")), small))
    trainer = settings.algorithm_config().build_algo()
    try:
        trainer.train()
        steps = [step for rollout in trainer.rollouts for step in rollout.steps]
        assert len(trainer.rollouts) == 2
        assert {len(step.judgments) for step in steps} == {15}
    finally:
        trainer.stop()
