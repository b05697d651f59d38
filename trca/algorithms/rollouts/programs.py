"""Agent programs: a user's agent plays episodes, and asks the policy by a ``base_url``.

::

    def agent(env, base_url):
        observation, info = env.reset()
        done = False
        while not done:
            action = ...  # ask base_url, for example with the client of openai
            observation, reward, terminated, truncated, info = env.step(action)
            done = terminated or truncated

A program is called once for each episode, in a thread; it may be ``async``. Each step has the ids,
the mask and the log-probabilities of the responses since the step before (see
`trca.policies.gateway`). A step without a response has no tokens and trains nothing.

If the program, the environment or the engine raises, or if the program returns before the end of
the episode, the rollout has failed. It has no reward.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from itertools import count
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from trca.algorithms.rollouts.batch import derive_seed
from trca.algorithms.rollouts.env_pool import Start, Transition
from trca.algorithms.rollouts.recording import Episode
from trca.common.threads import Threads
from trca.policies.engines.engine import Completion, SamplingParams
from trca.policies.gateway import HOST, Gateway, Generate, Sampled, Session
from trca.policies.prompts import Prompter
from trca.policies.spans import Response, read_response

AgentProgram = Callable[["AgentEnv", str], Any]
"""Plays the episode of an environment; the second argument is the ``base_url``."""
Advance = Callable[[NDArray[np.int32], Completion, Response], Awaitable[Transition]]


class AgentEnv(gymnasium.Env[str, str]):
    """The environment of an agent program. It has one episode.

    Attributes:
        max_steps: The step limit.
        idle_actions: Admissible actions that change nothing.
    """

    def __init__(self, episode: Episode, step: Callable[[str], Coroutine[Any, Any, Transition]]):
        """Takes an episode after its reset, and its step in the running event loop."""
        view = episode.recorder.view
        self.max_steps, self.idle_actions = episode.env.max_steps, episode.env.idle_actions
        self._start: Start | None = (view.observation, dict(view.info))
        self._step, self._loop = step, asyncio.get_running_loop()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        """Returns the start of the episode. The task and the random stream are the rollout's.

        Raises:
            RuntimeError: At the second call.
        """
        start, self._start = self._start, None
        if start is None:
            raise RuntimeError("a rollout is one episode: return when it has ended")
        return start

    def step(self, action: str) -> Any:
        """Carries out an action; see `gymnasium.Env.step`.

        Raises:
            RuntimeError: If the rollout has ended.
            Exception: An error of the environment.
        """
        return asyncio.run_coroutine_threadsafe(self._step(action), self._loop).result()


class AgentPrograms:
    """Plays episodes with a program.

    Attributes:
        gateway: Answers the program.
        at_once: Largest number of programs at once: each has a thread and connections.
        threads: The threads of the programs.
    """

    at_once = 128

    def __init__(self, program: AgentProgram, prompter: Prompter, tokenizer: Any) -> None:
        """Takes the program, and the prompter and tokenizer of the policy.

        Clients in this process reach the gateway without the machine's proxy.
        """
        for name in ("NO_PROXY", "no_proxy"):
            hosts = os.environ.get(name, "").split(",")
            os.environ[name] = ",".join(filter(None, dict.fromkeys([*hosts, HOST])))
        self.gateway = Gateway(prompter, tokenizer)
        self._program, self._prompter, self._tokenizer = program, prompter, tokenizer
        self.threads = Threads(self.at_once, "trca-agent")

    async def play(
        self, episode: Episode, ask: Generate, advance: Advance, sampling: SamplingParams
    ) -> None:
        """Plays an episode to its end, and adds the counts of the session to its measures.

        Args:
            episode: The episode, after its reset.
            ask: Completes a prompt.
            advance: Carries out the action of a response, and records the step.
            sampling: Temperature and longest response.

        Raises:
            Exception: The first failure of engine or environment, else the program's error.
        """
        rollout, key = episode.recorder.view.rollout, (*episode.request.key, *episode.place)
        seeds = (derive_seed(*key, number) for number in count())
        trains = episode.request.progress is not None
        session = self.gateway.open(Session(ask, sampling, seeds, rollout.module_id, trains))
        closed = False

        async def step(action: str) -> Transition:
            if episode.done or closed:
                raise RuntimeError("the rollout has ended")
            try:
                prompt_ids, completion, mask = session.take() or _nothing(rollout.policy_version)
                response = self._read(completion, mask, action)
                return await advance(prompt_ids, completion, response)
            except Exception as error:
                session.failure = session.failure or error
                raise

        try:
            calls = [(_call, self._program, AgentEnv(episode, step), session.base_url)]
            [call] = await self.threads.run(calls, lambda _: "the agent program")
            if error := session.failure or call.exception():
                raise error
            if not episode.done:
                raise RuntimeError(
                    f"the agent program returned after {episode.turns} steps, before the end of the"
                    " episode: let it step until terminated or truncated"
                )
        finally:
            closed = True
            self.gateway.close(session)
        rollout.measures["contexts"] = session.contexts
        rollout.measures["untrained_responses"] = session.left_out

    def _read(self, completion: Completion, mask: NDArray[np.bool_], action: str) -> Response:
        """The responses of a step, with the action that the program took."""
        read = read_response(completion.ids, self._tokenizer, thought=self._prompter.thought)
        return replace(read, action=action, action_mask=mask, plan=None)


def _call(program: AgentProgram, env: AgentEnv, base_url: str) -> None:
    result = program(env, base_url)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def _nothing(version: int) -> Sampled:
    """The tokens of a step without a response: a prompt that nobody reads."""
    ids, logprobs = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
    completion = Completion(ids, logprobs, "stop", version)
    return Sampled(np.zeros(1, dtype=np.int32), completion, np.empty(0, dtype=bool))
