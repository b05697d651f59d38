"""Speed of the credit rules, compared with the method of GiGPO's public code.

Run it on one core::

    OMP_NUM_THREADS=1 python benchmarks/credit.py

For every rule the benchmark prints seconds at growing numbers of transitions (15 operators, groups
of 8 and of 128 rollouts of 5 to 25 steps, skewed contexts), and the ratio of the last two. Inputs
beyond the batch are artificial and do not count. Then follow worst cases, the seconds of each part
of TRCA, and a comparison with the method of the public GiGPO code, in a short rewriting: it finds
the rollout of each row among all rows, clusters by dictionaries, and stores lists of scalar
tensors. Both implementations must give the same advantages.

Seconds are processor time, the minimum of three runs. Other work on the machine affects them only
through caches and memory.
"""

from __future__ import annotations

import argparse
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from measuring import timed
from numpy.typing import NDArray

from trca.algorithms.credit import CREDIT_RULES, bind_credit
from trca.algorithms.credit.arithmetic import discounted_returns, joint_codes, normalize
from trca.algorithms.credit.plans import Plans
from trca.algorithms.credit.values import Values
from trca.algorithms.rules.gigpo import GiGPOParameters, gigpo
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.rules.hgpo import HGPOParameters, hgpo
from trca.records import StepBatch
from trca.rubric.rewards import Budgets, breakthrough_reward, foundational_reward

GROUP_SIZES = (8, 128)
CATEGORIES = np.repeat(np.arange(3, dtype=np.int8), 5)


def random_batch(steps: int, group_size: int = 8, seed: int = 0) -> StepBatch:
    """Returns a batch with this number of transitions, in groups of ``group_size`` rollouts."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 26, size=steps // 5 + 1)
    count = int(np.searchsorted(np.cumsum(lengths), steps)) + 1
    lengths = lengths[:count]
    lengths[-1] -= lengths.sum() - steps
    last = np.zeros(steps, dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    rollout = np.repeat(np.arange(count), lengths)
    won = rng.random(count) < 0.3
    context = np.minimum(rng.geometric(0.08, size=steps), 60)
    return StepBatch(
        group=rollout // group_size,
        rollout=rollout,
        agent=np.zeros_like(rollout),
        reward=np.where(last, won[rollout], 0.0),
        observation=context,
        next_observation=np.roll(context, -1),
        context=context,
        next_context=np.roll(context, -1),
        judgments=(rng.random((steps, len(CATEGORIES))) < 0.1).astype(np.uint8),
        categories=CATEGORIES,
        parsed=rng.random(steps) < 0.95,
        accepted=rng.random(steps) < 0.9,
        terminated=last & won[rollout],
        truncated=last & ~won[rollout],
        won=last & won[rollout],
        texts=tuple(f"[1] Ada: note {k}.\n[2] Hill {k + 1}: a town {k}." for k in range(61)),
    )


def peer_gigpo(batch: StepBatch, gamma: float = 0.95) -> NDArray[np.float64]:
    """Computes GiGPO's advantage with the method and the complexity of its public code."""
    rollouts, rewards = batch.rollout, batch.reward.astype(np.float32)
    returns_of: dict[Any, NDArray[np.float32]] = {}
    for name in np.unique(rollouts):
        rewards_of_rollout = rewards[np.where(rollouts == name)[0]]
        returns, running = np.zeros_like(rewards_of_rollout), 0.0
        for t in reversed(range(len(rewards_of_rollout))):
            running = rewards_of_rollout[t] + gamma * running
            returns[t] = running
        returns_of[name] = returns
    step_returns = np.zeros_like(rewards)
    for row, name in enumerate(rollouts):
        rows = np.where(rollouts == name)[0]
        step_returns[row] = returns_of[name][np.where(rows == row)[0][0]]

    anchors = np.empty(len(batch), dtype=object)
    for group in np.unique(batch.group):
        rows = np.where(batch.group == group)[0]
        clusters: dict[int, list[int]] = defaultdict(list)
        for place, anchor in enumerate(batch.observation[rows]):
            clusters[anchor.item()].append(rows[place])
        for members in clusters.values():
            name = str(uuid.uuid4())
            for row in members:
                anchors[row] = name

    outcomes = np.bincount(rollouts, rewards)[rollouts].astype(np.float32)
    episode = _peer_normalize(torch.from_numpy(outcomes), batch.group)
    step = _peer_normalize(torch.from_numpy(step_returns), anchors)
    return (episode + step).numpy().astype(np.float64)


def _peer_normalize(scores: torch.Tensor, names: NDArray[Any]) -> torch.Tensor:
    members: dict[Any, list[torch.Tensor]] = defaultdict(list)
    for row in range(len(scores)):
        members[names[row]].append(scores[row])
    mean: dict[Any, torch.Tensor] = {}
    deviation: dict[Any, torch.Tensor] = {}
    for name, values in members.items():
        mean[name] = torch.mean(torch.tensor(values))
        deviation[name] = torch.tensor(1.0)
        if len(values) > 1:
            deviation[name] = torch.std(torch.tensor(values))
    result = torch.empty_like(scores)
    for row in range(len(scores)):
        name = names[row]
        result[row] = (scores[row] - mean[name]) / (deviation[name] + 1e-6)
    return result


def seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Returns the minimal seconds of several runs."""
    return min(timed(function)[0] for _ in range(repeats))


def scaling(sizes: list[int], group_size: int) -> None:
    """Prints the seconds of every rule at every size, and the ratio of the last two."""
    print(f"{f'groups of {group_size}, seconds':<24}", end="")
    print("".join(f"{size:>12,}" for size in sizes) + f"{'growth':>10}")
    batches = [random_batch(size, group_size) for size in sizes]
    for name in CREDIT_RULES.names():
        rule = bind_credit(name, {}).credit
        times = [seconds(partial(rule, batch, **further_inputs(name, batch))) for batch in batches]
        growth = f"{times[-1] / times[-2]:10.1f}" if len(times) > 1 else ""
        print(f"{name:<24}" + "".join(f"{t:12.4f}" for t in times) + growth, flush=True)
    print()


def further_inputs(rule: str, batch: StepBatch) -> dict[str, Any]:
    """Returns artificial inputs of a rule beyond the batch. Their creation is not measured."""
    outcomes = np.bincount(batch.rollout, batch.reward)[batch.rollout]
    places = [f"go to cabinet {k}" for k in range(61)]
    inputs = {
        "actions": [places[k] for k in batch.context],
        "answer_logprobs": -1.0 - batch.context % 7 / 7,
        "final_f1": outcomes,
        "final_word_set_f1": outcomes,
        "gold_passages": [("Ada: She wrote notes.", "Lum Hill: A town in the north.")] * len(batch),
        "gold_walkthrough": [tuple(places[1:7])] * len(batch),
        "hindsight_logprobs": -0.5 - batch.context % 7 / 7,
        "plans": Plans(batch.context % 4 == 0, batch.context, np.full(len(batch), 3, np.int8)),
        "values": _artificial_values(batch),
    }
    return {name: inputs[name] for name in bind_credit(rule, {}).reads}


def _artificial_values(batch: StepBatch) -> Values:
    """Returns three values per state, for responses of a single token."""
    state = np.repeat((batch.context % 7 / 7)[:, None], 3, axis=1)
    ends = (batch.terminated | batch.truncated)[:, None]
    one = np.ones(len(batch), dtype=np.int64)
    return Values(state, np.where(ends, 0.0, np.roll(state, -1, 0)), one, state, one > 0)


def worst_cases(steps: int, group_size: int, length: int = 1000) -> None:
    """Prints the seconds of rules with nonlinear cost on their hardest inputs."""
    batch = random_batch(steps, group_size)
    rollout = np.arange(steps) // length
    last = np.diff(rollout, append=steps) > 0
    deep = replace(
        batch,
        group=rollout // group_size,
        rollout=rollout,
        reward=last.astype(np.float64),
        context=np.arange(steps),
        next_context=np.arange(steps) + 1,
        terminated=last,
        truncated=np.zeros(steps, dtype=bool),
        won=last,
    )
    cases: dict[str, Callable[[], object]] = {
        "hgpo, 8 past anchors": partial(hgpo, batch, HGPOParameters(past_anchors=8)),
        f"graphgpo, {length:,} states in a row": partial(bind_credit("graphgpo", {}), deep),
        f"rewardflow, {length:,} states in a row": partial(bind_credit("rewardflow", {}), deep),
    }
    print(f"Worst cases at {steps:,} transitions in groups of {group_size}, seconds")
    for name, case in cases.items():
        print(f"  {name:<36}{seconds(case, repeats=1):8.4f}", flush=True)
    print()


def parts(steps: int) -> None:
    """Prints the seconds of TRCA's parts."""
    batch, budgets = random_batch(steps), Budgets()
    judgments, rollout, kinds = batch.judgments, batch.rollout, batch.categories
    groups = joint_codes(batch.group, batch.context)
    pieces: dict[str, Callable[[], object]] = {
        "r^F": lambda: foundational_reward(judgments, kinds, budgets),
        "r^B": lambda: breakthrough_reward(judgments, rollout, kinds, budgets),
        "returns": lambda: discounted_returns(batch.reward, rollout, 0.95),
        "context codes": lambda: joint_codes(batch.group, batch.context),
        "A^S": lambda: normalize(batch.reward, groups, ddof=0, epsilon=1e-6),
        "A^E": lambda: trajectory_advantage(batch, ddof=0, epsilon=1e-6),
    }
    print(f"TRCA's parts at {steps:,} transitions, seconds")
    for name, piece in pieces.items():
        print(f"  {name:<14}{seconds(piece):8.4f}")


def against_peer(steps: int) -> None:
    """Compares GiGPO with the method of its public code on the same batch."""
    batch = random_batch(steps)
    public = GiGPOParameters(
        baseline_over="step_row", anchor="observation", invalid_action_penalty=0.0
    )

    def ours() -> NDArray[np.float64]:
        return gigpo(batch, public)

    difference = np.abs(ours() - peer_gigpo(batch)).max()
    gigpo_s, peer = seconds(ours), seconds(lambda: peer_gigpo(batch), repeats=1)
    trca = seconds(partial(bind_credit("trca", {}), batch))
    print(f"\nGiGPO at {steps:,} transitions, largest difference {difference:.1e} (float32 peer)")
    print(f"  public code's method  {peer:8.4f} s")
    print(f"  gigpo                 {gigpo_s:8.4f} s, {peer / gigpo_s:,.0f} times as fast")
    print(f"  trca                  {trca:8.4f} s, {peer / trca:,.0f} times as fast")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--peer-steps", type=int, default=25_600)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for group_size in GROUP_SIZES:
        scaling(arguments.sizes, group_size)
    for group_size in GROUP_SIZES:
        worst_cases(max(arguments.sizes), group_size)
    parts(max(arguments.sizes))
    against_peer(arguments.peer_steps)


if __name__ == "__main__":
    main()
