"""Measures a rubric library: what it says of agents that win, that cope, and that guess.

::

    env = make("alfworld", library="my_rubric.yaml", split="train")
    report = measure(env, env.unwrapped.task_ids[:40])
    report.problems  # operators that never fire, always fire, or fire together
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from trca.envs.check import random_player
from trca.envs.text_env import MissingPartError, TextEnv
from trca.rubric import CATEGORIES, RubricLibrary

AGENTS: Final = ("oracle", "demonstrator", "random")
"""Who plays: the oracle sees all, the demonstrator what an agent sees; random guesses, at times
with nonsense."""
OVERLAP: Final = 0.9
"""Two operators overlap when at least this share of the steps on which one fires has both."""


@dataclass(frozen=True)
class AgentReport:
    """What a library says of one agent.

    Attributes:
        episodes: Episodes played.
        success: Share of them that were won.
        coverage: Share of the Evidence and Execution operators that fired in an episode, on
            average.
        firing: float64 (M,): share of steps on which each operator fires.
        steps: Steps played.
    """

    episodes: int
    success: float
    coverage: float
    firing: NDArray[np.float64]
    steps: int


@dataclass(frozen=True)
class LibraryReport:
    """What a library says of every agent.

    Attributes:
        library: The library.
        agents: The report of each agent that the environment has.
        lacking: What the environment lacks for the others, in words.
        overlaps: Pairs of operators that fire together, with the share of steps on which one fires
            that have both.
    """

    library: RubricLibrary
    agents: Mapping[str, AgentReport]
    lacking: tuple[str, ...]
    overlaps: tuple[tuple[str, str, float], ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What makes the library weak, in words."""
        found = []
        rates = np.array([report.firing for report in self.agents.values()])
        for number, operator in enumerate(self.library.operators):
            always = [
                name for name, rate in zip(self.agents, rates, strict=True) if rate[number] == 1
            ]
            if not rates[:, number].any():
                found.append(f"{operator.id} never fires")
            elif always:
                found.append(f"{operator.id} fires on every step of {' and '.join(always)}")
            elif operator.category == "invalidity" and self._on_oracle(number):
                found.append(f"{operator.id} blames the oracle")
        for first, second, share in self.overlaps:
            found.append(f"{first} and {second} fire together on {share:.0%} of their steps")
        return tuple(found)

    def _on_oracle(self, number: int) -> bool:
        return "oracle" in self.agents and bool(self.agents["oracle"].firing[number])


def measure(env: gymnasium.Env[str, str], tasks: Sequence[str], seed: int = 0) -> LibraryReport:
    """Plays tasks by every agent, once each.

    Args:
        env: A judged environment, as `trca.envs.make` gives it.
        tasks: Ids of the tasks.
        seed: Seed of the agent that guesses.

    Raises:
        ValueError: When the environment is not judged.
    """
    inner = env.unwrapped
    if not isinstance(inner, TextEnv) or not env.has_wrapper_attr("judge"):
        raise ValueError(
            f"{type(inner).__name__} has no rubric: give a library it can be judged by"
        )
    library: RubricLibrary = env.get_wrapper_attr("judge").library
    positive = library.categories != CATEGORIES.index("invalidity")
    reports, lacking, everything = {}, [], []
    for agent in AGENTS:
        try:
            played = [_play(env, task, _player(inner, agent, f"{seed}/{task}")) for task in tasks]
        except MissingPartError as error:
            lacking.append(str(error))
            continue
        steps = np.concatenate([judgments for judgments, _ in played])
        everything.append(steps)
        reports[agent] = AgentReport(
            episodes=len(played),
            success=float(np.mean([won for _, won in played])),
            coverage=float(np.mean([rows.max(axis=0)[positive].mean() for rows, _ in played])),
            firing=steps.mean(axis=0),
            steps=len(steps),
        )
    return LibraryReport(
        library, reports, tuple(lacking), _overlaps(library.ids, np.concatenate(everything))
    )


def _player(env: TextEnv, agent: str, seed: str) -> Callable[[Mapping[str, Any]], str]:
    if agent == "random":
        return random_player(env, seed)
    act = env.oracle_action if agent == "oracle" else env.demonstrator_action
    return lambda _: act()


def _play(
    env: gymnasium.Env[str, str], task: str, player: Callable[[Mapping[str, Any]], str]
) -> tuple[NDArray[np.uint8], bool]:
    """The judgments of an episode, a row a step, and whether it was won."""
    _, info = env.reset(options={"task": task})
    rows, over = [], False
    while not over:
        _, _, terminated, truncated, info = env.step(player(info))
        rows.append(info["rubric"]["judgments"])
        over = terminated or truncated
    return np.array(rows), bool(info["won"])


def _overlaps(
    ids: Sequence[str], judgments: NDArray[np.uint8]
) -> tuple[tuple[str, str, float], ...]:
    fired = judgments.astype(bool)
    found = []
    for one, other in itertools.combinations(range(len(ids)), 2):
        either = np.count_nonzero(fired[:, one] | fired[:, other])
        both = np.count_nonzero(fired[:, one] & fired[:, other])
        if either and both >= OVERLAP * either:
            found.append((ids[one], ids[other], both / either))
    return tuple(found)
