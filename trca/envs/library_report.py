"""Describes an environment for a model that writes a library, and measures a library."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from trca.envs.annotate import ContextAnnotation
from trca.envs.check import Player, play, random_player
from trca.envs.registration import EnvClass, canonical, env_class, make_text_env
from trca.envs.teams.env import TeamEnv
from trca.envs.text_env import MissingPartError, TextEnv
from trca.rubric import CATEGORIES, RubricError, RubricLibrary
from trca.rubric.generation import Interface

AGENTS: Final = ("oracle", "demonstrator", "random")
"""The agents. The oracle reads the hidden truth, the demonstrator reads observations only, and the
random agent draws actions, some of them nonsense."""
OVERLAP: Final = 0.9
"""Smallest overlap to report: steps on which both operators fire, as a share of the steps on which
at least one of them fires."""
LAST_STEPS: Final = 3
"""Number of steps before success that are searched for blind spots."""
_ACTIONS: Final = 40
"""Number of random actions for the description of an environment."""
_ANSWERS: Final = 8
"""Largest number of actions in this description."""


@dataclass(frozen=True)
class AgentReport:
    """The judgments of one agent's episodes; ``success`` is the share of successful episodes.

    ``coverage`` is the mean share of the Evidence and Execution operators that fire in an episode,
    and ``firing``, float64 (M,), the share of steps on which each operator fires.
    """

    episodes: int
    success: float
    coverage: float
    firing: NDArray[np.float64]
    steps: int


@dataclass(frozen=True)
class LibraryReport:
    """The judgments of all agents by a library.

    Attributes:
        agents: Report by agent, for each agent that the environment provides.
        lacking: Descriptions of the parts that the environment lacks for the missing agents.
        overlaps: Pairs of operators that fire together, with their overlap (see `OVERLAP`).
        searched: Number of steps that are among the `LAST_STEPS` of a successful episode.
        blind_spots: The steps of these on which no operator fires: agent, task, number of later
            steps, action.
    """

    library: RubricLibrary
    agents: Mapping[str, AgentReport]
    lacking: tuple[str, ...]
    overlaps: tuple[tuple[str, str, float], ...]
    searched: int
    blind_spots: tuple[tuple[str, str, int, str], ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Descriptions of weak operators."""
        problems, oracle = [], self.agents.get("oracle")
        rates = np.array([report.firing for report in self.agents.values()])
        for number, operator in enumerate(self.library.operators):
            always = [
                name for name, rate in zip(self.agents, rates, strict=True) if rate[number] == 1
            ]
            if not rates[:, number].any():
                problems.append(f"{operator.id} never fires")
            elif always:
                problems.append(f"{operator.id} fires on every step of {' and '.join(always)}")
            elif operator.category == "invalidity" and oracle is not None and oracle.firing[number]:
                problems.append(f"{operator.id} blames the oracle")
        for first, second, share in self.overlaps:
            problems.append(f"{first} and {second} fire together on {share:.0%} of their steps")
        return tuple(problems)


def measure(env: gymnasium.Env[str, str], tasks: Sequence[str], seed: int = 0) -> LibraryReport:
    """Plays each task once with every agent, in an environment of `trca.envs.make` with a rubric.

    Raises:
        ValueError: If the environment has no rubric.
    """
    inner = env.unwrapped
    if isinstance(inner, TeamEnv):
        raise ValueError("the agents play alone: leave team out")
    if not isinstance(inner, TextEnv) or not env.has_wrapper_attr("judge"):
        raise ValueError(f"{type(inner).__name__} has no rubric: set library to a name or a path")
    library: RubricLibrary = env.get_wrapper_attr("judge").library
    positive = library.categories != CATEGORIES.index("invalidity")
    reports, lacking, everything = {}, [], []
    searched, blind_spots = 0, list[tuple[str, str, int, str]]()
    for agent in AGENTS:
        try:
            played = [_play(env, task_id, agent, seed) for task_id in tasks]
        except MissingPartError as error:
            lacking.append(str(error))
            continue
        steps = np.concatenate([judgments for judgments, *_ in played])
        for task_id, (judgments, won, actions) in zip(tasks, played, strict=True):
            for left in range(min(LAST_STEPS, len(actions)) if won else 0):
                searched += 1
                if not judgments[-1 - left].any():
                    blind_spots.append((agent, task_id, left, actions[-1 - left]))
        everything.append(steps)
        reports[agent] = AgentReport(
            episodes=len(played),
            success=float(np.mean([won for _, won, _ in played])),
            coverage=float(np.mean([rows.max(axis=0)[positive].mean() for rows, *_ in played])),
            firing=steps.mean(axis=0),
            steps=len(steps),
        )
    overlaps = _overlaps(library.ids, np.concatenate(everything))
    return LibraryReport(library, reports, tuple(lacking), overlaps, searched, tuple(blind_spots))


def _play(
    env: gymnasium.Env[str, str], task_id: str, agent: str, seed: int
) -> tuple[NDArray[np.uint8], bool, list[str]]:
    """The judgments of an episode, one row per step, whether the agent won, and its actions."""
    inner: Any = env.unwrapped
    players: dict[str, Player] = {
        "oracle": lambda _: inner.oracle_action(),
        "demonstrator": lambda _: inner.demonstrator_action(),
        "random": random_player(inner, f"{seed}/{task_id}"),
    }
    _, info = env.reset(options={"task": task_id})
    steps = list(play(env, info, players[agent]))
    judgments = np.array([step.info["rubric"]["judgments"] for step in steps])
    return judgments, steps[-1].info["won"], [step.action for step in steps]


def _overlaps(
    ids: Sequence[str], judgments: NDArray[np.uint8]
) -> tuple[tuple[str, str, float], ...]:
    fired = judgments.astype(bool)
    overlaps = []
    for first, second in itertools.combinations(range(len(ids)), 2):
        either = np.count_nonzero(fired[:, first] | fired[:, second])
        both = np.count_nonzero(fired[:, first] & fired[:, second])
        if either and both >= OVERLAP * either:
            overlaps.append((ids[first], ids[second], both / either))
    return tuple(overlaps)


def interface(env: EnvClass, **arguments: Any) -> Interface:
    """The interface of an environment: docstring, facts, binding, first state, transitions.

    The transitions answer random actions, some of them nonsense. Transitions that end the episode
    are left out, so that the interface reveals neither success nor failure.
    """
    declared = env_class(env)
    adapter_class = getattr(declared, "adapter_class", None)
    if adapter_class is None:
        raise RubricError(f"{env} declares no adapter_class: a rubric library needs its facts")
    summary = re.split(
        r"\n\n(?:Args|Attributes|Example|Raises):", inspect.cleandoc(declared.__doc__ or "")
    )[0]
    name = canonical(env) if isinstance(env, str) else env.__name__
    wrapped: Any = ContextAnnotation(make_text_env(env, **{"split": "train", **arguments}))
    try:
        inner = wrapped.unwrapped
        observation, info = wrapped.reset(options={"task": inner.task_ids[0]})
        return Interface(
            environment=inner.env_id or name.rpartition(":")[2],
            description=summary,
            instruction=info["task"],
            observation=observation,
            admissible=info["admissible_actions"],
            answers=_answers(wrapped, info),
            facts_type=adapter_class.facts_type,
            binding_type=adapter_class.binding_type,
        )
    finally:
        wrapped.close()


def _answers(env: Any, info: dict[str, Any]) -> list[tuple[str, str]]:
    task_id, act = info["task_id"], random_player(env.unwrapped, "interface")
    answers: dict[str, str] = {}
    for _ in range(_ACTIONS):
        action = act(info)
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset(options={"task": task_id})
        else:
            answers.setdefault(action, observation)
    return list(answers.items())[:_ANSWERS]
