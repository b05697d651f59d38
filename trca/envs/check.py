"""The self-check of an environment: its oracle wins, its random agent does not, and it repeats.

report = self_check(gymnasium.make("trca/ALFWorld-v0", split="valid_seen"))
assert report.ok, report.problems
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from inspect import formatannotation
from typing import Any, get_type_hints

import gymnasium
import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from trca.envs.teams.env import TeamEnv
from trca.envs.text_env import UNPARSED, TextEnv

Player = Callable[[Mapping[str, Any]], str]
"""Chooses the next action from the last ``info``."""


@dataclass(frozen=True)
class CheckReport:
    """What a self-check found.

    Attributes:
        tasks: Number of tasks played.
        unsolved: Tasks that the oracle did not complete.
        oracle_steps: Mean length of the oracle's episodes.
        random_wins: Tasks that the random agent completed.
        unlike: Tasks whose transcript was another the second time, the actions being the same.
        misfits: Fields of facts and binding that had values of other types than theirs, in words.
        steps: Steps played by the oracle and by the random agent together.
        firing: Steps on which each rubric operator fired, in library order; empty when unjudged.
    """

    tasks: int
    unsolved: tuple[str, ...]
    oracle_steps: float
    random_wins: int
    unlike: tuple[str, ...]
    misfits: tuple[str, ...]
    steps: int
    firing: Mapping[str, int]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, in words; empty when the environment is sound."""
        found = []
        if self.unsolved:
            found.append(f"the oracle fails on {len(self.unsolved)} tasks: {_some(self.unsolved)}")
        if 2 * self.random_wins > self.tasks:
            found.append(f"a random agent wins {self.random_wins} of {self.tasks} tasks")
        if self.unlike:
            found.append(f"{len(self.unlike)} tasks do not repeat: {_some(self.unlike)}")
        found += self.misfits
        return tuple(found)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def self_check(
    env: gymnasium.Env[str, str], tasks: Sequence[str] | None = None, seed: int = 0
) -> CheckReport:
    """Plays every task by the oracle once and at random twice.

    Args:
        env: A text environment, wrapped or not; with rubric judgments, their firing is counted.
        tasks: The tasks to play; None for all of the split.
        seed: Seed of the random agent.
    """
    inner = env.unwrapped
    if not isinstance(inner, TextEnv):
        raise TypeError(f"{type(inner).__name__} is no TextEnv: only those can be checked")
    tasks = inner.task_ids if tasks is None else tasks
    firing = Counter(dict.fromkeys(_operators(env), 0))
    unsolved, unlike = [], []
    misfits: dict[str, str] = {}
    oracle_steps = random_steps = random_wins = 0
    for task in tasks:
        episode = _play(env, task, lambda _: inner.oracle_action(), firing, misfits)
        oracle_steps += len(episode) - 1
        if not episode[-1][2]:
            unsolved.append(task)
        once = _play(env, task, random_player(inner, f"{seed}/{task}"), firing, misfits)
        random_steps += len(once) - 1
        random_wins += once[-1][2]
        if once != _play(env, task, random_player(inner, f"{seed}/{task}"), Counter(), {}):
            unlike.append(task)
    return CheckReport(
        tasks=len(tasks),
        unsolved=tuple(unsolved),
        oracle_steps=oracle_steps / max(1, len(tasks)),
        random_wins=random_wins,
        unlike=tuple(unlike),
        misfits=tuple(misfits.values()),
        steps=oracle_steps + random_steps,
        firing=dict(firing),
    )


def _operators(env: gymnasium.Env[str, str]) -> list[str]:
    """The operators that judge its agent, or the roles of its team."""
    if isinstance(env.unwrapped, TeamEnv):
        roles = env.unwrapped.operators.values()
        return list(dict.fromkeys(name for role in roles for name in role.ids))
    return list(env.get_wrapper_attr("judge").library.ids) if env.has_wrapper_attr("judge") else []


def random_player(env: TextEnv, seed: str) -> Player:
    """Mostly takes an admissible action; at times an earlier one, garbage, or nothing."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    earlier: list[str] = []

    def choose(info: Mapping[str, Any]) -> str:
        earlier.extend(info["admissible_actions"])
        if not earlier or rng.random() < 0.8:
            return env.random_action(rng)
        stale = [earlier[int(number)] for number in rng.integers(len(earlier), size=2)]
        return [*stale, "abracadabra", UNPARSED][int(rng.integers(4))]

    return choose


def _play(
    env: gymnasium.Env[str, str],
    task: str,
    player: Player,
    firing: Counter[str],
    misfits: dict[str, str],
) -> list[tuple[str, tuple[str, ...], bool]]:
    """The transcript of one episode: observation, admissible actions, won.

    Args:
        env: The environment.
        task: Id of the task.
        player: Who plays.
        firing: Counts the operators that fire.
        misfits: Gets the fields of facts and binding that do not fit their types.
    """
    observation, info = env.reset(options={"task": task})
    transcript = [(observation, tuple(info["admissible_actions"]), False)]
    inner: Any = env.unwrapped
    if inner.adapter_class is not None:
        misfits |= _misfits(inner.adapter.binding)
    over = False
    while not over:
        observation, _, terminated, truncated, info = env.step(player(info))
        transcript.append((observation, tuple(info["admissible_actions"]), info["won"]))
        for facts in [each.facts for each in info.get("closed", ())] or [info.get("facts")]:
            if facts is not None:
                misfits |= _misfits(facts)
        judged = [each.rubric for each in info["closed"]] if "closed" in info else []
        judged += [info.get("rubric")]
        firing.update(name for rubric in judged if rubric for name in rubric["fired"])
        over = terminated or truncated
    return transcript


def _misfits(record: object) -> dict[str, str]:
    """The fields of facts or of a binding that have values of other types than theirs."""
    found = {}
    record_type: Any = type(record)
    for name, (kind, declared) in _field_types(record_type).items():
        value = getattr(record, name)
        try:
            declared.validate_python(value)
        except ValidationError:
            field, said = f"{record_type.__name__}.{name}", formatannotation(kind)
            found[field] = f"{field} was {value!r}, and is declared {said}"
    return found


@cache
def _field_types(record_type: type) -> dict[str, tuple[Any, TypeAdapter[Any]]]:
    strict = ConfigDict(strict=True)
    return {
        field.name: (kind, TypeAdapter(kind, config=strict))
        for field in fields(record_type)
        for kind in [get_type_hints(record_type)[field.name]]
    }


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
