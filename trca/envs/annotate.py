"""Wrappers that add context, memory, facts and rubric judgments to ``info``; lines of errors."""

from __future__ import annotations

import inspect
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, SupportsFloat

import gymnasium
import numpy as np
from numpy.typing import NDArray

from trca.envs.adapter import Adapter
from trca.envs.info import RubricInfo
from trca.envs.plain import PlainEnv
from trca.envs.text_env import DEFAULT_AGENT, TextEnv
from trca.rubric import Budgets, EpisodeRewards, Judge, RubricLibrary
from trca.rubric.rewards import DEFAULT_LAMBDA


@dataclass(frozen=True)
class Operators:
    """The rubric operators that judge an agent: ids in library order, and categories, int8 (M,)."""

    ids: tuple[str, ...]
    categories: NDArray[np.int8]


NO_OPERATORS = Operators((), np.empty(0, np.int8))
"""The operators of an agent without rubric."""
_ISOLATED: Final = str(Path(__file__).with_name("isolated.py"))


def load_judge(library: str | Path, adapter_class: type[Adapter]) -> Judge:
    """Loads a library and checks it against the facts and the binding of an adapter."""
    loaded = RubricLibrary.load(library)
    return Judge(loaded, adapter_class.facts_type, adapter_class.binding_type)


class ContextAnnotation(gymnasium.Wrapper[str, str, str, str]):
    """Adds the adapter's context, memory line and facts to ``info``.

    ``reset`` adds ``context`` and ``memory``. ``step`` adds ``context`` (before the action),
    ``next_context``, ``memory`` and ``facts``. In an environment without adapter, the context is
    the observation, the memory is empty, and facts are absent. Observations, rewards, termination
    and truncation stay unchanged. An exception of the environment gets a note with class and line.
    """

    def __init__(self, env: gymnasium.Env[str, str]) -> None:
        """Wraps a `TextEnv`, which may have other wrappers."""
        super().__init__(env)
        text_env = env.unwrapped
        if not isinstance(text_env, TextEnv):
            raise TypeError(f"{type(text_env).__name__} is not a TextEnv: use trca.envs.make")
        self._text_env = text_env
        self._adapts = text_env.adapter_class is not None
        self._context = ""

    @property
    def operators(self) -> dict[str, Operators]:
        """The operators of each agent."""
        return {DEFAULT_AGENT: NO_OPERATORS}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode."""
        try:
            observation, info = self.env.reset(seed=seed, options=options)
            info["context"] = self._annotate(observation, info)
        except Exception as error:
            add_place(error, self)
            raise
        return observation, info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment and annotates the transition."""
        context = self._context
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
            info["next_context"] = self._annotate(observation, info)
            if self._adapts:
                info["facts"] = self._text_env.adapter.facts
        except Exception as error:
            add_place(error, self)
            raise
        info["context"] = context
        return observation, reward, terminated, truncated, info

    def _annotate(self, observation: str, info: dict[str, Any]) -> str:
        """Adds the memory line of the current state, and returns its context."""
        adapter = self._text_env.adapter if self._adapts else None
        self._context = adapter.context if adapter else observation
        info["memory"] = adapter.memory if adapter else ""
        return self._context


class RubricAnnotation(ContextAnnotation):
    """Judges each transition and adds ``rubric`` (a `RubricInfo`) to ``info``.

    After ``reset``, no operator has fired and all rewards are 0: a vector environment, which resets
    its environments within ``step``, then has ``rubric`` in each ``info``.
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        library: str | Path | None = None,
        budgets: Budgets | Mapping[str, float] | None = None,
        lambda_: float = DEFAULT_LAMBDA,
    ) -> None:
        """Wraps a `TextEnv` that has an adapter, and may have other wrappers.

        Without a library, the library of the environment judges. Judgments do not depend on
        ``budgets``, the category budgets for ``info["rubric"]``.
        """
        super().__init__(env)
        name, adapter_class = type(self._text_env).__name__, self._text_env.adapter_class
        if adapter_class is None:
            raise ValueError(f"{name} declares no adapter_class: a rubric needs one")
        library = library or self._text_env.library
        if library is None:
            raise ValueError(f"{name} declares no rubric library: set library")
        self.judge = load_judge(library, adapter_class)
        self.reward_by(budgets, lambda_)
        self.rewards = self._next_rewards
        self.judging_s = 0.0  # seconds of judgments so far

    @property
    def operators(self) -> dict[str, Operators]:
        """The operators of each agent."""
        library = self.judge.library
        return {DEFAULT_AGENT: Operators(library.ids, library.categories)}

    def reward_by(
        self, budgets: Budgets | Mapping[str, float] | None, lambda_: float = DEFAULT_LAMBDA
    ) -> None:
        """Sets budgets and lambda from the next episode on."""
        self._next_rewards = EpisodeRewards(self.judge.library.categories, budgets, lambda_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode without covered operators."""
        self.rewards = self._next_rewards
        self.rewards.reset()
        observation, info = super().reset(seed=seed, options=options)
        self._fired = np.zeros(len(self.judge.library.ids), dtype=bool)
        nothing = np.frombuffer(bytes(len(self.judge.library.ids)), np.uint8)
        info["rubric"] = RubricInfo(
            judgments=nothing, foundational=0.0, breakthrough=0.0, reward=0.0, fired=()
        )
        return observation, info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment and judges the transition."""
        observation, reward, terminated, truncated, info = super().step(action)
        start, library = time.perf_counter(), self.judge.library
        judgments = self.judge.judge(self._text_env.adapter.binding, info["facts"])
        judgments = library.supported(judgments, self._fired)
        info["rubric"] = rubric_info(judgments, self.rewards, library.ids)
        self.judging_s += time.perf_counter() - start
        return observation, reward, terminated, truncated, info


def rubric_info(
    judgments: NDArray[np.uint8], rewards: EpisodeRewards, ids: Sequence[str]
) -> RubricInfo:
    """The judgments of the next transition of an episode, uint8 (M,), with their rewards."""
    foundational, breakthrough, reward = rewards.step(judgments)
    return RubricInfo(
        judgments=judgments,
        foundational=foundational,
        breakthrough=breakthrough,
        reward=reward,
        fired=tuple([ids[number] for number in judgments.nonzero()[0].tolist()]),
    )


def add_place(error: BaseException, env: gymnasium.Env[str, str]) -> None:
    """Adds a note to an exception of an environment: ``in KeyDoor, at env.py:83 in unlock``.

    An exception that `trca.envs.isolated` raises gets no note: the child process added the note, or
    died, and the message names class and step.
    """
    inner = env.unwrapped
    if isinstance(inner, PlainEnv):
        inner = inner.plain.unwrapped
    frames = extract_tb(error.__traceback__)
    if frames and frames[-1].filename == _ISOLATED:
        return
    note = f"in {type(inner).__name__}{place(error, type(inner))}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def place(error: BaseException, env_class: type) -> str:
    """The last line of an exception in a file of an environment's class or a base class."""
    files = set()
    for base in env_class.__mro__:
        if not base.__module__.startswith(("gymnasium", "builtins", "trca.envs.text_env")):
            with suppress(TypeError, OSError):
                files.add(inspect.getfile(base))
    return line_in(files, error)


def line_in(files: Collection[str], error: BaseException) -> str:
    """The last line of an exception in some files, else at all: ``, at env.py:83 in unlock``."""
    frames = extract_tb(error.__traceback__)
    if not frames:
        return ""
    frame = ([each for each in frames if each.filename in files] or frames)[-1]
    return f", at {Path(frame.filename).name}:{frame.lineno} in {frame.name}"
