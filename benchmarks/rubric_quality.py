"""Quality of an environment's rubric on good, weak and blind agents, and its cost.

    python benchmarks/rubric_quality.py alfworld --tasks 60
    python benchmarks/rubric_quality.py alfworld --set games=official --set split=valid_seen
    python benchmarks/rubric_quality.py webshop --tasks 200
    python benchmarks/rubric_quality.py searchqa --tasks 200
    python benchmarks/rubric_quality.py --recorded RUN/rollouts/iteration_000120/train.parquet

Agents: the oracle (sees the full state), the demonstrator (sees an agent's observations), a weak
agent (the demonstrator's action with probability 0.4, otherwise a random action), a random agent
(admissible actions) and a blind agent (admissible actions, stale actions, nonsense and empty
texts). Recorded rollouts of a policy are a further agent, ``recorded``. Prints the firing rate of
each operator per step, the coverage of the positive operators at the end of a rollout and its
correlation with success, the share of steps of failed rollouts with a nonzero judgment, the groups
of equal contexts in eight weak rollouts, and microseconds of processor time per transition. The
output ends with the checked claims.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trca.envs import make
from trca.records import read_rollouts
from trca.rubric import CATEGORIES, RubricLibrary
from trca.tune_configs.files import assignments

NONSENSE = {
    "alfworld": ["", "go to the kitchen", "take spoon 9 from table 9", "open bed 1"],
    "webshop": ["", "buy the first one", "click[spoon]", "search[spoon]"],
    "searchqa": ["", "who knows", "open[9]", "search[ ]", "search[spoon]"],
}
AGENTS = ("oracle", "demonstrator", "weak", "random", "blind")
GAMMA, LAMBDA = 0.95, 0.8
ROLLOUTS = 8


@dataclass
class Rollout:
    """One episode: actions and observations, and the judgments of the rubric."""

    task: str
    task_type: str
    first: tuple[str, list[str]] = ("", [])
    won: bool = False
    steps: list[tuple[str, str, list[str]]] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    judgments: list[Any] = field(default_factory=list)
    memories: list[str] = field(default_factory=list)


def action_of(
    agent: str, env: Any, info: dict[str, Any], rng: np.random.Generator, past: list[str]
) -> str:
    """Returns the agent's next action."""
    unwrapped = env.unwrapped
    if agent == "oracle":
        return str(unwrapped.oracle_action())
    if agent == "demonstrator" or (agent == "weak" and rng.random() < 0.4):
        return str(unwrapped.demonstrator_action())
    if agent == "blind" and rng.random() < 0.4:
        here = next((c for c in info["admissible_actions"] if c.startswith("examine")), "look")
        nonsense = [
            *NONSENSE[env.get_wrapper_attr("judge").library.environment],
            past[int(rng.integers(len(past)))],
        ]
        return str(rng.choice([*nonsense, here.replace("examine", "open")]))
    return str(unwrapped.random_action(rng))


def play(env: Any, task: str, agent: str, rng: np.random.Generator) -> Rollout:
    """Plays an episode of an agent."""
    observation, info = env.reset(options={"task": task})
    rollout = Rollout(info["task"], info["task_type"], (observation, info["admissible_actions"]))
    over = False
    past = list(info["admissible_actions"])
    while not over:
        action = action_of(agent, env, info, rng, past)
        observation, reward, terminated, truncated, info = env.step(action)
        past += info["admissible_actions"]
        rollout.steps.append((action, observation, info["admissible_actions"]))
        rollout.contexts.append(info["context"])
        rollout.rewards.append(float(reward) + info["rubric"]["reward"])
        rollout.judgments.append(info["rubric"]["judgments"])
        rollout.memories.append(info["memory"])
        rollout.won = rollout.won or bool(info["won"])
        over = terminated or truncated
    return rollout


def read_recorded(path: str) -> list[Rollout]:
    """Reads a file of rollouts of a run: task type, success and judgments."""
    rollouts = []
    for recorded in read_rollouts(Path(path)):
        if recorded.steps:
            rollout = Rollout(recorded.task_id, recorded.task_type, won=recorded.won)
            rollout.judgments = [tuple(step.judgments.tolist()) for step in recorded.steps]
            rollouts.append(rollout)
    return rollouts


def coverage(rollout: Rollout, positive: np.ndarray) -> float:
    """Returns the share of the positive operators that fired in a rollout."""
    return float(np.array(rollout.judgments).max(axis=0)[positive].mean())


def print_firing(rollouts: dict[str, list[Rollout]], library: RubricLibrary) -> None:
    """Prints the share of steps on which each operator fires, per agent."""
    print(f"\n{'share of steps an operator fires on':42}" + "".join(f"{a:>13}" for a in rollouts))
    rates = {
        agent: np.concatenate([r.judgments for r in group]).mean(axis=0)
        for agent, group in rollouts.items()
    }
    for number, operator in enumerate(library.operators):
        shares = "".join(f"{rates[agent][number]:13.3f}" for agent in rollouts)
        print(f"{operator.category:12}{operator.id:30}{shares}")


def print_coverage(rollouts: dict[str, list[Rollout]], positive: np.ndarray) -> None:
    """Prints final coverage and success per agent, and their correlation."""
    print(
        f"\n{'':20}{'episodes':>10}{'steps':>8}{'success':>9}{'coverage':>10}{'won':>7}{'lost':>7}"
        f"{'judged':>9}"
    )
    for agent, group in rollouts.items():
        cover = np.array([coverage(r, positive) for r in group])
        won = np.array([r.won for r in group])
        of_won, of_lost = (f"{cover[m].mean():7.3f}" if m.any() else "      -" for m in (won, ~won))
        steps = np.mean([len(r.judgments) for r in group])
        lost = [np.array(r.judgments).any(axis=1) for r in group if not r.won]
        judged = f"{np.concatenate(lost).mean():9.3f}" if lost else "        -"
        print(
            f"{agent:20}{len(group):10}{steps:8.1f}{won.mean():9.3f}{cover.mean():10.3f}"
            f"{of_won}{of_lost}{judged}"
        )
    print("(judged: share of the steps of failed rollouts with a nonzero judgment)")
    everyone = list(itertools.chain(*rollouts.values()))
    print("correlation of final coverage with success:")
    for name, group in [("all", everyone), *rollouts.items()]:
        print(f"  {name:14}{correlation(group, positive):6.3f}")
    for task_type in sorted({r.task_type for r in everyone}):
        group = [r for r in everyone if r.task_type == task_type]
        print(f"  {task_type:14}{correlation(group, positive):6.3f}")


def correlation(rollouts: list[Rollout], positive: np.ndarray) -> float:
    """Returns Pearson's correlation of final coverage and success; NaN if one is constant."""
    cover = np.array([coverage(r, positive) for r in rollouts])
    won = np.array([r.won for r in rollouts], dtype=float)
    if cover.std() == 0 or won.std() == 0:
        return float("nan")
    return float(np.corrcoef(cover, won)[0, 1])


def print_contexts(groups: list[list[Rollout]]) -> None:
    """Prints sizes of context groups, and the share of return variance that contexts explain.

    The share is adjusted for the number of groups (1 - within / total mean squares): a random
    grouping explains nothing.
    """
    sizes: list[int] = []
    within = total = 0.0
    freedom_within = freedom_total = 0
    for group in groups:
        returns: dict[str, list[float]] = defaultdict(list)
        for rollout in group:
            discounted = 0.0
            pairs = zip(reversed(rollout.rewards), reversed(rollout.contexts), strict=True)
            for reward, context in pairs:
                discounted = reward + GAMMA * discounted
                returns[context].append(discounted)
        everything = np.concatenate(list(returns.values()))
        sizes += [len(r) for r in returns.values() for _ in r]
        total += float(((everything - everything.mean()) ** 2).sum())
        freedom_total += len(everything) - 1
        within += sum(float(((np.array(r) - np.mean(r)) ** 2).sum()) for r in returns.values())
        freedom_within += len(everything) - len(returns)
    single = np.mean(np.array(sizes) == 1)
    explained = 1 - (within / freedom_within) / (total / freedom_total)
    print(
        f"\ncontexts of {ROLLOUTS} weak rollouts of a task: a step shares its group with "
        f"{np.mean(sizes) - 1:.1f} steps (median {np.median(sizes) - 1:.0f}), {single:.1%} of the "
        f"groups have a single step; contexts explain {explained:.1%} of the variance of returns"
    )


def print_costs(rollouts: list[Rollout], env: Any) -> None:
    """Prints microseconds per transition of adapter, judge, and context with memory line."""
    judge, adapter = env.get_wrapper_attr("judge"), env.unwrapped.adapter_class()
    clock = time.process_time
    adapting = judging = describing = 0.0
    count = 0
    for rollout in rollouts:
        adapter.reset(rollout.task, *rollout.first)
        for step in rollout.steps:
            began = clock()
            facts = adapter.step(*step)
            adapted = clock()
            judge.judge(adapter.binding, facts)
            judged = clock()
            _ = adapter.context, adapter.memory
            adapting += adapted - began
            judging += judged - adapted
            describing += clock() - judged
            count += 1
    parts = [("adapter", adapting), ("judge", judging), ("context and memory", describing)]
    print(f"\nmicroseconds per transition ({count} transitions):")
    for name, seconds in [*parts, ("together", adapting + judging + describing)]:
        print(f"  {name:20}{seconds / count * 1e6:7.1f}")
    lengths = [len(memory) for r in rollouts for memory in r.memories]
    print(f"memory line: {np.mean(lengths):.0f} characters, at most {max(lengths)}")


def print_claims(rollouts: dict[str, list[Rollout]], library: RubricLibrary) -> bool:
    """Prints the claims about a rubric; returns whether all claims hold."""
    positive = library.categories != CATEGORIES.index("invalidity")
    fired = {a: np.concatenate([r.judgments for r in rollouts[a]]) for a in AGENTS}
    mean = {a: float(np.mean([coverage(r, positive) for r in rollouts[a]])) for a in AGENTS}
    everyone = list(itertools.chain(*rollouts.values()))
    oracle = np.asarray(fired["oracle"].any(axis=0))
    ever = np.any([f.any(axis=0) for f in fired.values()], axis=0)
    always = np.any([f.all(axis=0) for f in fired.values()], axis=0)
    claims: list[tuple[str, bool]] = [
        ("every positive operator fires on oracle rollouts", bool(oracle[positive].all())),
        ("no Invalidity operator fires on oracle rollouts", not oracle[~positive].any()),
        ("every operator fires for some agent", bool(ever.all())),
        ("no operator fires on every step of an agent", not always.any()),
        ("coverage: oracle > weak > blind", mean["oracle"] > mean["weak"] > mean["blind"]),
        (
            "coverage of random rollouts is below half of the oracle's",
            2 * mean["random"] < mean["oracle"],
        ),
        ("coverage correlates with success (r > 0.3)", correlation(everyone, positive) > 0.3),
    ]
    print()
    for claim, holds in claims:
        print(f"{'holds' if holds else 'FAILS'}  {claim}")
    return all(holds for _, holds in claims)


def main() -> int:
    """Runs the agents and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("environment", nargs="?", choices=NONSENSE, default="alfworld")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[])
    parser.add_argument("--recorded", metavar="FILE")
    options = parser.parse_args()
    arguments = {"split": "train", **assignments(options.set)}
    env: Any = make(options.environment, **arguments)
    everything = env.unwrapped.task_ids
    rng = np.random.default_rng(0)
    count = min(options.tasks, len(everything))
    tasks = [everything[k] for k in rng.choice(len(everything), count, replace=False)]
    weak = [[play(env, task, "weak", rng) for _ in range(ROLLOUTS)] for task in tasks]
    rollouts = {
        agent: list(itertools.chain(*weak))
        if agent == "weak"
        else [play(env, task, agent, rng) for task in tasks]
        for agent in AGENTS
    }
    if options.recorded:
        rollouts["recorded"] = read_recorded(options.recorded)
    library = RubricLibrary.load(options.environment)
    print(f"{options.environment} {arguments}: {len(tasks)} tasks")
    print_firing(rollouts, library)
    print_coverage(rollouts, library.categories != CATEGORIES.index("invalidity"))
    print_contexts(weak)
    print_costs(rollouts["weak"], env)
    return 0 if print_claims(rollouts, library) else 1


if __name__ == "__main__":
    raise SystemExit(main())
