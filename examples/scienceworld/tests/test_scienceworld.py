"""ScienceWorld itself, in Java: oracle, repetition, rubric, failures, training."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

if shutil.which("java") is None:
    pytest.skip("ScienceWorld needs Java, and there is no command java", allow_module_level=True)

import gymnasium
import trca_scienceworld
from scienceworld import ScienceWorldEnv
from trca_scienceworld.env import FORMS, ScienceWorld
from trca_scienceworld.reading import read_page
from trca_scienceworld.simulator import Simulator
from trca_scienceworld.tasks import VARIATIONS, variations

from trca.algorithms.settings.parameters import TextParameters
from trca.envs import make
from trca.envs.check import self_check
from trca.envs.library_report import measure
from trca.envs.text_env import OracleError
from trca.tune_configs.files import assign, read

PACKAGE = Path(__file__).parents[1]
SHORT = ["find-animal", "lifespan-longest-lived", "power-component", "use-thermometer"]


@pytest.fixture
def simulator():
    made = Simulator()
    yield made
    made.close()


def test_the_oracle_wins_episodes_repeat_and_hostile_actions_do_no_harm():
    env = make(ScienceWorld, types=SHORT, per_type=1, max_steps=40, split="test")
    report = self_check(env)
    env.close()
    assert report.ok, report.problems
    assert report.tasks == 4
    assert report.random_wins == 0


def test_a_task_repeats_after_other_tasks(simulator):
    """Without the constant identity hash the things of one name change their order."""

    def texts():
        simulator.load("lifespan-shortest-lived", 1, "easy")
        return [simulator.act(f"teleport to {room}") for room in ("art studio", "workshop")]

    first = texts()
    for variation in range(3):
        simulator.load("find-animal", variation, "easy")
        simulator.act("look around")
        assert texts() == first


def test_score_and_answers_are_those_of_the_benchmark_s_own_class(simulator):
    actions = simulator.gold("find-animal", 3, "easy")
    theirs = ScienceWorldEnv("", envStepLimit=100)
    theirs.load("find-animal", 3, "easy")
    theirs.reset()
    simulator.act("look around")
    for action in actions:
        answer, _, completed, info = theirs.step(action)
        turn = simulator.act(action)
        assert sorted(turn.answer.split()) == sorted(answer.split())
        assert round(100 * turn.score) == info["score"]
        assert turn.completed == completed
    assert turn.score == 1
    theirs.close()


def test_the_splits_are_the_benchmark_s(simulator):
    for name in SHORT:
        simulator.load(name, 0, "")
        splits = [list(variations(name, split)) for split in ("train", "dev", "test")]
        assert simulator.variations() == tuple(splits)


def test_the_task_types_and_forms_are_the_benchmark_s():
    env = ScienceWorld(types=["boil"], simplifications="")
    env.reset()
    assert set(env._simulator._call("getTaskNames")) == set(VARIATIONS)
    assert set(env.admissible_actions) == FORMS - {"teleport <object>"}
    env.close()


def test_a_wrong_focus_ends_the_task_without_reward():
    env = ScienceWorld(types=["find-animal"])
    env.reset(options={"task": "find-animal/3"})
    _, reward, terminated, _, info = env.step("focus on axe")
    assert (reward, terminated, info["won"], info["score"]) == (0, True, False, 0)
    env.close()


def test_an_ambiguous_action_is_followed_by_its_choices():
    env = ScienceWorld(types=["find-animal"])
    env.reset(options={"task": "find-animal/3"})
    _, _, _, _, info = env.step("open door")
    assert info["admissible_actions"] == ["0", "1", "2"]
    assert not info["accepted"]
    observation, _, _, _, info = env.step("0")
    assert info["accepted"] or "already open" in read_page(observation).answer
    assert len(info["admissible_actions"]) > 20
    env.close()


def test_the_oracle_refuses_to_continue_another_s_game():
    env = ScienceWorld(types=["find-animal"])
    env.reset(options={"task": "find-animal/3"})
    first = env.oracle_action()
    env.step("go to kitchen" if first != "go to kitchen" else "wait1")
    with pytest.raises(OracleError, match="from the first state only"):
        env.oracle_action()
    env.close()


def test_the_end_of_java_is_a_technical_failure_and_the_next_task_starts_it_again():
    env = ScienceWorld(types=["find-animal"])
    env.reset(options={"task": "find-animal/3"})
    os.kill(env._simulator._process.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="ScienceWorld failed"):
        env.step("look around")
    env.reset(options={"task": "find-animal/3"})
    assert env.step("look around")[-1]["accepted"]
    env.close()


def test_closing_an_isolated_environment_ends_its_java():
    env = make("trca_scienceworld:scienceworld/ScienceWorld-v0", types=["find-animal"])
    env.reset()
    children = _java(os.getpid())
    assert len(children) == 1
    env.unwrapped.kill()
    assert _gone(children[0])


def test_a_fault_of_the_simulator_is_an_error(simulator):
    with pytest.raises(RuntimeError, match="exceeds the total number of variations"):
        simulator.load("boil", 999, "")
    simulator.load("boil", 0, "nonsense")
    with pytest.raises(RuntimeError, match="Unknown simplification label: nonsense"):
        simulator.act("look around")


def test_without_java_the_error_names_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="ScienceWorld needs Java"):
        Simulator().load("boil", 0, "")


def test_every_operator_of_the_rubric_fires_on_someone():
    types = [*SHORT, "chemistry-mix-paint-secondary-color", "measure-melting-point-known-substance"]
    env = make(ScienceWorld, types=types, per_type=2, max_steps=60)
    report = measure(env, env.unwrapped.task_ids)
    env.close()
    assert not [text for text in report.problems if "never" in text or "every step" in text]
    assert report.agents["oracle"].success == 1
    assert report.agents["random"].success == 0
    assert report.agents["oracle"].coverage > 1.5 * report.agents["random"].coverage


def test_gymnasium_knows_it():
    assert trca_scienceworld
    env = gymnasium.make("scienceworld/ScienceWorld-v0", types=["find-animal"], split="dev")
    assert env.unwrapped.task_ids[0] == "find-animal/150"
    env.close()


def test_it_trains(tmp_path):
    small = {
        "env": "trca_scienceworld:scienceworld/ScienceWorld-v0",
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "tasks_per_iteration": 1,
        "group_size": 2,
        "max_new_tokens": 6,
        "train_malformed": True,
        "evaluation_tasks": 2,
        "env_config.max_steps": 3,
    }
    settings = TextParameters.resolve(assign(read(str(PACKAGE / "train.yaml")), small))
    trainer = settings.algorithm_config().build_algo()
    try:
        trainer.train()
        steps = [step for rollout in trainer.rollouts for step in rollout.steps]
        assert len(trainer.rollouts) == 2
        assert {len(step.judgments) for step in steps} == {15}
    finally:
        trainer.stop()


def _java(parent):
    """Process ids of the Java processes below a process."""
    java, queue = [], [parent]
    for process in queue:
        for task in Path(f"/proc/{process}/task").iterdir():
            children = [int(pid) for pid in (task / "children").read_text().split()]
            queue.extend(children)
            java += [pid for pid in children if _name(pid) == "java"]
    return java


def _name(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _gone(pid, patience=3000):
    for _ in range(patience):
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "\nState:\tZ" in status.read_text():
            return True
        time.sleep(0.1)
    return False
