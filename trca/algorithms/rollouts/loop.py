"""The rollout loop: prompt, response, action, step, until every episode of every group has ended.

Each prompt goes to the engine when it is ready, and each completion is taken when it is there:
environments step while others generate. A turn never waits for the slowest environment::

    loop = RolloutLoop(make_env, engine, prompter, tokenizer)
    batch = loop.run([GroupRequest(0, task_id, "train", size=8, key=("training", 1, 0))], params)

A rollout whose environment, prompt or engine raises, or takes longer than its time limit, is played
once more at the end, in a fresh environment and from the same seeds. Where that fails too it is
missing, and its group with it or not (`Limits.on_missing_rollout`): a `Failure` holds the reason,
and every failure is an `Incident`. The other groups go on.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from trca.algorithms.rollouts.env_pool import EnvPool, PooledEnv, Start, Transition
from trca.algorithms.rollouts.seeding import derive_seed
from trca.algorithms.settings.parameters import OnMissingRollout
from trca.common.memory import own_memory_mb
from trca.common.threads import StuckError, Threads, wait
from trca.envs.responses import ACTION_FORMAT, ResponseFormat
from trca.envs.teams.env import RoleTransition, TeamEnv
from trca.envs.text_env import DEFAULT_AGENT
from trca.policies.engines.engine import Completion, Engine, Request, SamplingParams
from trca.policies.prompts import Prompter
from trca.policies.spans import Response, read_response
from trca.records import DEFAULT_MODULE, Rollout, Step, changed_facts
from trca.records.failures import Failure, Incident
from trca.records.packing import pack, unpack

logger = logging.getLogger(__name__)

_TICK_S: Final = 1.0
_PATIENCE: Final = 0.1
"""Seconds that a batch waits for its second half, for each that the last one took."""
_CLOSING_S: Final = 60.0
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
        memory: What the agent remembers of earlier trials, in place of the environment's memory;
            None for that of the environment.
        keep_finished: Whether finished rollouts stay when others of the group are missing, whatever
            `Limits.on_missing_rollout` is: an evaluation counts each of them.
    """

    group: int
    task_id: str
    split: str
    size: int
    key: tuple[int | str, ...]
    progress: float | None = None
    memory: str | None = None
    keep_finished: bool = False

    def options(self) -> dict[str, Any]:
        """Returns the options of the environment's ``reset``."""
        curriculum = {} if self.progress is None else {"progress": self.progress}
        return {"task": self.task_id, **curriculum}


@dataclass(frozen=True)
class Limits:
    """Time limits of rollouts, and what becomes of a group that lacks some.

    Attributes:
        generation_timeout_s: Seconds that a generation may take.
        env_step_timeout_s: Seconds that a step or a reset of an environment may take.
        rollout_timeout_s: Seconds that a rollout may take from its first prompt on.
        on_missing_rollout: ``drop_group``, or ``go_on`` with the other rollouts; see
            `GroupRequest.keep_finished`.
    """

    generation_timeout_s: float = math.inf
    env_step_timeout_s: float = math.inf
    rollout_timeout_s: float = math.inf
    on_missing_rollout: OnMissingRollout = "drop_group"


@dataclass
class RolloutBatch:
    """The rollouts of a number of groups.

    Attributes:
        rollouts: Finished rollouts, ordered by group and index.
        failures: The rollouts that are missing.
        incidents: All that failed, also where a second try went well.
        memory_mb: Memory of the process that sampled, of the largest where several did.
        seconds: Wall-clock seconds in ``generation``, ``environment`` and ``judging``.
    """

    rollouts: list[Rollout] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    memory_mb: float = 0.0
    seconds: dict[str, float] = field(
        default_factory=lambda: {"generation": 0.0, "environment": 0.0, "judging": 0.0}
    )

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as columns; see `trca.records.packing`."""
        rest = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rollouts"}
        return _unpacked, (pack(self.rollouts), rest)


def _unpacked(packed: dict[str, Any], rest: dict[str, Any]) -> RolloutBatch:
    return RolloutBatch(unpack(packed), **rest)


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
        limits: Limits = Limits(),
        open_engine: Callable[[], Engine] | None = None,
        keep_final_prompts: bool = False,
        module_of: Callable[[str, GroupRequest], str] | None = None,
    ) -> None:
        """Starts with an empty pool.

        Args:
            make_env: Makes an environment of a split; it takes actions.
            engine: The generation engine.
            prompter: Renders prompts.
            tokenizer: Tokenizer of the engine's model.
            response_format: How responses carry their actions.
            limits: Time limits, and what becomes of a group that lacks rollouts.
            open_engine: Opens an engine with the same weights, in place of one that died or hangs.
            keep_final_prompts: Whether truncated rollouts keep the prompt of their last state.
            module_of: Id of the policy that acts for an agent in an episode of a group; None where
                there is one policy.
        """
        self.engine = engine
        self.prompter = prompter
        self.pool = EnvPool(make_env, limits.env_step_timeout_s)
        self._limits = limits
        self._tick = min(limits.generation_timeout_s, limits.env_step_timeout_s, _TICK_S)
        self._looked = -math.inf
        self._batch_s = 0.0
        self._open_engine = open_engine
        self._keep_final_prompts = keep_final_prompts
        self._module_of = module_of or (lambda agent, request: DEFAULT_MODULE)
        self._engine_thread = Threads(1, "trca-engine")
        self._engine_failed = False
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
        first = [_Episode(request, index) for request in groups for index in range(request.size)]
        self._round(first, sampling, batch, "retried")
        failed = [episode for episode in first if episode.error]
        again = [_Episode(episode.request, episode.index, tries=2) for episode in failed]
        if again:
            self._renew_engine(batch)
            self._round(again, sampling, batch, "dropped")
        for request in groups:
            own = [e for e in first + again if e.request is request]
            done = [e for e in own if e.done]
            lacking, go_on = request.size - len(done), self._goes_on(request)
            if lacking:
                lost = lacking if done and go_on else request.size
                reason = next(e.error for e in reversed(own) if e.error)
                batch.failures.append(Failure(request.group, request.task_id, lost, reason))
            if not lacking or go_on:
                batch.rollouts += [rollout for e in done for rollout in e.rollouts.values()]
        self._renew_engine(batch)
        self._sleep()
        batch.rollouts.sort(key=lambda r: (r.group, r.index))
        batch.seconds |= self.pool.take_seconds()
        batch.memory_mb = own_memory_mb()
        return batch

    def close(self) -> None:
        """Closes the environments and the engine."""
        self.pool.close()
        self._engine_thread.close()
        self.engine.close()

    def _round(
        self, episodes: list[_Episode], sampling: SamplingParams, batch: RolloutBatch, action: str
    ) -> None:
        """Plays episodes to their ends.

        Args:
            episodes: The episodes, all of their first or all of their second try.
            sampling: How to sample.
            batch: Takes the incidents and the seconds.
            action: What is done about an episode that fails.
        """
        unstarted: dict[int, str] = {}
        for episode in episodes:
            group = episode.request.group
            if group in unstarted:
                episode.error = unstarted[group]
                continue
            try:
                self._reset(episode)
            except Exception as error:
                self._fail(episode, error, batch, action)
                unstarted[group] = episode.error
        for episode in [e for e in episodes if not e.error]:
            try:
                self._start(episode)
            except Exception as error:
                self._fail(episode, error, batch, action)
        self._play([e for e in episodes if not e.error], sampling, batch, action)
        for episode in episodes:
            if episode.env is not None:
                self.pool.give_back(episode.env, broken=not episode.done)

    def _goes_on(self, request: GroupRequest) -> bool:
        """Whether a group keeps its finished rollouts when others are missing."""
        return request.keep_finished or self._limits.on_missing_rollout == "go_on"

    def _reset(self, episode: _Episode) -> None:
        request = episode.request
        episode.env = self.pool.take(request.split, fresh=episode.tries > 1)
        seed = derive_seed(*request.key, request.group, episode.index, "reset") % 2**31
        episode.reset = self.pool.reset(episode.env, seed, request.options())

    def _start(self, episode: _Episode) -> None:
        """Waits for the reset of an episode's environment."""
        request, env = episode.request, episode.env
        assert env is not None
        assert episode.reset is not None
        episode.observation, episode.info = episode.reset()
        played = env.env.unwrapped
        instruction = episode.info["task"]  # in a team, as far as its first role may see it
        if isinstance(played, TeamEnv):
            instruction = played.instruction
        episode.rollouts = {
            agent: Rollout(
                task_id=request.task_id,
                split=request.split,
                task_type=episode.info["task_type"],
                group=request.group,
                index=episode.index,
                policy_version=self.engine.version,
                agent_id=agent,
                module_id=self._module_of(agent, request),
                instruction=instruction,
                operators=operators,
            )
            for agent, operators in env.operators.items()
        }

    def _play(
        self, episodes: list[_Episode], sampling: SamplingParams, batch: RolloutBatch, action: str
    ) -> None:
        """Plays started episodes to their ends."""
        arrived: _Arrived = SimpleQueue()
        ready, seconds = episodes, batch.seconds
        generating: set[_Episode] = set()
        stepping: set[_Episode] = set()
        unflushed, flushed = 0, -math.inf
        dropped: set[int] = set()

        def give_up(episode: _Episode, error: Exception) -> None:
            generating.discard(episode)
            episode.pending = None
            self._fail(episode, error, batch, action)
            if episode.tries > 1 and not self._goes_on(episode.request):
                dropped.add(episode.request.group)

        while True:
            start = time.perf_counter()
            for episode in ready:
                if episode.request.group in dropped:
                    continue
                try:
                    self._submit(episode, sampling, arrived)
                    generating.add(episode)
                    unflushed += 1
                except Exception as error:
                    give_up(episode, error)
            # A batch starts when it holds half of the episodes, and the others had their time: they
            # step meanwhile.
            patience = self._batch_s * _PATIENCE if stepping else 0.0
            if unflushed and unflushed >= len(stepping) and start - flushed >= patience:
                unflushed = 0
                flush_error = self._flush(len(generating))
                if flush_error is not None:
                    for episode in [e for e in _in_order(generating) if e.waits()]:
                        give_up(episode, flush_error)
                flushed = time.perf_counter()
            if generating:
                seconds["generation"] += time.perf_counter() - start
            elif not stepping:
                return
            acting: list[_Episode] = []
            ready = []
            timeout = min(self._tick, patience) if unflushed and patience else self._tick
            arrivals = self._arrivals(arrived, bool(generating), seconds, timeout)
            if any(e in generating and f is e.pending for e, f in arrivals):
                self._engine_failed = any(f.exception() for e, f in arrivals if e in generating)
            for episode, future in arrivals:
                if future is not episode.pending:  # it was given up
                    continue
                try:
                    if episode in generating:
                        generating.discard(episode)
                        self._read(episode, future.result())
                        acting.append(episode)
                    else:
                        stepping.discard(episode)
                        self._record(episode, future.result())
                        ready += [] if episode.done else [episode]
                except Exception as error:
                    give_up(episode, error)
            for episode, late in self._overdue(generating):
                give_up(episode, late)
            acting = [e for e in acting if e.request.group not in dropped]
            stepping.update(acting)
            self._act(acting, arrived)

    def _submit(self, episode: _Episode, sampling: SamplingParams, arrived: _Arrived) -> None:
        if episode.turns == 0:
            episode.started = time.monotonic()
        late = self._too_long(episode)
        if late is not None:
            raise late
        episode.prompt_ids = self._prompt(
            episode, episode.rollout, episode.observation, episode.info
        )
        episode.since = time.monotonic()
        turn = (episode.request.group, episode.index, episode.turns)
        seed = derive_seed(*episode.request.key, *turn)
        request = Request(episode.prompt_ids, seed, episode.rollout.module_id)
        episode.pending = self.engine.submit(request, sampling)
        episode.pending.add_done_callback(partial(_put, arrived, episode))

    def _flush(self, requests: int) -> Exception | None:
        """Lets the engine generate; returns its error, such as that it does not return."""
        start = time.perf_counter()
        error = self._call_engine(self.engine.flush, requests)
        self._batch_s = time.perf_counter() - start
        return error

    def _sleep(self) -> None:
        error = None if self._engine_failed else self._call_engine(self.engine.sleep, 0)
        if error is not None:
            what = type(self.engine).__name__
            logger.warning("engine %s does not go to sleep: %s", what, _one_line(error))

    def _call_engine(self, call: Callable[[], None], requests: int) -> Exception | None:
        task = self._engine_thread.submit(call)
        what = _engine_words(self.engine, requests)
        wait([task], self._limits.generation_timeout_s, lambda _: what)
        error = task.exception()
        self._engine_failed = error is not None
        return error if error is None or isinstance(error, Exception) else RuntimeError(repr(error))

    def _renew_engine(self, batch: RolloutBatch) -> None:
        """Opens another engine where the last one failed to the end."""
        if not self._engine_failed or self._open_engine is None:
            return
        what, reason = type(self.engine).__name__, "it does not generate any more"
        try:
            closing = self._engine_thread.submit(self.engine.close)
            wait([closing], _CLOSING_S, lambda _: f"{what}.close()")
            self.engine = self._open_engine()
            action, self._engine_failed = "opened again", False
        except Exception as error:
            action = f"not opened again: {_one_line(error)}"
        logger.warning("engine %s: %s; %s", what, reason, action)
        batch.incidents.append(Incident(time.time(), "engine", what, "", reason, action))

    def _too_long(self, episode: _Episode) -> StuckError | None:
        """The error of a rollout that takes too long."""
        limit = self._limits.rollout_timeout_s
        if time.monotonic() - episode.started <= limit:
            return None
        return StuckError(f"the rollout has not ended in {limit:g} s, after {episode.turns} steps")

    def _overdue(self, generating: set[_Episode]) -> list[tuple[_Episode, StuckError]]:
        """Gives up steps that take too long; returns the episodes that wait for too long.

        It looks once a tick: looking at each after each arrival costs more than a fast step.
        """
        now = time.monotonic()
        if now - self._looked < self._tick:
            return []
        self._looked = now
        self.pool.give_up_stuck()
        limit, late = self._limits.generation_timeout_s, []
        what = _engine_words(self.engine, len(generating))
        for episode in [e for e in _in_order(generating) if e.waits()]:
            error = self._too_long(episode)
            if now - episode.since > limit:
                self._engine_failed = True
                error = StuckError(f"{what} has not returned for {limit:g} s")
            if error is not None:
                late.append((episode, error))
        return late

    def _fail(self, episode: _Episode, error: Exception, batch: RolloutBatch, action: str) -> None:
        request = episode.request
        episode.error = reason = _one_line(error)
        which = f"{episode.index} of group {request.group}"
        incident = Incident(time.time(), "rollout", which, request.task_id, reason, action)
        batch.incidents.append(incident)
        logger.warning(
            "rollout %s, task %r: %s; %s", which, request.task_id, reason, action, exc_info=error
        )

    def _arrivals(
        self,
        arrived: _Arrived,
        generating: bool,
        seconds: dict[str, float],
        timeout: float,
    ) -> list[tuple[_Episode, Future[Any]]]:
        """Waits for one completion or step, and returns all that are there, in episode order.

        Returns none after a while without any.
        """
        start = time.perf_counter()
        arrivals: list[tuple[_Episode, Future[Any]]] = []
        with suppress(Empty):
            arrivals.append(arrived.get(timeout=timeout))
        waited = time.perf_counter() - start
        if generating:
            seconds["generation"] += waited
        else:
            self.pool.count(waited)
        with suppress(Empty):
            while True:
                arrivals.append(arrived.get_nowait())
        return sorted(arrivals, key=lambda a: a[0].place)

    def _read(self, episode: _Episode, completion: Completion) -> None:
        episode.completion = completion
        episode.response = read_response(completion.ids, self.tokenizer, self._format)
        if episode.response.plan is not None:
            episode.subgoals[episode.rollout.agent_id] = episode.response.plan.subgoal

    def _record(self, episode: _Episode, transition: Transition) -> None:
        """Adds the steps whose transitions have ended to the rollouts of their agents."""
        ended = _record(episode, transition)
        if episode.done and self._keep_final_prompts:
            for last in ended:
                rollout = episode.rollouts[last.agent]
                if rollout.truncated:
                    prompt = self._prompt(episode, rollout, last.observation, last.info)
                    rollout.final_prompt_ids = prompt

    def _act(self, episodes: list[_Episode], arrived: _Arrived) -> None:
        """Takes the step of each episode's response."""
        actions = [(e.env, e.response.action) for e in episodes if e.env and e.response]
        for episode, step in zip(episodes, self.pool.step(actions), strict=True):
            episode.pending = step
            step.add_done_callback(partial(_put, arrived, episode))

    def _prompt(
        self, episode: _Episode, rollout: Rollout, observation: str, info: Mapping[str, Any]
    ) -> NDArray[np.int32]:
        """What the policy of a rollout reads in a state that its agent sees so."""
        assert episode.env is not None
        steps, whole = rollout.steps, self._format.whole_history
        memory = episode.request.memory
        brief = info.get("brief") if self.prompter.template != "compact" else None
        return self.prompter.encode(
            instruction=brief or info["task"],
            step=len(steps),
            max_steps=episode.env.max_steps,
            history=[(s.observation, s.response if whole else s.action) for s in steps],
            observation=observation,
            admissible=info["admissible_actions"],
            idle=episode.env.idle_actions,
            memory=info.get("memory") if memory is None else memory,
            subgoal=episode.subgoals.get(rollout.agent_id, ""),
        )


@dataclass(frozen=True, slots=True)
class _Taken:
    """A step whose transition has not ended.

    Attributes:
        turn: Its number in the episode.
        observation: What the agent saw before it.
        prompt_ids: What its policy read.
        completion: What it sampled.
        response: The same, read.
    """

    turn: int
    observation: str
    prompt_ids: Any
    completion: Completion
    response: Response


@dataclass(eq=False)
class _Episode:
    request: GroupRequest
    index: int
    tries: int = 1
    env: PooledEnv | None = None
    reset: Callable[[], Start] | None = None
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    turns: int = 0
    taken: dict[str, _Taken] = field(default_factory=dict)
    started: float = 0.0
    observation: str = ""
    info: dict[str, Any] = field(default_factory=dict)
    prompt_ids: Any = None
    pending: Future[Any] | None = None
    since: float = 0.0
    completion: Completion | None = None
    response: Response | None = None
    subgoals: dict[str, str] = field(default_factory=dict)
    done: bool = False
    error: str = ""

    @property
    def rollout(self) -> Rollout:
        """That of the agent whose turn it is."""
        return self.rollouts[self.info.get("agent", DEFAULT_AGENT)]

    @property
    def place(self) -> tuple[int, int]:
        return self.request.group, self.index

    def waits(self) -> bool:
        return self.pending is not None and not self.pending.done()


_Arrived = SimpleQueue[tuple[_Episode, Future[Any]]]


def _in_order(episodes: set[_Episode]) -> list[_Episode]:
    return sorted(episodes, key=lambda episode: episode.place)


def _put(arrived: _Arrived, episode: _Episode, future: Future[Any]) -> None:
    arrived.put((episode, future))


def _engine_words(engine: Engine, requests: int) -> str:
    return f"engine {type(engine).__name__} with {requests} requests"


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _record(episode: _Episode, transition: Transition) -> Sequence[RoleTransition]:
    """Adds the steps whose transitions have ended to the rollouts; returns the transitions."""
    assert episode.completion is not None
    assert episode.response is not None
    observation, _, terminated, truncated, info = transition
    agent = episode.rollout.agent_id
    episode.taken[agent] = _Taken(
        episode.turns,
        episode.observation,
        episode.prompt_ids,
        episode.completion,
        episode.response,
    )
    episode.turns += 1
    in_team = "closed" in info
    closed: Sequence[RoleTransition] = info["closed"] if in_team else [_alone(agent, transition)]
    for ended in closed:
        rollout, taken = episode.rollouts[ended.agent], episode.taken.pop(ended.agent)
        rollout.steps.append(_step(taken, ended))
        rollout.last_observation = ended.observation
        if in_team:
            rollout.turns.append(taken.turn)
    episode.observation, episode.info = observation, info
    episode.done = bool(terminated or truncated)
    if episode.done:
        for rollout in episode.rollouts.values():
            rollout.won = bool(info["won"])
            rollout.score = float(info["score"])
            rollout.measures = dict(info.get("measures", {}))
            rollout.truncated = bool(truncated and not terminated)
    return closed


def _alone(agent: str, transition: Transition) -> RoleTransition:
    """The transition of the only agent."""
    observation, reward, _, _, info = transition
    return RoleTransition(
        agent=agent,
        reward=float(reward),
        parsed=info["parsed"],
        accepted=info["accepted"],
        observation=observation,
        info=info,
        context=info["context"],
        next_context=info["next_context"],
        facts=info.get("facts"),
        rubric=info.get("rubric"),
    )


def _step(taken: _Taken, ended: RoleTransition) -> Step:
    rubric = ended.rubric
    return Step(
        prompt_ids=taken.prompt_ids,
        response_ids=taken.completion.ids,
        action_mask=taken.response.action_mask,
        old_logprobs=taken.completion.logprobs,
        observation=taken.observation,
        response=taken.response.text,
        action=taken.response.action,
        context=str(ended.context),
        next_context=str(ended.next_context),
        reward=ended.reward,
        judgments=rubric["judgments"] if rubric else _NO_JUDGMENTS,
        parsed=bool(ended.parsed),
        accepted=bool(ended.accepted),
        foundational=rubric["foundational"] if rubric else 0.0,
        breakthrough=rubric["breakthrough"] if rubric else 0.0,
        facts=changed_facts(ended.facts),
        version=taken.completion.version,
    )
