"""`VerifiersEnv`: verifiers' environments as environments of this package.

verifiers drives its environments and sends requests to a model at an endpoint. This module is the
endpoint: a request of verifiers becomes an observation, and an action becomes the model's reply.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from itertools import islice
from typing import Any, Final, TypeVar

from trca.common.errors import short_line
from trca.common.shared import Uncopied
from trca.envs.panel import no_task
from trca.envs.text_env import Outcome, TextEnv
from trca_interop import required
from trca_interop.splits import part_of_split

MOST_TASKS: Final = 1_000
"""Largest number of tasks from an infinite taskset."""
_MODEL: Final = "trca"
_T = TypeVar("_T")


class EpisodeError(RuntimeError):
    """An episode of verifiers failed or has no score."""


class VerifiersEnv(Uncopied, TextEnv):
    """An environment of verifiers as a text environment: an action is a reply of the model.

    ::

        env = make(
            "trca_interop.verifiers_env:VerifiersEnv", config={"taskset": {"id": "my-tasks"}}
        )

    The first observation has all messages of the first request to the model. A later observation
    has the messages after the last reply. The reward is the score of the trace at the end. The step
    limit is also the agent's ``max_turns``, unless the configuration has a smaller value, so
    verifiers also scores episodes at the limit. Every tenth task is in split ``test``, the
    remaining tasks are in ``train``.

    The environment has one agent and text only: requests with tools or images are refused. The
    default harness of the agent is `trca_interop.verifiers.InProcessHarness`.
    """

    default_split = "test"
    waits = True

    def __init__(
        self,
        config: Mapping[str, Any],
        split: str = "train",
        max_steps: int = 25,
        render_mode: str | None = None,
        timeout_s: float = 240.0,
        won_above: float = 0.0,
    ) -> None:
        """Loads the environment and its tasks.

        Args:
            config: The ``[env]`` block of verifiers: ``taskset`` and further keys. Loading runs the
                code of the packages in the block.
            split: ``train`` or ``test``.
            max_steps: The step limit.
            render_mode: See `TextEnv`.
            timeout_s: Seconds from an action to the next request of verifiers. Choose a value below
                ``env_step_timeout_s`` of a run (300): above it, the run abandons the environment
                without closing it.
            won_above: The episode is won with a reward above this value.

        Raises:
            ValueError: If the environment has several agents.
        """
        super().__init__(split, max_steps, render_mode)
        self._vf = required("verifiers.v1", "verifiers")
        loaders = required("verifiers.v1.utils.loaders", "verifiers")
        block = loaders.resolve_env_config(dict(config))
        agents = [name for name, value in block if isinstance(value, self._vf.AgentConfig)]
        if len(agents) != 1:
            raise ValueError(
                f"{block.env_id} has the agents {', '.join(agents)}: only one agent can play"
            )
        block = block.model_copy(update={agents[0]: self._player(getattr(block, agents[0]))})
        self._env = loaders.load_environment(block)
        taskset = self._env.taskset
        tasks = islice(taskset, None if taskset.bounded else MOST_TASKS)
        self._tasks = part_of_split(tasks, split, block.env_id)
        self._timeout_s, self._won_above = timeout_s, won_above
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: AsyncExitStack | None = None
        self._episode: asyncio.Task[Any] | None = None
        self._asked: asyncio.Future[str] | None = None
        self._first = ""

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The tasks of the split, by index in the taskset."""
        return tuple(self._tasks)

    @property
    def instruction(self) -> str:
        """The first observation."""
        return self._first

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        """Starts an episode of verifiers and waits for its first request.

        Raises:
            EpisodeError: If the episode ends before its first request.
        """
        if task_id not in self._tasks:
            raise no_task(task_id, self.split, self.task_ids)
        self._first = self._await(self._begin(task_id))
        return self._first

    def take_action(self, action: str) -> Outcome:
        """Sends the reply and waits for the next request or the end.

        Raises:
            EpisodeError: If the episode fails or ends without a reward.
        """
        observation, reward = self._await(self._answer(action))
        if reward is None:
            return Outcome(observation)
        return Outcome(observation, reward, terminated=True, won=reward > self._won_above)

    def close(self) -> None:
        """Ends the episode and stops the endpoint."""
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                asyncio.run_coroutine_threadsafe(self._end(), loop).result()
            finally:
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join()
                loop.close()

    def _player(self, agent: Any) -> Any:
        """The configuration of the agent, with defaults for missing settings."""
        limits = (self.max_steps, agent.max_turns)
        settings: dict[str, Any] = {"max_turns": min(n for n in limits if n is not None)}
        if agent.harness is None:
            settings["harness"] = self._vf.HarnessConfig(id="trca-verifiers")
        if "runtime" not in agent.model_fields_set:
            settings["runtime"] = self._vf.SubprocessConfig()
        return agent.model_copy(update=settings)

    def _await(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine on this environment's event loop, in a separate thread."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(self._timeout_s)
        except TimeoutError:
            future.cancel()
            raise EpisodeError(
                f"verifiers took more than {self._timeout_s:g} s: raise timeout_s"
            ) from None

    async def _begin(self, task_id: str) -> str:
        await self._abandon()
        if self._serving is None:
            await self._serve()
        self._requests: asyncio.Queue[tuple[str, asyncio.Future[str]]] = asyncio.Queue()
        client = self._vf.EvalClientConfig(base_url=self._url, api_key_var="TRCA_NO_KEY")
        context = self._vf.ModelContext(model=_MODEL, client=client)
        playing = self._env.run_episode(self._tasks[task_id], context)
        self._episode = asyncio.create_task(playing)
        observation, reward = await self._next()
        if reward is not None:
            raise EpisodeError("the episode ended before the model was asked")
        return observation

    async def _answer(self, action: str) -> tuple[str, float | None]:
        assert self._asked is not None
        self._asked.set_result(action)
        return await self._next()

    async def _next(self) -> tuple[str, float | None]:
        """The next observation, and the reward if the episode has ended."""
        assert self._episode is not None
        request = asyncio.create_task(self._requests.get())
        await asyncio.wait({request, self._episode}, return_when=asyncio.FIRST_COMPLETED)
        if request.done():
            observation, self._asked = request.result()
            return observation, None
        request.cancel()
        episode, self._episode = self._episode.result(), None
        traces = episode.traces
        errors = [*episode.errors, *(error for trace in traces for error in trace.errors)]
        if not episode.ok or len(traces) != 1:
            reason = "; ".join(f"{error.type}: {error.message}" for error in errors) or "no trace"
            raise EpisodeError(short_line(f"the episode failed: {reason}", 500))
        if not any(reward is not None for reward in traces[0].rewards.values()):
            raise EpisodeError("the episode was not scored")
        return "", float(traces[0].reward)

    async def _serve(self) -> None:
        """Starts the shared parts of verifiers and the endpoint."""
        web = required("aiohttp.web", "verifiers")

        async def complete(request: Any) -> Any:
            body = await request.json()
            try:
                observation = _observation(body)
            except ValueError as error:
                return web.json_response({"error": {"message": str(error)}}, status=400)
            answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            await self._requests.put((observation, answer))
            message = {"role": "assistant", "content": await answer}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            header = {"id": _MODEL, "object": "chat.completion", "created": 0, "model": _MODEL}
            return web.json_response({**header, "choices": [choice]})

        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", complete)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        async with AsyncExitStack() as stack:
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self._url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            await stack.enter_async_context(self._env.serving())
            self._serving = stack.pop_all()

    async def _abandon(self) -> None:
        """Cancels an unfinished episode."""
        episode, self._episode = self._episode, None
        if self._asked is not None:
            self._asked.cancel()
        if episode is not None:
            episode.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await episode

    async def _end(self) -> None:
        await self._abandon()
        serving, self._serving = self._serving, None
        if serving is not None:
            await serving.aclose()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


def _observation(body: Mapping[str, Any]) -> str:
    """The messages of a request after the model's last reply, as text.

    Raises:
        ValueError: For a request with tools, streaming or images.
    """
    if body.get("tools") or body.get("stream"):
        raise ValueError("actions are text: tools and streams are refused")
    new: list[str] = []
    for message in body["messages"]:
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if any(part.get("type") != "text" for part in parts):
            raise ValueError("observations are text: images are refused")
        if message["role"] == "assistant":
            new.clear()
        else:
            new.append("\n".join(part["text"] for part in parts))
    return "\n\n".join(new)
