"""Compares the environment with the package's own class, action by action.

    python tests/parity.py 60   # gold and random episodes of 60 seeds, over folds and parameters

Each episode is played in both. Texts, valid actions, score and end must be equal.
"""

from __future__ import annotations

import sys

import numpy as np
from textworld_express import TextWorldExpressEnv
from trca_textworld_express.env import CookingWorld
from trca_textworld_express.simulator import _paragraph

PARAMETERS = [
    {"rooms": 3, "ingredients": 2, "distractors": 2},
    {},
    {"rooms": 1, "ingredients": 1, "doors": False},
    {"rooms": 6, "ingredients": 5, "distractors": 5, "limited_inventory": False},
]


def gold(env):
    """The next gold action."""
    return env.oracle_action()


def at_random(seed):
    """A chooser of random valid actions, and sometimes of one that is not valid."""
    rng = np.random.default_rng(seed)
    return lambda env: "take moon" if rng.random() < 0.05 else env.random_action(rng)


def problem(theirs, ours, observation, end):
    """The first difference between the package's ``infos`` and a turn; empty for none."""
    texts = [_paragraph(theirs[name]) for name in ("observation", "look", "inventory")]
    valid = tuple(sorted(theirs["validActions"]))
    outcome = (theirs["score"], theirs["tasksuccess"], theirs["taskfailure"])
    if texts != list(ours[:3]):
        return f"{texts} is not {ours[:3]}"
    if valid != ours.valid:
        return f"{valid} is not {ours.valid}"
    if outcome != ours[4:]:
        return f"{outcome} is not {ours[4:]}"
    if not all(text in observation for text in texts):
        return f"{texts} is not in {observation}"
    return "" if theirs["done"] == end else f"done is {theirs['done']}"


def compare(env, package, parameters, task, choose):
    """Plays an episode in both; returns a description of the first difference, reward, steps."""
    fold, _, seed = task.partition("/")
    observation, _ = env.reset(options={"task": task})
    if package.gameParams != parameters:
        package.load("cookingworld", parameters)
    _, theirs = package.reset(seed=int(seed), gameFold=fold, generateGoldPath=choose is gold)
    reward, end, steps = 0.0, False, 0
    found = problem(theirs, env._turn, observation, end)
    while not (found or end or steps == env.max_steps):
        action = choose(env)
        observation, reward, end, _, info = env.step(action)
        _, _, _, theirs = package.step(action)
        steps += 1
        found = problem(theirs, env._turn, observation, end)
        if not found and theirs["score"] != info["score"]:
            found = f"score {theirs['score']} is not {info['score']}"
    return f"{task} after {steps} steps: {found}" if found else "", reward, steps


def main(count):
    """Plays gold and random episodes; prints differences and successes."""
    package = TextWorldExpressEnv(envStepLimit=1000)
    problems, won, steps, episodes = [], {"gold": 0.0, "random": 0.0}, 0, 0
    for number, settings in enumerate(PARAMETERS):
        for fold in ("train", "dev", "test"):
            env = CookingWorld(fold, max_steps=150, **settings)
            for seed in range(number, count, 3 * len(PARAMETERS)):
                for name, choose in (("gold", gold), ("random", at_random(seed))):
                    arguments = (env.task_ids[seed % 1000], choose)
                    each = compare(env, package, env._simulator.parameters, *arguments)
                    problems += [each[0]] if each[0] else []
                    won[name] += each[1]
                    steps += each[2]
                    episodes += 1
    print(f"{episodes} episodes, {steps} actions, won: {won}")
    print("\n".join(problems) or "no difference")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
