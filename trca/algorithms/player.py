"""Plays rollout groups: prompt, response, command, world, judgments, until every episode ends.

All live rollouts of all groups step together, with one engine call a turn. A group in which the
world, the prompt or the engine raises is missing: it leaves a `Failure` with the reason and no
rollout, and the others go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from trca.algorithms.records import Rollout, Step
from trca.algorithms.seeding import derive_seed
from trca.envs.annotate import RubricAnnotation
from trca.envs.responses import ACTION_FORMAT, ResponseFormat, TaggedResponse
from trca.policies.engines.engine import Completion, Engine, Request, Sampling
from trca.policies.prompts import Prompter
from trca.policies.spans import action_mask, response_text

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """One rollout group G(x) to play.

    Attributes:
        group: Number of the group within the iteration or panel.
        task_id: The task x.
        split: Its split.
        size: Number of rollouts N.
        key: What the group's random streams are derived from.
        progress: Share of training that is done, from 0 to 1, for a world with a curriculum; None
            outside training.
    """

    group: int
    task_id: str
    split: str
    size: int
    key: tuple[int | str, ...]
    progress: float | None = None

    def options(self) -> dict[str, Any]:
        """The options of the world's ``reset``."""
        told = {} if self.progress is None else {"progress": self.progress}
        return {"task": self.task_id, **told}


@dataclass(frozen=True, slots=True)
class Failure:
    """A group that is missing.

    Attributes:
        group: Number of the group.
        task_id: The task.
        rollouts: How many rollouts are missing with it.
        reason: The error in words.
    """

    group: int
    task_id: str
    rollouts: int
    reason: str


@dataclass
class Played:
    """What playing left.

    Attributes:
        rollouts: Finished rollouts, ordered by group and index.
        failures: The groups that are missing.
        seconds: Wall-clock seconds in ``generation``, ``world`` and ``judging``.
    """

    rollouts: list[Rollout] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    seconds: dict[str, float] = field(
        default_factory=lambda: {"generation": 0.0, "world": 0.0, "judging": 0.0}
    )


class Player:
    """Plays groups with one engine.

    Attributes:
        engine: The generation engine.
        prompter: Renders prompts.
    """

    def __init__(
        self,
        make_env: Callable[[str], gymnasium.Env[str, str]],
        engine: Engine,
        prompter: Prompter,
        tokenizer: Any,
        response_format: ResponseFormat = ACTION_FORMAT,
    ) -> None:
        """Prepares to play.

        Args:
            make_env: Makes a world of a split, annotated, taking commands.
            engine: The generation engine.
            prompter: Renders prompts.
            tokenizer: Decodes responses.
            response_format: How responses carry their commands.
        """
        self.engine = engine
        self.prompter = prompter
        self._tokenizer = tokenizer
        self._format = response_format
        self._worlds = _Worlds(make_env, response_format)

    def play(self, groups: Sequence[GroupRequest], sampling: Sampling) -> Played:
        """Plays every group to the end of its episodes.

        Args:
            groups: The groups.
            sampling: How to sample.
        """
        played = Played()
        failed: dict[int, Failure] = {}
        episodes: list[_Episode] = []
        for request in groups:
            try:
                self._start(request, episodes)
            except Exception as error:
                _fail(failed, request, error)
        everything = list(episodes)
        while live := [e for e in episodes if not e.done and e.request.group not in failed]:
            self._turn(live, sampling, failed, played.seconds)
            episodes = live
        for episode in everything:
            lost = episode.request.group in failed
            self._worlds.give_back(
                episode.request.split, episode.world, played.seconds, broken=lost
            )
        finished = [e.rollout for e in everything if e.request.group not in failed]
        played.rollouts = sorted(finished, key=lambda r: (r.group, r.index))
        played.failures = list(failed.values())
        return played

    def close(self) -> None:
        """Closes the worlds and the engine."""
        self._worlds.close()
        self.engine.close()

    def _start(self, request: GroupRequest, episodes: list[_Episode]) -> None:
        for index in range(request.size):
            rollout = Rollout(
                task_id=request.task_id,
                split=request.split,
                task_type="",
                group=request.group,
                index=index,
                policy_version=self.engine.version,
            )
            episode = _Episode(request, self._worlds.take(request.split), rollout)
            episodes.append(episode)
            seed = derive_seed(*request.key, request.group, index, "reset") % 2**31
            episode.observation, episode.info = episode.world.env.reset(
                seed=seed, options=request.options()
            )
            rollout.task_type = episode.info["task_type"]

    def _turn(
        self,
        live: list[_Episode],
        sampling: Sampling,
        failed: dict[int, Failure],
        seconds: dict[str, float],
    ) -> None:
        start = time.perf_counter()
        ready: list[_Episode] = []
        for episode in live:
            try:
                episode.prompt_ids = self._prompt(episode)
                ready.append(episode)
            except Exception as error:
                _fail(failed, episode.request, error)
        completions = self._generate(ready, sampling, failed)
        seconds["generation"] += time.perf_counter() - start
        for episode, completion in completions:
            if episode.request.group in failed:
                continue
            try:
                self._act(episode, completion)
            except Exception as error:
                _fail(failed, episode.request, error)

    def _prompt(self, episode: _Episode) -> np.ndarray[Any, np.dtype[np.int32]]:
        steps = episode.rollout.steps
        return self.prompter.encode(
            task=episode.info["task"],
            step=len(steps),
            max_steps=episode.world.max_steps,
            history=[(s.observation, s.command) for s in steps],
            observation=episode.observation,
            admissible=episode.info["admissible_actions"],
            memory=episode.info.get("memory"),
        )

    def _generate(
        self, episodes: list[_Episode], sampling: Sampling, failed: dict[int, Failure]
    ) -> list[tuple[_Episode, Completion]]:
        requests = [
            Request(
                e.prompt_ids,
                derive_seed(*e.request.key, e.request.group, e.rollout.index, len(e.rollout.steps)),
            )
            for e in episodes
        ]
        if not requests:
            return []
        try:
            return list(zip(episodes, self.engine.generate(requests, sampling), strict=True))
        except Exception as error:
            groups = {e.request.group for e in episodes}
            if len(groups) == 1:
                _fail(failed, episodes[0].request, error)
                return []
        # Some group broke the batch: generate group by group to lose that one alone.
        return [
            pair
            for group in sorted(groups)
            for pair in self._generate(
                [e for e in episodes if e.request.group == group], sampling, failed
            )
        ]

    def _act(self, episode: _Episode, completion: Completion) -> None:
        response = response_text(completion.ids, self._tokenizer)
        observation, reward, terminated, truncated, info = episode.world.env.step(response)
        rubric = info.get("rubric")
        rollout = episode.rollout
        rollout.steps.append(
            Step(
                prompt_ids=episode.prompt_ids,
                response_ids=completion.ids,
                action_mask=action_mask(completion.ids, self._tokenizer, self._format.span),
                logprobs=completion.logprobs,
                observation=episode.observation,
                response=response,
                command=self._format.parse(response),
                context=str(info["context"]),
                next_context=str(info["next_context"]),
                reward=float(reward),
                judgments=np.array(rubric["judgments"] if rubric else (), dtype=np.uint8),
                parsed=bool(info["parsed"]),
                accepted=bool(info["accepted"]),
            )
        )
        episode.observation, episode.info = observation, info
        episode.done = bool(terminated or truncated)
        if episode.done:
            rollout.won = bool(info["won"])
            rollout.score = float(info["score"])
            rollout.measures = dict(info.get("measures", {}))
            rollout.truncated = bool(truncated and not terminated)


@dataclass
class _World:
    env: gymnasium.Env[str, str]
    max_steps: int
    stopwatches: dict[str, _Stopwatch]


@dataclass
class _Episode:
    request: GroupRequest
    world: _World
    rollout: Rollout
    observation: str = ""
    info: dict[str, Any] = field(default_factory=dict)
    prompt_ids: Any = None
    done: bool = False


class _Stopwatch(gymnasium.Wrapper[str, str, str, str]):
    """Adds up the seconds spent in a world's steps and resets."""

    def __init__(self, env: gymnasium.Env[str, str]) -> None:
        super().__init__(env)
        self.seconds = 0.0

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        start = time.perf_counter()
        try:
            return self.env.reset(**kwargs)
        finally:
            self.seconds += time.perf_counter() - start

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        start = time.perf_counter()
        try:
            return self.env.step(action)
        finally:
            self.seconds += time.perf_counter() - start


class _Worlds:
    """A pool of worlds by split, since making one costs more than resetting it."""

    def __init__(
        self,
        make_env: Callable[[str], gymnasium.Env[str, str]],
        response_format: ResponseFormat,
    ) -> None:
        self._make_env = make_env
        self._format = response_format
        self._idle: dict[str, list[_World]] = {}

    def take(self, split: str) -> _World:
        idle = self._idle.setdefault(split, [])
        return idle.pop() if idle else self._make(split)

    def give_back(self, split: str, world: _World, seconds: dict[str, float], broken: bool) -> None:
        total, inner = world.stopwatches["total"], world.stopwatches.get("world")
        judging = total.seconds - inner.seconds if inner else 0.0
        seconds["judging"] += judging
        seconds["world"] += total.seconds - judging
        for stopwatch in world.stopwatches.values():
            stopwatch.seconds = 0.0
        if broken:
            world.env.close()
        else:
            self._idle[split].append(world)

    def close(self) -> None:
        for worlds in self._idle.values():
            for world in worlds:
                world.env.close()
        self._idle.clear()

    def _make(self, split: str) -> _World:
        env = self._make_env(split)
        stopwatches = {}
        wrapper: Any = env
        while isinstance(wrapper, gymnasium.Wrapper):
            if isinstance(wrapper, RubricAnnotation):
                wrapper.env = stopwatches["world"] = _Stopwatch(wrapper.env)
                break
            wrapper = wrapper.env
        stopwatches["total"] = _Stopwatch(env)
        return _World(
            env=TaggedResponse(stopwatches["total"], self._format),
            max_steps=env.get_wrapper_attr("max_steps"),
            stopwatches=stopwatches,
        )


def _fail(failed: dict[int, Failure], request: GroupRequest, error: Exception) -> None:
    if request.group in failed:
        return
    reason = f"{type(error).__name__}: {error}"
    failed[request.group] = Failure(request.group, request.task_id, request.size, reason)
    logger.warning(
        "group %d of task %r is missing: %s", request.group, request.task_id, reason, exc_info=error
    )
