"""`RolloutLoop`: samples rollout groups; `RolloutLoop.play` is the coroutine of an episode.

::

    loop = RolloutLoop(make_env, engine, prompter, tokenizer)
    batch = loop.run([GroupRequest(0, task_id, "train", size=8, key=("training", 1, 0))], params)

All episodes of a round run in one event loop. While an episode waits for its completion or its
environment, other episodes continue. Every response, action and seed is a function of the request,
so the order in which episodes continue has no effect on the rollouts.

A rollout is retried once if its environment, prompt or engine raises or exceeds a time limit. The
retry comes after the first round, in a fresh environment and from the same seeds. A second failure
makes the rollout missing: a `Failure` has the reason, and ``on_missing_rollout`` decides on the
rest of its group. Each failure is an `Incident`. Other groups continue.

`engine_guard` answers prompts, `env_pool` has the environments, `recording` makes the steps,
`programs` runs the agents of users.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch, derive_seed
from trca.algorithms.rollouts.callbacks import RunnerCallbacks
from trca.algorithms.rollouts.engine_guard import EngineGuard, one_line
from trca.algorithms.rollouts.env_pool import EnvPool, Transition
from trca.algorithms.rollouts.recording import Episode, Recorder, Teacher, Turn, View
from trca.algorithms.settings.groups import FailureSettings
from trca.common.process import own_memory_mb
from trca.common.threads import StuckError, run_to_end
from trca.envs.responses import ACTION_FORMAT, ResponseFormat
from trca.envs.teams.env import TeamEnv
from trca.policies.engines.engine import Completion, Engine, Request, SamplingParams
from trca.policies.prompts import Prompter
from trca.policies.prompts.control_tokens import response_ids
from trca.policies.spans import Response, read_response
from trca.records import DEFAULT_MODULE, Rollout
from trca.records.rollout import Failure, Incident

logger = logging.getLogger(__name__)

Outcome = Sequence[Rollout] | str
"""The rollouts of an episode, or why the episode failed, on one line."""
_DEFAULTS: Final = FailureSettings()


class GroupFailedError(Exception):
    """An episode ends because another episode of its group failed; the cause is that error."""


class Round:
    """What the episodes of a round share.

    ``is_retry`` is True for second tries, which take new environments. ``dropped`` has errors of
    rollouts by the group that is dropped for lack of them. ``started`` is set when every
    environment has started or failed.
    """

    def __init__(
        self, episodes: int, sampling: SamplingParams, is_retry: bool, at_once: float = math.inf
    ) -> None:
        self.sampling, self.is_retry = sampling, is_retry
        self.places = asyncio.Semaphore(int(min(episodes, at_once)))
        self.dropped: dict[int, Exception] = {}
        self.started = asyncio.Event()
        self._starting = episodes
        self._failed: dict[int, Exception] = {}
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def start_of(self, group: int) -> AsyncIterator[None]:
        """Starts the environments of a group one at a time, until one fails."""
        async with self._locks[group]:
            if group in self._failed:
                raise GroupFailedError from self._failed[group]
            try:
                yield
            except Exception as error:
                self._failed[group] = error
                raise

    def count_start(self) -> None:
        """Counts an episode as started or failed."""
        self._starting -= 1
        if not self._starting:
            self.started.set()


class RolloutLoop:
    """Samples rollout groups with one engine, under its time limit, and a pool of environments."""

    def __init__(
        self,
        make_env: Callable[..., gymnasium.Env[str, str]],
        engine: Engine,
        prompter: Prompter,
        tokenizer: Any,
        response_format: ResponseFormat = ACTION_FORMAT,
        limits: FailureSettings = _DEFAULTS,
        open_engine: Callable[[], Engine] | None = None,
        keep_final_prompts: bool = False,
        module_of: Callable[[str, GroupRequest], str] = lambda agent, request: DEFAULT_MODULE,
        teacher: Teacher | None = None,
        callbacks: RunnerCallbacks | None = None,
        program: Callable[[Any, str], Any] | None = None,
    ) -> None:
        """Starts with an empty pool.

        ``open_engine`` opens an engine with the same weights in place of a failed engine; None
        keeps the failed engine. With ``keep_final_prompts`` truncated training rollouts keep the
        prompt of their last state, which a critic reads. ``module_of`` returns the id of the policy
        that acts for an agent of a group. ``teacher`` gives the responses of groups with a
        demonstration.
        """
        self.pool = EnvPool(make_env, limits.env_step_timeout_s)
        self.guard = EngineGuard(engine, limits.generation_timeout_s, open_engine, self.pool.clock)
        self.prompter, self.tokenizer = prompter, tokenizer
        self.response_format, self.limits = response_format, limits
        self._keep_final_prompts, self._module_of = keep_final_prompts, module_of
        self._teacher, self._callbacks = teacher, callbacks
        self._programs: Any = None
        if program is not None:
            from trca.algorithms.rollouts.programs import AgentPrograms  # needs an extra

            self._programs = AgentPrograms(program, prompter, tokenizer)

    @property
    def engine(self) -> Engine:
        """The generation engine."""
        return self.guard.engine

    def run(self, groups: Sequence[GroupRequest], sampling: SamplingParams) -> RolloutBatch:
        """Samples every group to the ends of its episodes.

        Empty stop strings of ``sampling`` mean the stop strings of the response format.
        """
        try:
            return run_to_end(self._run(groups, sampling))
        except BaseException:
            self.pool.leave_calls()
            raise

    def close(self) -> None:
        """Closes the environments and the engine."""
        run_to_end(self.pool.close())
        self.guard.close()
        if self._programs is not None:
            self._programs.threads.close()

    async def play(self, request: GroupRequest, index: int, round_: Round) -> Sequence[Rollout]:
        """Plays an episode of a group to its end; returns the rollouts, one per agent.

        Raises:
            StuckError: If the environment, the engine or the rollout exceeds its time limit.
            GroupFailedError: If another episode of the group failed.
            Exception: An error of the environment, the engine, the prompt or the teacher.
        """
        try:
            episode = await self._start(request, index, round_)
        finally:
            round_.count_start()
        try:
            await round_.started.wait()
            async with round_.places:
                with self.guard.playing():
                    async with asyncio.timeout(self.limits.rollout_timeout_s) as limit:
                        if self._programs is not None:
                            ask = self.guard.generate
                            advance = partial(self._advance, episode, round_)
                            await self._programs.play(episode, ask, advance, round_.sampling)
                        while not episode.done:
                            await self._take_turn(episode, round_)
        except TimeoutError:
            if not limit.expired():
                raise
            turns, limit_s = episode.turns, self.limits.rollout_timeout_s
            late = f"the rollout has not ended in {limit_s:g} s, after {turns} steps"
            raise StuckError(f"{late}: if it was slow, raise rollout_timeout_s") from None
        finally:
            self.pool.give_back(episode.env, broken=not episode.done)
        return episode.recorder.rollouts

    async def _advance(
        self,
        episode: Episode,
        round_: Round,
        prompt_ids: NDArray[np.int32],
        completion: Completion,
        response: Response,
        demonstration: str = "",
    ) -> Transition:
        """Carries out the action of a response and records the turn; returns the transition.

        Raises:
            ValueError: If the final prompt of a truncated training rollout does not fit; the
                episode is then not done: its critic would lack a value.
        """
        request, view = episode.request, episode.recorder.view
        if request.group in round_.dropped:
            raise GroupFailedError from round_.dropped[request.group]
        transition = await self.pool.step(episode.env, response.action)
        turn = Turn(
            episode.turns, view.observation, prompt_ids, completion, response, demonstration
        )
        views = episode.recorder.add(turn, transition)
        episode.turns += 1
        ended = bool(transition[2] or transition[3])
        if ended and self._keep_final_prompts and request.progress is not None:
            for each in views:
                if each.rollout.truncated:
                    each.rollout.final_prompt_ids = self._prompt(episode, each)
        episode.done = ended
        if self._callbacks is not None:
            self._callbacks.stepped(episode, view.rollout.agent_id, turn, views)
        return transition

    async def _take_turn(self, episode: Episode, round_: Round) -> None:
        """Prompts the agent with the turn, and carries out the action of the response.

        Raises:
            ValueError: If a prompt does not fit into its limit.
        """
        request, view = episode.request, episode.recorder.view
        agent = view.rollout.agent_id
        prompt_ids = self._prompt(episode, view)
        demonstration, completion = self._demonstrated(episode, view)
        if completion is None:
            seed = derive_seed(*request.key, *episode.place, episode.turns)
            prompt = Request(prompt_ids, seed, view.rollout.module_id)
            completion = await self.guard.generate(prompt, round_.sampling)
        response = self._read(completion.ids, view)
        episode.conversations[agent].add(completion.ids)
        if response.plan is not None:
            episode.subgoals[agent] = response.plan.subgoal
        await self._advance(episode, round_, prompt_ids, completion, response, demonstration)

    async def _start(self, request: GroupRequest, index: int, round_: Round) -> Episode:
        """Takes an environment and resets it; a retry takes a new environment.

        Environments that wait on a network are reset side by side.
        """
        async with round_.start_of(request.group):
            changes, fresh = request.env_config, round_.is_retry
            env = await self.pool.take(request.split, changes, fresh=fresh)
            episode = Episode(request, index, env)
            if not env.waits:
                await self._reset(episode)
        if env.waits:
            await self._reset(episode)
        return episode

    async def _reset(self, episode: Episode) -> None:
        """Resets the environment and starts the records."""
        request, env = episode.request, episode.env
        if self._callbacks is not None:
            self._callbacks.created(episode)
        try:
            seed = derive_seed(*request.key, *episode.place, "reset") % 2**31
            curriculum = {} if request.progress is None else {"progress": request.progress}
            options = {"task": request.task_id, **curriculum}
            observation, info = await self.pool.reset(env, seed, options)

            team = env.env.unwrapped
            rollouts = [
                Rollout(
                    task_id=request.task_id,
                    split=request.split,
                    task_type=info["task_type"],
                    group=request.group,
                    index=episode.index,
                    policy_version=self.engine.version,
                    agent_id=agent,
                    module_id=self._module_of(agent, request),
                    instruction=team.instruction if isinstance(team, TeamEnv) else info["task"],
                    operators=operators,
                )
                for agent, operators in env.operators.items()
            ]
            episode.recorder = Recorder(observation, info, rollouts)
        except BaseException:
            self.pool.give_back(env, broken=True)
            raise
        if self._callbacks is not None:
            self._callbacks.started(episode)

    def _prompt(self, episode: Episode, view: View) -> NDArray[np.int32]:
        """Renders the prompt of a view."""
        info, steps, agent = view.info, view.rollout.steps, view.rollout.agent_id
        complete, memory = self.response_format.whole_history, episode.request.memory
        brief = info.get("brief") if self.prompter.template != "compact" else None
        return self.prompter.encode(
            instruction=brief or info["task"],
            step=len(steps),
            max_steps=episode.env.max_steps,
            history=[(s.observation, s.response if complete else s.action) for s in steps],
            observation=view.observation,
            admissible=info["admissible_actions"],
            idle=episode.env.idle_actions,
            memory=info.get("memory") if memory is None else memory,
            subgoal=episode.subgoals.get(agent, ""),
            conversation=episode.conversations[agent],
            tools=info.get("tools", ()),
            results=info.get("tool_results", ()),
        )

    def _demonstrated(self, episode: Episode, view: View) -> tuple[str, Completion | None]:
        """The teacher's response, empty without one; and its completion if the teacher acts."""
        if episode.request.demonstration is None:
            return "", None
        assert self._teacher is not None
        subgoal = episode.subgoals.get(view.rollout.agent_id, "")
        demonstration = self._teacher.response(episode.request, view, subgoal)
        if demonstration is None:
            return "", None
        if isinstance(demonstration, str):
            end = not self.response_format.stop
            ids = np.array(response_ids(self.tokenizer, demonstration, end), dtype=np.int32)
        else:
            ids, demonstration = demonstration, ""
        action = self._teacher.action(view)
        if action is not None and self._read(ids, view).action != action.strip():
            raise ValueError(
                f"the response format reads no action {action[:60]!r} in the demonstrated response"
                f" {demonstration[:200]!r}: set another response_format, or turn off native"
                " thoughts (chat_template_kwargs.enable_thinking: false)"
            )
        if not self._teacher.acts:
            return demonstration, None
        unsampled = np.full(len(ids), np.nan, dtype=np.float32)
        return demonstration, Completion(ids, unsampled, "stop", view.rollout.policy_version)

    def _read(self, ids: NDArray[np.int32], view: View) -> Response:
        """Reads a response to the prompt of a view."""
        thought, admissible = self.prompter.thought, view.info["admissible_actions"]
        return read_response(ids, self.tokenizer, self.response_format, thought, admissible)

    async def _run(self, groups: Sequence[GroupRequest], sampling: SamplingParams) -> RolloutBatch:
        stop = sampling.stop or self.response_format.stop
        sampling = replace(sampling, stop=stop, thought=self.prompter.thought)
        batch = RolloutBatch()
        first = [(request, index) for request in groups for index in range(request.size)]
        outcomes = await self._round(first, sampling, batch)
        failed = [(r, k) for r, k in first if isinstance(outcomes[r.group, k], str)]
        if failed:
            batch.incidents += await self.guard.renew()
            outcomes |= await self._round(failed, sampling, batch, is_retry=True)
        for request in groups:
            of_group = [outcomes[request.group, index] for index in range(request.size)]
            reasons = [each for each in of_group if isinstance(each, str)]
            keeps = self._keeps_incomplete(request)
            if reasons:
                lost = len(reasons) if len(reasons) < request.size and keeps else request.size
                batch.failures.append(Failure(request.group, request.task_id, lost, reasons[-1]))
            if keeps or not reasons:
                played = [each for each in of_group if not isinstance(each, str)]
                batch.rollouts += [rollout for rollouts in played for rollout in rollouts]
        batch.incidents += await self.guard.renew()
        await self.guard.sleep()
        batch.rollouts.sort(key=lambda r: (r.group, r.index))
        batch.seconds |= self.pool.take_seconds()
        batch.process_memory_mb = own_memory_mb()
        return batch

    async def _round(
        self,
        places: Sequence[tuple[GroupRequest, int]],
        sampling: SamplingParams,
        batch: RolloutBatch,
        is_retry: bool = False,
    ) -> dict[tuple[int, int], Outcome]:
        """Plays the episodes of these groups and indices; ``batch`` takes the incidents."""
        serving, at_once = nullcontext(), math.inf
        if self._programs is not None:
            serving, at_once = self._programs.gateway.serving(), self._programs.at_once
        round_ = Round(len(places), sampling, is_retry, at_once)
        async with serving, asyncio.TaskGroup() as tasks:
            outcomes = {
                (request.group, index): tasks.create_task(self._try(request, index, round_, batch))
                for request, index in places
            }
        await self.pool.close_broken()
        return {place: task.result() for place, task in outcomes.items()}

    async def _try(
        self, request: GroupRequest, index: int, round_: Round, batch: RolloutBatch
    ) -> Outcome:
        """Plays an episode; notes a failure as an incident and in the log."""
        try:
            rollouts = await self.play(request, index, round_)
        except GroupFailedError as failed:
            return one_line(failed.__cause__ or failed)
        except Exception as error:
            if round_.is_retry and not self._keeps_incomplete(request):
                round_.dropped[request.group] = error
            reason, action = one_line(error), "dropped" if round_.is_retry else "retried"
            which, task = f"{index} of group {request.group}", request.task_id
            incident = Incident(time.time(), "rollout", which, task, reason, action)
            batch.incidents.append(incident)
            words = "rollout %s, task %r: %s; %s"
            logger.warning(words, which, task, reason, action, exc_info=error)
            return reason
        if request.finished is not None:
            request.finished(rollouts)
        return rollouts

    def _keeps_incomplete(self, request: GroupRequest) -> bool:
        """Whether the finished rollouts of an incomplete group stay."""
        return request.keep_finished or self.limits.on_missing_rollout == "go_on"
