"""Compares the environment with the benchmark's own environment and evaluators.

    python tests/parity.py 300   # random episodes of 300 tasks, and all gold solutions

Each episode is played in both; all results of calls must be equal, and the reward must be that of
the benchmark's `EnvironmentEvaluator` and `ActionEvaluator` on the recorded messages. Two faults of
the benchmark are removed first, see `trca_tau2.simulator`: otherwise it does not repeat itself.
"""

from __future__ import annotations

import itertools
import random
import sys
from functools import cache
from types import SimpleNamespace

import numpy as np
from tau2.data_model.message import AssistantMessage, ToolCall
from tau2.data_model.tasks import Task
from tau2.domains.telecom import tools
from tau2.domains.telecom.environment import get_environment
from tau2.domains.telecom.user_tools import TelecomUserTools
from tau2.environment import db
from tau2.environment.environment import Environment
from tau2.evaluator.evaluator_action import ActionEvaluator
from tau2.evaluator.evaluator_env import EnvironmentEvaluator
from trca_tau2.env import Tau2Telecom
from trca_tau2.tasks import all_tasks

from trca.envs.tool_calls import read_calls, write_calls

# What the benchmark does again at each start, with the same result, and slowly.
db.load_file = cache(db.load_file)
Environment.validate_solo_mode = lambda self: None
FRESH_VPN = TelecomUserTools.default_vpn_details.model_copy()


def benchmark(**options):
    """The benchmark's environment with the VPN details of a fresh process and counted bills."""
    TelecomUserTools.default_vpn_details = FRESH_VPN.model_copy()
    numbers = itertools.count()
    tools.uuid = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=f"90{next(numbers):02}"))
    return get_environment(solo_mode=True)


def play(env, task_id, choose):
    """Plays an episode: its calls with result and error, and the reward."""
    env.reset(options={"task": task_id})
    steps, over = [], False
    while not over:
        action = choose(env)
        observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        steps.append((read_calls(action)[0], observation, not info["accepted"]))
    return steps, reward


def gold(env):
    """The next gold action."""
    return env.oracle_action()


def at_random(length, seed):
    """A chooser of random calls, with ``done`` at the end."""
    rng = np.random.default_rng(seed)
    left = iter(range(length))

    def choose(env):
        over = next(left, None) is None
        return write_calls([("done", {})]) if over else env.random_action(rng)

    return choose


def compare(env, task_id, choose):
    """Plays an episode in both; returns descriptions of the differences."""
    steps, reward = play(env, task_id, choose)
    task = Task(**all_tasks()[task_id])
    theirs = benchmark()
    theirs.set_state(None, task.initial_state.initialization_actions, [])
    problems, messages = [], []
    for number, (call, observation, failed) in enumerate(steps):
        if call.name == "done":
            break
        request = ToolCall(id=str(number), name=call.name, arguments=call.arguments)
        answer = theirs.get_response(request)
        theirs.sync_tools()
        if (answer.content, answer.error) != (observation, failed):
            problems.append(f"{task_id} {call}: {answer.content!r} is not {observation!r}")
        message = AssistantMessage(role="assistant", content=None, tool_calls=[request])
        messages += [message, answer]
    checks = EnvironmentEvaluator.calculate_reward(benchmark, task, messages, solo_mode=True)
    expected = checks.reward
    if "ACTION" in task.evaluation_criteria.reward_basis:
        expected *= ActionEvaluator.calculate_reward(task, messages).reward
    expected *= steps[-1][0].name == "done"
    if expected != reward:
        problems.append(f"{task_id}: the benchmark's reward is {expected}, not {reward}")
    return problems, reward


def main(count):
    """Compares gold solutions of train and test, and random episodes of other tasks."""
    solved = [task for split in ("train", "test") for task in Tau2Telecom(split).task_ids]
    env = Tau2Telecom("full")
    episodes = [(task, gold) for task in solved]
    for seed, task in enumerate(random.Random(0).sample(env.task_ids, count)):
        episodes.append((task, at_random(length=5 + seed % 30, seed=seed)))
    problems, calls, won = [], 0, [0.0, 0.0]
    for task, choose in episodes:
        found, reward = compare(env, task, choose)
        problems += found
        won[choose is not gold] += reward
        calls += len(env._actions)
    print(f"{len(solved)} gold and {count} random episodes, {calls} calls, won: {won}")
    print("\n".join(problems) or "no difference")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
