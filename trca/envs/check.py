"""Plays episodes, and checks an environment: oracle, random agent, repetition, hostile actions."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from inspect import formatannotation
from typing import Any, Final, NamedTuple, get_type_hints

import gymnasium
import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from trca.common.errors import words
from trca.envs.annotate import add_place
from trca.envs.text_env import UNPARSED, MissingPartError, TextEnv
from trca.envs.tool_calls import write_calls

_MEGABYTE: Final = 2**20
HOSTILE_ACTIONS: Final = (
    "\0 cabinet",
    "look\0",
    "".join(map(chr, [*range(32), 127, *range(128, 160)])),
    "\x1b[2J\x1b]0;title\x07",
    "\ud800",
    "look \udfff\ud800",
    "\ufffe\uffff\U0010ffff",
    "x" * _MEGABYTE,
    "go " * (_MEGABYTE // 2),
    "[" * _MEGABYTE,
)
"""Actions that crash careless environments: control characters, surrogates, megabytes."""

Player = Callable[[Mapping[str, Any]], str]
"""Chooses the next action from the last ``info``."""


class PlayedStep(NamedTuple):
    """An action of an episode, its result, and whether the episode ends with it."""

    action: str
    observation: str
    reward: float
    info: dict[str, Any]
    is_last: bool


def play(
    env: gymnasium.Env[str, str],
    info: Mapping[str, Any],
    player: Callable[[Mapping[str, Any]], str | None],
) -> Iterator[PlayedStep]:
    """Plays a started episode to its end, or until the player returns None.

    ``info`` is the result of ``reset``, from which the player chooses the first action.
    """
    is_last = False
    while not is_last and (action := player(info)) is not None:
        observation, reward, terminated, truncated, info = env.step(action)
        is_last = bool(terminated or truncated)
        yield PlayedStep(action, observation, float(reward), info, is_last)


@dataclass
class CheckReport:
    """The result of a self-check.

    Attributes:
        tasks: Number of tasks played.
        unsolved: Ids of the tasks that the oracle failed.
        oracle_steps: Mean length of the oracle's episodes, in steps; None without oracle.
        random_wins: Number of tasks that the random agent completed.
        unlike: Ids of the tasks with different transcripts in two episodes of the same actions.
        misfits: Descriptions of the fields of facts and binding with values of a wrong type.
        steps: Number of steps of the oracle and the random agent together.
        firing: Number of steps on which each operator fired, in library order. Empty without
            rubric.
        errors: Descriptions of the exceptions, with class, task and line.
        raised: Number of tasks with an exception.
    """

    tasks: int
    firing: Counter[str]
    unsolved: tuple[str, ...] = ()
    oracle_steps: float | None = None
    random_wins: int = 0
    unlike: tuple[str, ...] = ()
    misfits: tuple[str, ...] = ()
    steps: int = 0
    errors: tuple[str, ...] = ()
    raised: int = 0

    @property
    def problems(self) -> tuple[str, ...]:
        """Descriptions of the problems; empty if the environment is sound."""
        problems = list(self.errors)
        if self.unsolved:
            problems.append(
                f"the oracle fails on {len(self.unsolved)} tasks: {_some(self.unsolved)}"
            )
        if 2 * self.random_wins > self.tasks:
            problems.append(f"a random agent wins {self.random_wins} of {self.tasks} tasks")
        if self.unlike:
            problems.append(f"{len(self.unlike)} tasks do not repeat: {_some(self.unlike)}")
        problems += self.misfits
        return tuple(problems)

    @property
    def ok(self) -> bool:
        """Whether the check shows no problem."""
        return not self.problems


def self_check(
    env: gymnasium.Env[str, str], tasks: Sequence[str] | None = None, seed: int = 0
) -> CheckReport:
    """Plays every task once with the oracle and twice with the random agent.

    The first task also gets `HOSTILE_ACTIONS`. Without oracle, nothing is said about solvability.
    After an exception the check continues with the next task.

    Args:
        env: A text environment, with or without wrappers. With a rubric, the report counts the
            operators that fire.
        tasks: Ids of the tasks to play; None for the complete split.
        seed: Seed of the random agent.

    Raises:
        TypeError: If the environment is not a `TextEnv`.
    """
    inner = env.unwrapped
    if not isinstance(inner, TextEnv):
        raise TypeError(
            f"{type(inner).__name__} is not a TextEnv: check an environment of trca.envs.make"
        )
    tasks = inner.task_ids if tasks is None else tasks
    report = CheckReport(len(tasks), Counter(dict.fromkeys(_operators(env), 0)))
    misfits: dict[str, str] = {}
    errors: dict[str, str] = {}

    @contextmanager
    def reporting(task_id: str, action: str | None = None) -> Iterator[None]:
        """Reports each place in the code that raises once; ``action`` is a hostile action."""
        try:
            yield
        except Exception as error:
            add_place(error, env)
            sent, message = "", words(error)
            if action is None:
                report.raised += 1
            else:
                more = f"... of {len(action):,} characters" if len(action) > 20 else ""
                sent = f" after the action {action[:20]!r}{more}"
            place = str(getattr(error, "__notes__", message))
            errors.setdefault(place, f"task {task_id!r} raises{sent}: {message}")

    oracle_steps = 0
    oracle = bool(tasks) and _has_oracle(env, tasks[0])
    for task_id in tasks:
        with reporting(task_id):
            if oracle:
                episode = _play(
                    env, task_id, lambda _: inner.oracle_action(), report.firing, misfits
                )
                oracle_steps += len(episode) - 1
                report.unsolved += () if episode[-1][2] else (task_id,)
            player = random_player(inner, f"{seed}/{task_id}")
            transcript = _play(env, task_id, player, report.firing, misfits)
            report.steps += len(transcript) - 1
            report.random_wins += transcript[-1][2]
            player = random_player(inner, f"{seed}/{task_id}")
            if transcript != _play(env, task_id, player, Counter(), {}):
                report.unlike += (task_id,)
    for action in HOSTILE_ACTIONS if tasks else ():
        with reporting(tasks[0], action):
            env.reset(options={"task": tasks[0]})
            env.step(action)
    report.steps += oracle_steps
    report.oracle_steps = oracle_steps / max(1, len(tasks)) if oracle else None
    report.misfits, report.errors = tuple(misfits.values()), tuple(errors.values())
    return report


def _has_oracle(env: gymnasium.Env[str, str], task_id: str) -> bool:
    """Whether the environment has an oracle; True if an exception hides this."""
    try:
        env.reset(options={"task": task_id})
        env.unwrapped.oracle_action()  # type: ignore[attr-defined]
    except Exception as error:  # the check of this task reports any other exception
        return not isinstance(error, MissingPartError)
    return True


def _operators(env: gymnasium.Env[str, str]) -> list[str]:
    """Ids of the operators that judge the agent, or all roles of a team."""
    roles = env.get_wrapper_attr("operators") if env.has_wrapper_attr("operators") else {}
    return list(dict.fromkeys(name for role in roles.values() for name in role.ids))


def random_player(env: TextEnv, seed: str) -> Player:
    """A player of admissible actions (80%), earlier admissible actions, garbage and blanks."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    earlier: list[str] = []

    def choose(info: Mapping[str, Any]) -> str:
        earlier.extend(info["admissible_actions"])
        if rng.random() < 0.8:
            return env.random_action(rng)
        stale = [
            earlier[int(number)] for number in rng.integers(len(earlier), size=2 * bool(earlier))
        ]
        unknown = [write_calls([("abracadabra", {})])] if "tools" in info else []
        choices = [*stale, "abracadabra", UNPARSED, *unknown]
        return choices[int(rng.integers(len(choices)))]

    return choose


def _play(
    env: gymnasium.Env[str, str],
    task_id: str,
    player: Player,
    firing: Counter[str],
    misfits: dict[str, str],
) -> list[tuple[str, tuple[str, ...], bool]]:
    """The transcript of one episode: observation, admissible actions, won.

    Adds the operators that fire, and descriptions of fields with values of a wrong type.
    """
    observation, info = env.reset(options={"task": task_id})
    transcript = [(observation, tuple(info["admissible_actions"]), False)]
    inner: Any = env.unwrapped
    if inner.adapter_class is not None:
        misfits |= _misfits(inner.adapter.binding)
    for step in play(env, info, player):
        info = step.info
        transcript.append((step.observation, tuple(info["admissible_actions"]), info["won"]))
        judged = [(each.facts, each.rubric) for each in info.get("closed", ())]
        for facts, rubric in judged or [(info.get("facts"), info.get("rubric"))]:
            misfits |= {} if facts is None else _misfits(facts)
            firing.update(rubric["fired"] if rubric else ())
    return transcript


def _misfits(record: object) -> dict[str, str]:
    """The fields of facts or of a binding with values of a wrong type, described by name."""
    misfits = {}
    record_type: Any = type(record)
    for name, (kind, declared) in _field_types(record_type).items():
        value = getattr(record, name)
        try:
            declared.validate_python(value)
        except ValidationError:
            field, type_name = f"{record_type.__name__}.{name}", formatannotation(kind)
            misfits[field] = f"{field} was {value!r}, and is declared {type_name}"
    return misfits


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
