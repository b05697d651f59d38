"""The rollout loop: prompt, response, action, step, until every episode of every group has ended.

Each prompt goes to the engine when it is ready, and each completion is taken when it is there:
environments step while others generate. A turn never waits for the slowest environment::

    loop = RolloutLoop(make_env, engine, prompter, tokenizer)
    batch = loop.run([GroupRequest(0, task_id, "train", size=8, key=("training", 1, 0))], params)

A group is missing when its environment, its prompt or the engine raises: it leaves a `Failure` with
the reason and no rollout, and the other groups go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from trca.algorithms.env_pool import EnvPool, PooledEnv, Transition
from trca.algorithms.packing import pack, unpack
from trca.algorithms.records import Rollout, Step, changed_facts
from trca.algorithms.seeding import derive_seed
from trca.envs.responses import ACTION_FORMAT, ResponseFormat
from trca.policies.engines.engine import Completion, Engine, Request, SamplingParams
from trca.policies.prompts import Prompter
from trca.policies.spans import Response, read_response

logger = logging.getLogger(__name__)

_NO_JUDGMENTS: NDArray[np.uint8] = np.frombuffer(b"", dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """One rollout group G(x) to sample.

    Attributes:
        group: Number of the group within the iteration or panel.
        task_id: The task x.
        split: Its split.
        size: Number of rollouts N.
        key: Key that the group's random streams are derived from.
        progress: Share of training that is done, from 0 to 1, for an environment with a curriculum;
            None outside training.
    """

    group: int
    task_id: str
    split: str
    size: int
    key: tuple[int | str, ...]
    progress: float | None = None

    def options(self) -> dict[str, Any]:
        """Returns the options of the environment's ``reset``."""
        curriculum = {} if self.progress is None else {"progress": self.progress}
        return {"task": self.task_id, **curriculum}


@dataclass(frozen=True, slots=True)
class Failure:
    """A group that is missing.

    Attributes:
        group: Number of the group.
        task_id: The task.
        rollouts: How many rollouts are missing with it.
        reason: The error, on one line.
    """

    group: int
    task_id: str
    rollouts: int
    reason: str


@dataclass
class RolloutBatch:
    """The rollouts of a number of groups.

    Attributes:
        rollouts: Finished rollouts, ordered by group and index.
        failures: The groups that are missing.
        seconds: Wall-clock seconds in ``generation``, ``environment`` and ``judging``.
    """

    rollouts: list[Rollout] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    seconds: dict[str, float] = field(
        default_factory=lambda: {"generation": 0.0, "environment": 0.0, "judging": 0.0}
    )

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as columns; see `trca.algorithms.packing`."""
        return _unpacked, (pack(self.rollouts), self.failures, self.seconds)


def _unpacked(packed: dict[str, Any], failures: Any, seconds: Any) -> RolloutBatch:
    return RolloutBatch(unpack(packed), failures, seconds)


class RolloutLoop:
    """Samples rollout groups with one engine.

    Attributes:
        engine: The generation engine.
        prompter: Renders prompts.
        tokenizer: Tokenizer of the engine's model.
        pool: The environments.
    """

    def __init__(
        self,
        make_env: Callable[[str], gymnasium.Env[str, str]],
        engine: Engine,
        prompter: Prompter,
        tokenizer: Any,
        response_format: ResponseFormat = ACTION_FORMAT,
    ) -> None:
        """Starts with an empty pool.

        Args:
            make_env: Makes an environment of a split; it takes actions.
            engine: The generation engine.
            prompter: Renders prompts.
            tokenizer: Tokenizer of the engine's model.
            response_format: How responses carry their actions.
        """
        self.engine = engine
        self.prompter = prompter
        self.pool = EnvPool(make_env)
        self.tokenizer = tokenizer
        self._format = response_format

    def run(self, groups: Sequence[GroupRequest], sampling: SamplingParams) -> RolloutBatch:
        """Samples every group to the end of its episodes.

        Args:
            groups: The groups.
            sampling: Temperature and limits; without stop strings, those of the response format.
        """
        if not sampling.stop:
            sampling = replace(sampling, stop=self._format.stop)
        batch = RolloutBatch()
        failed: dict[int, Failure] = {}
        episodes: list[_Episode] = []
        for request in groups:
            try:
                self._start(request, episodes)
            except Exception as error:
                _fail(failed, request, error)
        self._play(episodes, sampling, failed, batch.seconds)
        for episode in episodes:
            self.pool.give_back(episode.env, broken=episode.request.group in failed)
        finished = [e.rollout for e in episodes if e.request.group not in failed]
        batch.rollouts = sorted(finished, key=lambda r: (r.group, r.index))
        batch.failures = list(failed.values())
        batch.seconds |= self.pool.take_seconds()
        return batch

    def close(self) -> None:
        """Closes the environments and the engine."""
        self.pool.close()
        self.engine.close()

    def _start(self, request: GroupRequest, episodes: list[_Episode]) -> None:
        for index in range(request.size):
            env = self.pool.take(request.split)
            rollout = Rollout(
                task_id=request.task_id,
                split=request.split,
                task_type="",
                group=request.group,
                index=index,
                policy_version=self.engine.version,
                operators=env.operators,
            )
            episode = _Episode(request, env, rollout)
            episodes.append(episode)
            seed = derive_seed(*request.key, request.group, index, "reset") % 2**31
            episode.observation, episode.info = self.pool.reset(env, seed, request.options())
            rollout.task_type = episode.info["task_type"]
            rollout.instruction = episode.info["task"]

    def _play(
        self,
        episodes: list[_Episode],
        sampling: SamplingParams,
        failed: dict[int, Failure],
        seconds: dict[str, float],
    ) -> None:
        """Plays started episodes to their ends."""
        arrived: SimpleQueue[tuple[_Episode, Future[Any]]] = SimpleQueue()
        ready = episodes
        generating = stepping = unflushed = 0
        while True:
            start = time.perf_counter()
            for episode in ready:
                if episode.request.group not in failed:
                    try:
                        self._submit(episode, sampling).add_done_callback(
                            partial(_put, arrived, episode)
                        )
                        generating, unflushed = generating + 1, unflushed + 1
                    except Exception as error:
                        _fail(failed, episode.request, error)
            # A batch starts when it holds half of the episodes: the others step meanwhile.
            if unflushed and unflushed >= stepping:
                self.engine.flush()
                unflushed = 0
            if generating:
                seconds["generation"] += time.perf_counter() - start
            elif not stepping:
                return
            acting: list[tuple[_Episode, str]] = []
            ready = []
            for episode, future in self._arrivals(arrived, generating, seconds):
                try:
                    if episode.completion is None:
                        generating -= 1
                        episode.completion = future.result()
                        acting.append((episode, self._read(episode)))
                    else:
                        stepping -= 1
                        _record(episode, future.result())
                        ready += [] if episode.done else [episode]
                except Exception as error:
                    _fail(failed, episode.request, error)
            acting = [(e, action) for e, action in acting if e.request.group not in failed]
            stepping += len(acting)
            steps = self.pool.step([(episode.env, action) for episode, action in acting])
            for (episode, _), step in zip(acting, steps, strict=True):
                step.add_done_callback(partial(_put, arrived, episode))

    def _submit(self, episode: _Episode, sampling: SamplingParams) -> Future[Completion]:
        episode.prompt_ids = self._prompt(episode)
        episode.completion = None
        turn = (episode.request.group, episode.rollout.index, len(episode.rollout.steps))
        seed = derive_seed(*episode.request.key, *turn)
        return self.engine.submit(Request(episode.prompt_ids, seed), sampling)

    def _arrivals(
        self,
        arrived: SimpleQueue[tuple[_Episode, Future[Any]]],
        generating: int,
        seconds: dict[str, float],
    ) -> list[tuple[_Episode, Future[Any]]]:
        """Waits for one completion or step, and returns all that are there, in episode order."""
        start = time.perf_counter()
        arrivals = [arrived.get()]
        waited = time.perf_counter() - start
        if generating:
            seconds["generation"] += waited
        else:
            self.pool.count(waited)
        try:
            while True:
                arrivals.append(arrived.get_nowait())
        except Empty:
            return sorted(arrivals, key=lambda a: (a[0].request.group, a[0].rollout.index))

    def _read(self, episode: _Episode) -> str:
        """Reads the completion of an episode and returns its action."""
        assert episode.completion is not None
        episode.response = read_response(episode.completion.ids, self.tokenizer, self._format)
        return episode.response.action

    def _prompt(self, episode: _Episode) -> NDArray[np.int32]:
        steps = episode.rollout.steps
        return self.prompter.encode(
            task=episode.info["task"],
            step=len(steps),
            max_steps=episode.env.max_steps,
            history=[(s.observation, s.action) for s in steps],
            observation=episode.observation,
            admissible=episode.info["admissible_actions"],
            idle=episode.env.idle_actions,
            memory=episode.info.get("memory"),
        )


@dataclass
class _Episode:
    request: GroupRequest
    env: PooledEnv
    rollout: Rollout
    observation: str = ""
    info: dict[str, Any] = field(default_factory=dict)
    prompt_ids: Any = None
    completion: Completion | None = None
    response: Response | None = None
    done: bool = False


def _put(
    arrived: SimpleQueue[tuple[_Episode, Future[Any]]], episode: _Episode, future: Future[Any]
) -> None:
    arrived.put((episode, future))


def _record(episode: _Episode, transition: Transition) -> None:
    """Adds a step to the episode's rollout."""
    completion, response = episode.completion, episode.response
    assert completion is not None
    assert response is not None
    observation, reward, terminated, truncated, info = transition
    rubric = info.get("rubric")
    rollout = episode.rollout
    rollout.steps.append(
        Step(
            prompt_ids=episode.prompt_ids,
            response_ids=completion.ids,
            action_mask=response.action_mask,
            old_logprobs=completion.logprobs,
            observation=episode.observation,
            response=response.text,
            action=response.action,
            context=str(info["context"]),
            next_context=str(info["next_context"]),
            reward=float(reward),
            judgments=rubric["judgments"] if rubric else _NO_JUDGMENTS,
            parsed=bool(info["parsed"]),
            accepted=bool(info["accepted"]),
            foundational=rubric["foundational"] if rubric else 0.0,
            breakthrough=rubric["breakthrough"] if rubric else 0.0,
            facts=changed_facts(info.get("facts")),
            version=completion.version,
        )
    )
    episode.observation, episode.info = observation, info
    episode.done = bool(terminated or truncated)
    if episode.done:
        rollout.last_observation = observation
        rollout.won = bool(info["won"])
        rollout.score = float(info["score"])
        rollout.measures = dict(info.get("measures", {}))
        rollout.truncated = bool(truncated and not terminated)


def _fail(failed: dict[int, Failure], request: GroupRequest, error: Exception) -> None:
    if request.group in failed:
        return
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    failed[request.group] = Failure(request.group, request.task_id, request.size, reason)
    logger.warning(
        "group %d of task %r is missing: %s", request.group, request.task_id, reason, exc_info=error
    )
