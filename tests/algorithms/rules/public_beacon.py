"""BEACON as its public code defines it (`migpo/core_migpo.py`), written from the definition.

Outcome and milestone have the value ``scale``, which is 10 in the public code.
"""

from collections import defaultdict
from difflib import SequenceMatcher

import numpy as np

NEVER = -1


def rows_of(rollout):
    """The rows of each rollout, in the order of the rows."""
    rows = defaultdict(list)
    for row, name in enumerate(rollout):
        rows[name].append(row)
    return rows.values()


def matches(actions, milestones, threshold):
    """The place of each milestone among the actions, in order; -1 without one."""
    places, ahead = [], list(milestones)
    for place, action in enumerate(actions):
        if ahead and SequenceMatcher(None, action, ahead[0]).ratio() >= threshold:
            places.append(place)
            ahead.pop(0)
    return places + [NEVER] * len(ahead)


def matched_segments(count, places, gamma):
    """Rewards and segments of a rollout with a known list of milestones (ALFWorld)."""
    rewards, segments, start = [0.0] * count, [NEVER] * count, 0
    for segment, place in enumerate(places):
        end = count - 1 if place == NEVER else place
        for step in range(start, end + 1):
            segments[step] = segment
            rewards[step] = 0.0 if place == NEVER else gamma ** (place - step)
        if place == NEVER:
            break
        start = place + 1
    return rewards, segments


def achieved_segments(achieved, gamma):
    """Rewards and segments of a rollout whose steps report milestones (WebShop, ScienceWorld)."""
    rewards, start = [0.0] * len(achieved), 0
    for place in np.flatnonzero(achieved):
        for step in range(start, place + 1):
            rewards[step] = gamma ** (place - step)
        start = place + 1
    return rewards, [int(np.sum(achieved[:step])) for step in range(len(achieved))]


def of_flags(batch, achieved, gamma):
    """Rewards and segments of all rows, from a flag of each step."""
    rewards, segments = np.zeros(len(batch)), np.zeros(len(batch), int)
    for rows in rows_of(batch.rollout):
        rewards[rows], segments[rows] = achieved_segments(np.asarray(achieved)[rows], gamma)
    return rewards, segments


def of_actions(batch, actions, walkthroughs, gamma, threshold):
    """Rewards and segments of all rows, from their actions and the walkthrough of each row."""
    rewards, segments = np.zeros(len(batch)), np.zeros(len(batch), int)
    for rows in rows_of(batch.rollout):
        places = matches([actions[row] for row in rows], walkthroughs[rows[0]], threshold)
        rewards[rows], segments[rows] = matched_segments(len(rows), places, gamma)
    return rewards, segments


def centred(values, keys, divide, single_mean):
    """Values minus the mean of their group, over (std + 1e-6) of the group if asked for.

    Equal values give 0; the public code divides the rounding error of their mean by 1e-6.
    """
    groups = defaultdict(list)
    for value, key in zip(values, keys, strict=True):
        groups[key].append(value)
    result = []
    for value, key in zip(values, keys, strict=True):
        members = groups[key]
        if len(members) > 1 and np.ptp(members) < 1e-12:
            result.append(0.0)
            continue
        mean = np.mean(members) if len(members) > 1 or single_mean else 0.0
        spread = np.std(members, ddof=1) if len(members) > 1 else 1.0
        result.append((value - mean) / (spread + 1e-6) if divide else value - mean)
    return np.array(result)


def advantages(batch, rewards, segments, *, weight, penalty, divide=False, scale=1.0, over="rows"):
    """A^traj + weight A^seg; ``over`` is the unit of the statistics of A^traj.

    With ``rollouts`` the outcome has no penalty and a group of one has no advantage, as here.
    """
    penalties = scale * penalty * ~batch.parsed
    outcome = dict.fromkeys(batch.rollout.tolist(), 0.0)
    for name, reward in zip(batch.rollout.tolist(), batch.reward, strict=True):
        outcome[name] += scale * reward
    if over == "rows":
        scores = np.array([outcome[name] for name in batch.rollout.tolist()]) - penalties
        episode = centred(scores, batch.group.tolist(), divide, single_mean=False)
    else:
        group = dict(zip(batch.rollout.tolist(), batch.group.tolist(), strict=True))
        each = centred(outcome.values(), [group[n] for n in outcome], divide, single_mean=True)
        of_rollout = dict(zip(outcome, each, strict=True))
        episode = np.array([of_rollout[name] for name in batch.rollout.tolist()])
    keys = list(zip(batch.group.tolist(), np.asarray(segments).tolist(), strict=True))
    steps = centred(scale * np.asarray(rewards) - penalties, keys, divide, single_mean=True)
    return episode + weight * steps
