"""``isolation: process``: an environment in a child process that can be killed and restarted."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tests.toy import Rooms
from trca.algorithms.rollouts.env_pool import EnvPool
from trca.common.threads import StuckError, run_to_end
from trca.envs import make
from trca.envs.text_env import MissingPartError

NATIVE = """\
import ctypes
import re

import gymnasium

from tests.toy import Rooms
from trca.envs import TextEnv


class Native(Rooms):
    isolation = "process"

    def take_action(self, action):
        if action == "sing":  # a search that takes years and holds the interpreter
            re.match("(a+)+$", "a" * 60 + "b")
        if action == "knock":
            ctypes.string_at(0)
        if action == "go away":
            raise LookupError("no way")
        return super().take_action(action)


class NoOracle(Native):
    oracle_action = TextEnv.oracle_action


class Halved(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2


def halved(**settings):
    return Halved(Rooms(**settings))


halved.adapter_class, halved.library = Rooms.adapter_class, Rooms.library
"""


def native(folder):
    (folder / "native.py").write_text(NATIVE)
    return f"{folder / 'native.py'}:Native"


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """An environment in a child process, which the tests that call `reset` first share."""
    env = make(native(tmp_path_factory.mktemp("native")).replace("Native", "NoOracle"))
    yield env
    env.close()


def episode(env, task_id, seed):
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed, options={"task": task_id})
    steps, over = [(observation, info["context"], info["admissible_actions"])], False
    while not over:
        action = env.unwrapped.random_action(rng)
        observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        steps.append((action, observation, reward, info["won"], info["score"], info["accepted"]))
        steps.append((info["rubric"]["fired"], info["facts"], info.get("measures")))
        steps.append(info.get("milestone"))
    return steps


def test_episodes_are_those_of_the_environment_in_the_same_process():
    settings = {"wind": 0.3, "milestones": True}
    alone, here = make(Rooms, isolation="process", **settings), make(Rooms, **settings)
    assert alone.unwrapped.panel == here.unwrapped.panel
    reported = list[bool]()
    for seed, task_id in enumerate(here.unwrapped.task_ids[:4]):
        steps = episode(here, task_id, seed)
        assert episode(alone, task_id, seed) == steps
        reported += steps[3::3]
    assert {True, False} <= set(reported)
    alone.close()


def test_a_step_that_holds_the_interpreter_is_killed_and_the_next_environment_plays(tmp_path):
    pool = EnvPool(lambda split: make(native(tmp_path), split=split), timeout_s=5.0)
    env = run_to_end(pool.take("train"))
    run_to_end(pool.reset(env, 0, {"task": "train-0"}))
    child = env.env.unwrapped._process
    with pytest.raises(StuckError, match=r"step\('sing'\) has not returned for 5 s"):
        run_to_end(pool.step(env, "sing"))
    pool.give_back(env, broken=True)
    assert child.poll() is not None
    env = run_to_end(pool.take("train"))
    run_to_end(pool.reset(env, 0, {"task": "train-0"}))
    assert run_to_end(pool.step(env, "go"))[0] == "You are in room 1. A key is here."
    pool.give_back(env)
    run_to_end(pool.close())


def test_a_crash_is_an_exception_and_a_reset_starts_another_process(process):
    process.reset(options={"task": "train-0"})
    with pytest.raises(
        RuntimeError, match=r"process of NoOracle ended by SIGSEGV .* in step\('kn"
    ) as caught:
        process.step("knock")
    assert not hasattr(caught.value, "__notes__")  # no line of this package
    process.reset(options={"task": "train-1"})
    assert process.step("take key")[4]["won"]


def test_an_exception_arrives_with_its_class_and_line(process):
    process.reset(options={"task": "train-0"})
    with pytest.raises(LookupError, match="no way") as caught:
        process.step("go away")
    assert caught.value.__notes__ == ["in NoOracle, at native.py:19 in take_action"]


def test_a_missing_part_is_no_failure(process, capfd):
    process.reset(options={"task": "train-0"})
    with pytest.raises(MissingPartError, match=r"NoOracle has no oracle_action"):
        process.unwrapped.oracle_action()
    assert "Traceback" not in capfd.readouterr().err


def test_the_process_ends_with_its_environment():
    env = make(Rooms, isolation="process")
    process = env.unwrapped._process
    assert process.pid != os.getpid()
    del env
    end = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    assert process.poll() is not None


def test_wrappers_of_the_environment_stay_and_closing_ends_the_process(tmp_path):
    env = make(native(tmp_path).replace("Native", "halved"), isolation="process")
    env.reset(options={"task": "train-1"})
    assert env.step("take key")[1] == 0.5
    process = env.unwrapped._process
    env.close()
    assert process.poll() is not None


def test_an_interrupted_call_ends_the_process_and_its_answer_is_not_taken(process, monkeypatch):
    process.reset(options={"task": "train-0"})
    child = process.unwrapped

    def interrupted():
        raise KeyboardInterrupt

    connection = SimpleNamespace(send=child._connection.send, recv=interrupted)
    monkeypatch.setattr(child, "_connection", connection)
    with pytest.raises(KeyboardInterrupt):
        process.step("go")
    assert child._process.poll() is not None
    observation, _ = process.reset(options={"task": "train-1"})
    assert "room" in observation
    assert process.step("take key")[4]["won"]


def test_control_c_in_a_terminal_does_not_reach_the_process():
    program = """
import os, signal
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
from tests.toy import Rooms
from trca.envs import make
env = make(Rooms, isolation="process")
env.reset(seed=0, options={"task": "train-1"})
os.killpg(os.getpgrp(), signal.SIGINT)
print(env.step("take key")[4]["won"])
env.close()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, process_group=0)
    assert done.stdout.split() == ["interrupted", "True"], done.stderr


def test_the_process_of_a_team_that_is_stuck_is_killed(tmp_path):
    (tmp_path / "team.yaml").write_text("roles:\n  one: {acts: [all], prompt: '{task}'}\n")
    team = str(tmp_path / "team.yaml")
    pool = EnvPool(lambda split: make(native(tmp_path), split=split, team=team), timeout_s=5.0)
    env = run_to_end(pool.take("train"))
    run_to_end(pool.reset(env, 0, {"task": "train-0"}))
    child = env.env.unwrapped.inner.unwrapped._process
    with pytest.raises(StuckError):
        run_to_end(pool.step(env, "sing"))
    pool.give_back(env, broken=True)
    assert child.poll() is not None
    run_to_end(pool.close())


def test_another_isolation_is_refused():
    with pytest.raises(ValueError, match="isolation is 'thread': give none or process"):
        make(Rooms, isolation="thread")
