"""Self-imitation: learners train on good rollouts once more in a later iteration.

::

    gain of a rollout = R(tau_i) - median of the mean outcomes of all groups so far
    kept in iteration k:  rollouts with a mean advantage and a gain above 0
    replayed in iteration n, when ``replay_size`` rollouts are kept; then the replay is empty:
        A_i = gain of the rollout in iteration n,  if the gain is above 0
    loss = loss of the iteration's rollouts + w(n) mean loss of the replayed rollouts
    w(n) = replay_weight (1 - cos(pi n / replay_ramp)) / 2  for n < replay_ramp, replay_weight after

The importance ratio of a replayed action is relative to the policy that sampled it, and is clipped.
The advantage is the outcome's for every credit rule: a judgment of an old step within its group
does not apply to the current policy. The median rises with the policy, so that old rollouts lose
their gain.

This is the replay of SPEAR (Qin et al., arXiv 2509.22601). Differences from the paper and
the public code:

=======================  ===========================================================================
Curriculum               Only the replay: without reward for the use of tools, covariance clip and
                         Dr.BoT's settings (see `aggregation`, `on_zero_advantage`).
Baseline                 Without the division by the median of the groups' standard deviations,
                         which is 0 while success is rare, as in the public code's ALFWorld runs
                         (``norm_adv_by_std_in_grpo=False``).
Baseline's memory        The last 10,240 groups, as in the public code.
When                     At ``replay_size`` rollouts, all of them; the public code waits for 1.5
                         times as many and draws a power of two.
Age                      At most ``replay_max_age`` iterations, 10 as in its README (its runs: 5).
Ramp                     None by default (``replay_ramp: 0``). The public scripts name 100
                         iterations for ALFWorld and 200 for WebShop. The scripts do not pass the
                         number on, so that the public default, 200, holds in both.
Criterion                Also the gain: under TRCA, failures have advantages above 0 and would take
                         places. Rollouts without a tool call count; the public code's search runs
                         skip these.
KL and entropy           Also on replayed rows, with the weight of the row.
=======================  ===========================================================================
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from trca.algorithms.base.crediting import by_module
from trca.algorithms.learner.rows import Rows, join_rows, make_rows
from trca.algorithms.settings.parameters import TextParameters
from trca.records import Rollout, by_agent
from trca.records.store import from_table, to_table

_BASELINE_GROUPS: Final = 10_240


class Replay:
    """Kept rollouts of one agent for a later update."""

    def __init__(self, size: int, max_age: int) -> None:
        """Starts empty; the newest ``size`` rollouts stay, at most ``max_age`` iterations."""
        self._max_age = max_age
        self._kept: deque[tuple[int, Rollout]] = deque(maxlen=size)
        self._means: deque[float] = deque(maxlen=_BASELINE_GROUPS)

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, iteration: int) -> list[Rollout]:
        """Takes all rollouts out as soon as ``size`` rollouts are kept; empty before.

        Returns those with a gain above 0 in this iteration, with new advantages and as one group.
        """
        while self._kept and iteration - self._kept[0][0] > self._max_age:
            self._kept.popleft()
        if len(self._kept) < (self._kept.maxlen or 0):
            return []
        gains = [(rollout, self._gain(rollout)) for _, rollout in self._kept]
        self._kept.clear()
        return [
            replace(rollout, group=0, advantages=np.full(len(rollout.steps), gain))
            for rollout, gain in gains
            if gain > 0.0
        ]

    def keep(self, iteration: int, rollouts: Sequence[Rollout]) -> None:
        """Keeps the good ones of all rollouts of an iteration."""
        groups: dict[int, list[float]] = {}
        for rollout in rollouts:
            groups.setdefault(rollout.group, []).append(_outcome(rollout))
        self._means += [float(np.mean(outcomes)) for outcomes in groups.values()]
        good = [
            replace(rollout, advantages=None)
            for rollout in rollouts
            if self._gain(rollout) > 0.0 and rollout.advantages is not None
            if np.mean(rollout.advantages) > 0.0
        ]
        # Copies, because arrays of fetched rollouts are views of complete batches.
        self._kept += [(iteration, rollout) for rollout in from_table(to_table(good))]

    def get_state(self) -> dict[str, Any]:
        """Returns the kept rollouts and the outcomes of earlier groups."""
        return {
            "iterations": [iteration for iteration, _ in self._kept],
            "rollouts": to_table([rollout for _, rollout in self._kept]),
            "means": list(self._means),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the kept rollouts and the outcomes."""
        kept = state["rollouts"]
        if isinstance(kept, dict):  # of an earlier version: the replay starts empty
            kept, state = to_table([]), {**state, "iterations": []}
        rollouts = from_table(kept)
        self._kept.clear()
        self._kept += zip(state["iterations"], rollouts, strict=True)
        self._means.clear()
        self._means += state["means"]

    def _gain(self, rollout: Rollout) -> float:
        return _outcome(rollout) - float(np.median(self._means))


def replay_weight(iteration: int, weight: float, ramp: int) -> float:
    """w(n), the weight of the replayed rollouts in iteration n, from 0; new ones have weight 1."""
    return weight * (1.0 - math.cos(math.pi * min(1.0, iteration / ramp))) / 2 if ramp else weight


def add_replayed(
    rows: Rows,
    replayed: Sequence[Rollout],
    weight: float,
    settings: TextParameters,
) -> Rows:
    """Adds the rows of replayed rollouts of one group."""
    more = make_rows(replayed, settings)
    marked = np.ones(len(more), dtype=bool)
    more = replace(more, weights=weight * more.weights, replayed=marked, replayed_total=len(more))
    return join_rows(rows, more)


class AgentReplays:
    """The replays of an algorithm, one per agent."""

    def __init__(self, config: Any) -> None:
        """Starts empty; takes the algorithm's config."""
        self._config = config
        self._replays: dict[str, Replay] = {}

    def of(self, agent: str) -> Replay:
        """The replay of an agent."""
        settings = self._config.settings
        new = Replay(settings.replay_size, settings.replay_max_age)
        return self._replays.setdefault(agent, new)

    def add(
        self, parts: Mapping[str, Rows], rollouts: Sequence[Rollout], iteration: int
    ) -> tuple[dict[str, Rows], int]:
        """Adds the rows of due rollouts, and keeps the good rollouts of the iteration.

        The roles that one policy acts for have equal shares of the weight. Returns rows by policy,
        and the number of replayed rollouts.
        """
        config, settings = self._config, self._config.settings
        weight = replay_weight(iteration, settings.replay_weight, settings.replay_ramp)
        learning = [r for r in rollouts if config.learns(r.agent_id, r.module_id)]
        acting = Counter(module for _, module in {(r.agent_id, r.module_id) for r in learning})
        rows_of, count = dict(parts), 0
        for agent, played in by_agent(learning).items():
            replayed = self.of(agent).take(iteration)
            self.of(agent).keep(iteration, played)
            count += len(replayed)
            for module, due in by_module(replayed).items():
                share = weight / max(acting[module], 1)
                rows = rows_of.get(module, make_rows([], settings))
                rows_of[module] = add_replayed(rows, due, share, settings)
        return {module: rows_of[module] for module in sorted(rows_of)}, count

    def get_state(self) -> dict[str, Any]:
        """The states of the replays by agent."""
        return {agent: replay.get_state() for agent, replay in self._replays.items()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the replays."""
        self._replays = {}
        for agent, kept in state.items():
            self.of(agent).set_state(kept)


def _outcome(rollout: Rollout) -> float:
    return float(sum(step.reward for step in rollout.steps))
