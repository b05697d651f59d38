"""The credit rules as their papers write them, one step after another."""

from collections import defaultdict
from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np


def slow_returns(values, rollout, gamma):
    return np.array(
        [
            sum(
                gamma ** (k - t) * values[k]
                for k in range(t, len(values))
                if rollout[k] == rollout[t]
            )
            for t in range(len(values))
        ]
    )


def slow_normalize(values, keys, ddof, divide=True, epsilon=1e-6):
    groups = defaultdict(list)
    for value, key in zip(values, keys, strict=True):
        groups[key].append(value)
    result = []
    for value, key in zip(values, keys, strict=True):
        members = np.array(groups[key])
        if np.ptp(members) < 1e-12:
            result.append(0.0)
            continue
        difference = value - members.mean()
        result.append(difference / (members.std(ddof=ddof) + epsilon) if divide else difference)
    return np.array(result)


def slow_episode(batch, ddof, divide=True):
    names = list(dict.fromkeys(batch.rollout.tolist()))
    outcomes = [batch.reward[batch.rollout == name].sum() for name in names]
    groups = [batch.group[batch.rollout == name][0] for name in names]
    of = dict(zip(names, slow_normalize(outcomes, groups, ddof, divide), strict=True))
    return np.array([of[name] for name in batch.rollout.tolist()])


def slow_rubric_reward(batch, lambda_, budgets, ablation="none"):
    totals = {0: budgets.evidence, 1: -budgets.invalidity, 2: budgets.execution}
    counts = {c: (batch.categories == c).sum() for c in totals}
    rewards, covered = [], defaultdict(set)
    for rollout, fired in zip(batch.rollout, batch.judgments, strict=True):
        r_f = r_b = 0.0
        for item in np.flatnonzero(fired):
            category = batch.categories[item]
            q = totals[category] / counts[category]
            r_f += q
            if category != 1 and item not in covered[rollout]:
                r_b += q
                covered[rollout].add(item)
        r_f *= ablation != "without_foundational"
        r_b *= ablation != "without_breakthrough"
        rewards.append((1 - lambda_) * r_f + lambda_ * r_b)
    return np.array(rewards)


def slow_trca(
    batch,
    gamma,
    lambda_,
    budgets,
    ablation="none",
    scale=1.0,
    schedule="constant",
    step_group="context",
):
    rubric = slow_rubric_reward(batch, lambda_, budgets, ablation)
    if schedule == "group_success":
        for row, group in enumerate(batch.group):
            members = set(batch.rollout[batch.group == group].tolist())
            won = {name for name in members if batch.won[batch.rollout == name].any()}
            rubric[row] *= 1 - len(won) / len(members)
    rewards = scale * batch.reward + rubric
    compared, span = batch.context, batch.rollout
    if step_group == "stage":
        compared = slow_stages(batch)
        pairs = list(zip(batch.rollout.tolist(), compared, strict=True))
        span = np.array([pairs.index(pair) for pair in pairs])
    returns = slow_returns(rewards, span, gamma)
    steps = list(zip(batch.group.tolist(), list(compared), strict=True))
    return slow_episode(batch, ddof=0) + slow_normalize(returns, steps, ddof=0)


def slow_stages(batch):
    execution = np.flatnonzero(batch.categories == 2).tolist()
    stages, fired, stage, rollout = [], set(), 0, None
    for row, name in enumerate(batch.rollout.tolist()):
        if name != rollout:
            fired, stage, rollout = set(), 0, name
        stages.append(stage)
        new = {k for k in execution if batch.judgments[row, k]} - fired
        stage += bool(new)
        fired |= new
    return stages


def slow_gigpo(batch, gamma, omega, divide, step_row, anchor, similarity, penalty):
    penalties = penalty * ~batch.parsed
    returns = slow_returns(batch.reward, batch.rollout, gamma) - penalties
    anchors, _ = slow_anchors(batch, anchor, similarity, ends=False)
    if step_row:
        outcomes = [batch.reward[batch.rollout == name].sum() for name in batch.rollout]
        episode = slow_normalize(outcomes - penalties, batch.group.tolist(), 1, divide)
    else:
        episode = slow_episode(batch, ddof=1, divide=divide)
    return episode + omega * slow_normalize(returns, anchors, 1, divide)


def slow_outcomes(batch):
    """The outcome of each step's rollout, and its group's rollouts as {name: outcome}."""
    outcomes = {name: batch.reward[batch.rollout == name].sum() for name in batch.rollout.tolist()}
    group_of = dict(zip(batch.rollout.tolist(), batch.group.tolist(), strict=True))
    for name in batch.rollout.tolist():
        yield name, {n: r for n, r in outcomes.items() if group_of[n] == group_of[name]}


def slow_rloo(batch):
    advantages = []
    for name, members in slow_outcomes(batch):
        others = [outcome for other, outcome in members.items() if other != name]
        advantages.append(members[name] - np.mean(others) if others else 0.0)
    return np.array(advantages)


def slow_reinforce_plus_plus(batch, gamma, baseline):
    if baseline:
        pairs = slow_outcomes(batch)
        values = [members[name] - np.mean(list(members.values())) for name, members in pairs]
    else:
        values = slow_returns(batch.reward, batch.rollout, gamma)
    return slow_normalize(values, [0] * len(batch), ddof=1, epsilon=1e-8)


def slow_anchors(batch, kind, similarity, ends=True):
    """The state before and after each step, as (group, name)."""
    if kind == "context":
        columns = batch.context.tolist(), batch.next_context.tolist()
    else:
        columns = batch.observation.tolist(), batch.next_observation.tolist()
    founders = defaultdict(list)

    def name(group, code):
        if kind != "similar":
            return group, code
        for founder in founders[group]:
            ratio = SequenceMatcher(None, batch.texts[code], batch.texts[founder]).ratio()
            if ratio >= similarity:
                return group, founder
        founders[group].append(code)
        return group, code

    before, after = [], []
    for group, one, other in zip(batch.group.tolist(), *columns, strict=True):
        before.append(name(group, one))
        after.append(name(group, other) if ends else None)
    return before, after


def slow_hgpo(batch, gamma, past_anchors, alpha, kind, similarity, penalty, drop=False):
    returns = slow_returns(batch.reward, batch.rollout, gamma) - penalty * ~batch.parsed
    anchors, _ = slow_anchors(batch, kind, similarity, ends=False)
    levels = defaultdict(list)
    for level in range(1, past_anchors + 2):
        members = defaultdict(list)
        for row in range(len(batch)):
            history = range(row - level + 1, row + 1)
            if history[0] >= 0 and batch.rollout[history[0]] == batch.rollout[row]:
                members[tuple(anchors[k] for k in history)].append(row)
        for rows in members.values():
            if len(rows) > 1:
                advantages = slow_normalize(returns[rows], [0] * len(rows), ddof=0)
                for row, advantage in zip(rows, advantages, strict=True):
                    if not drop or abs(advantage) > 1e-9:
                        levels[row].append(((level + 1) ** alpha, advantage))
    return np.array(
        [
            sum(w * a for w, a in levels[row]) / sum(w for w, _ in levels[row])
            if levels[row]
            else 0.0
            for row in range(len(batch))
        ]
    )


def slow_graphgpo(batch, gamma, omega, divide, kind, similarity, penalty):
    ends = np.where(batch.won, batch.observation, batch.next_observation)
    before, after = slow_anchors(replace(batch, next_observation=ends), kind, similarity)
    after = ["success" if won else s for won, s in zip(batch.won, after, strict=True)]
    alike = slow_anchors(batch, "observation", 1.0, ends=False)[0] if kind == "similar" else before
    ahead = np.zeros(len(batch))
    for group in set(batch.group.tolist()):
        rows = np.flatnonzero(batch.group == group)
        distance = {"success": 0}
        for _ in rows:
            for row in rows:
                if after[row] in distance:
                    step = distance[after[row]] + 1
                    distance[before[row]] = min(step, distance.get(before[row], step))
        for row in rows:
            ahead[row] = distance.get(after[row], max(distance.values()) + 1)
    returns = 10 * gamma**ahead - 10 * penalty * ~batch.parsed
    step = slow_normalize(returns, alike, 1, divide)
    return slow_episode(batch, ddof=1, divide=divide) + omega * step


def slow_rewardflow(batch, gamma, omega, divide, kind, similarity, penalty):
    before, after = slow_anchors(batch, kind, similarity)
    value = defaultdict(float)
    last = np.append(batch.rollout[1:] != batch.rollout[:-1], True)
    for row in np.flatnonzero(last):
        outcome = batch.reward[batch.rollout == batch.rollout[row]].sum()
        if outcome > 0:
            after[row] = ("end", row)
            value[after[row]] = outcome
    for _ in range(len(batch)):
        for one, other in zip(before, after, strict=True):
            if one != other:
                value[one] = max(value[one], gamma * value[other])
    gains = [value[other] - value[one] for one, other in zip(before, after, strict=True)]
    step = slow_normalize(gains - penalty * ~batch.parsed, before, 1, divide)
    return slow_episode(batch, ddof=1, divide=divide) + omega * step


def slow_values(returns, anchors):
    """The mean return of the state of each step, over all its visits."""
    visits = defaultdict(list)
    for anchor, value in zip(anchors, returns, strict=True):
        visits[anchor].append(value)
    return [np.mean(visits[anchor]) for anchor in anchors]


def slow_g2po(batch, gamma, omega, divide, kind, similarity, penalty):
    anchors, _ = slow_anchors(batch, kind, similarity, ends=False)
    value = slow_values(gamma * slow_returns(batch.reward, batch.rollout, gamma), anchors)
    following = []
    for row, name in enumerate(batch.rollout):
        if row + 1 < len(batch) and batch.rollout[row + 1] == name:
            following.append(value[row + 1])
        else:
            following.append(batch.reward[batch.rollout == name].sum())
    following = np.array(following)
    local = slow_normalize(following - penalty * ~batch.parsed, anchors, 1, divide)
    gain = slow_normalize(following - value, batch.group.tolist(), 1, divide)
    return slow_episode(batch, ddof=1, divide=divide) + omega * (local + gain)


def slow_gagpo(batch, gamma, gae_lambda, kind, similarity):
    anchors, _ = slow_anchors(batch, kind, similarity, ends=False)
    value = slow_values(slow_returns(batch.reward, batch.rollout, gamma), anchors)
    advantages = np.zeros(len(batch))
    for row in reversed(range(len(batch))):
        goes_on = row + 1 < len(batch) and batch.rollout[row + 1] == batch.rollout[row]
        ahead, later = (value[row + 1], advantages[row + 1]) if goes_on else (0.0, 0.0)
        delta = batch.reward[row] + gamma * ahead - value[row]
        advantages[row] = delta + gamma * gae_lambda * later
    return slow_normalize(advantages, batch.group.tolist(), ddof=1)


def slow_igpo(batch, logprobs, f1, gamma, gain, normalization):
    worth = np.exp(logprobs) if gain == "probability" else logprobs
    rewards, kinds = [], []
    for row in range(len(batch)):
        goes_on = row + 1 < len(batch) and batch.rollout[row + 1] == batch.rollout[row]
        rewards.append(worth[row + 1] - worth[row] if goes_on else f1[row])
        kinds.append("gain" if goes_on or normalization == "joint" else "f1")
    keys = list(zip(batch.group.tolist(), kinds, strict=True))
    return slow_returns(slow_normalize(rewards, keys, ddof=0), batch.rollout, gamma)
