"""Batches of steps that a demonstrator plays in real environments, with many actions at random."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tests.algorithms.credit.step_batches import step_batch
from trca.envs import make
from trca.records import StepBatch


@dataclass(frozen=True)
class Played:
    """Rollouts as a batch.

    Attributes:
        batch: S steps; contexts are the codes of the observations.
        task_ids: The task of each rollout.
        measures: Measures of the environment at the end of each rollout.
        answers: The last action of each.
        gold: Gold of each rollout's task; None where it knows nothing.
        actions: The action of each step.
    """

    batch: StepBatch
    task_ids: tuple
    measures: tuple
    answers: tuple
    gold: tuple
    actions: tuple


@cache
def played(env_id, random_share, tasks=8, group_size=8, max_steps=30, **arguments):
    """Plays the first tasks, each by a group; the demonstrator's share of actions is the rest."""
    judged = make(env_id, max_steps=max_steps, **arguments)
    env, categories = judged.unwrapped, judged.get_wrapper_attr("judge").library.categories
    rng = np.random.default_rng(0)
    codes, lengths, groups, rewards, before, ends = {}, [], [], [], [], []
    names, measures, answers, parsed, actions, judgments = [], [], [], [], [], []
    for group, task in enumerate(env.task_ids[:tasks]):
        for _ in range(group_size):
            observation, _ = judged.reset(options={"task": task})
            over, steps = False, 0
            while not over:
                before.append(codes.setdefault(observation, len(codes)))
                drawn = rng.random() < random_share
                action = env.random_action(rng) if drawn else env.demonstrator_action()
                observation, reward, terminated, truncated, info = judged.step(action)
                over = terminated or truncated
                rewards.append(reward)
                parsed.append(info["parsed"])
                actions.append(action)
                judgments.append(info["rubric"]["judgments"])
                steps += 1
            lengths.append(steps)
            groups.append(group)
            ends.append(codes.setdefault(observation, len(codes)))
            names.append(task)
            measures.append(info.get("measures", {}))
            answers.append(action)
    batch = step_batch(
        lengths, groups, rewards, before, parsed=parsed, ends=ends, texts=tuple(codes)
    )
    batch = replace(batch, judgments=np.array(judgments), categories=categories)
    gold = tuple(_gold(env, task) for task in names)
    return Played(batch, tuple(names), tuple(measures), tuple(answers), gold, tuple(actions))


def _gold(env, task):
    try:
        return env.gold(task)
    except NotImplementedError:
        return None


def compared(ours, theirs):
    """How many rows differ by more than rounding, of how many, and the largest difference."""
    apart = np.abs(np.asarray(ours) - np.asarray(theirs))
    return int((apart > 1e-6).sum()), len(apart), float(apart.max())
