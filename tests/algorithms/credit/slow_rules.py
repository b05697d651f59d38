"""The credit rules as their papers write them, one step after another."""

from collections import defaultdict

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


def slow_rubric_reward(batch, lambda_, budgets):
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
        rewards.append((1 - lambda_) * r_f + lambda_ * r_b)
    return np.array(rewards)


def slow_trca(batch, gamma, lambda_, budgets):
    rewards = batch.reward + slow_rubric_reward(batch, lambda_, budgets)
    returns = slow_returns(rewards, batch.rollout, gamma)
    contexts = list(zip(batch.group.tolist(), batch.context.tolist(), strict=True))
    return slow_episode(batch, ddof=0) + slow_normalize(returns, contexts, ddof=0)


def slow_gigpo(batch, gamma, omega, divide, step_row, anchor, penalty):
    penalties = penalty * ~batch.parsed
    returns = slow_returns(batch.reward, batch.rollout, gamma) - penalties
    anchors = list(zip(batch.group.tolist(), getattr(batch, anchor).tolist(), strict=True))
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
