"""This package's environments as a verifiers taskset (verifiers 0.4, ``verifiers.v1``).

verifiers locates the taskset by the name of its module, ``trca-verifiers``::

    vf-eval trca-verifiers --env.taskset.env alfworld --model ...

Trainers for verifiers' environments accept this taskset. Differences from this package's rollouts:
the prompt is the complete conversation, and verifiers has one reward per rollout.
``trace.info["transitions"]`` has the rubric judgments of each transition.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx

from trca.envs.responses import ACTION_FORMAT
from trca_interop import required
from trca_interop.episode import ASKED, Episode

vf: Any = required("verifiers.v1", "verifiers")
_to_wire: Any = required("verifiers.v1.dialects.chat", "verifiers").message_to_wire

__all__ = ["InProcessHarness", "TextEnvironment", "TextTaskset"]

SYSTEM_PROMPT = (
    f"{ASKED} Answer with your thoughts and one action:"
    " <think>your thoughts</think><action>the action</action>"
)


class TextData(vf.TaskData):  # type: ignore[misc]
    """The data of a task. Its id is the task id."""

    env: str
    arguments: dict[str, Any]


class TextTask(vf.Task[TextData]):  # type: ignore[misc]
    """A task of a text environment."""


class TextTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """The environment of the taskset.

    Attributes:
        env: Name of the environment, as in `trca.envs.make`.
        arguments: Arguments of `trca.envs.make`, such as ``split``.
    """

    env: str = ""
    arguments: dict[str, Any] = {}  # noqa: RUF012 (a field of pydantic)


class TextTaskset(vf.Taskset[TextTask, TextTasksetConfig]):  # type: ignore[misc]
    """The tasks of a split, in panel order."""

    def load(self) -> Iterator[Any]:
        """Yields the tasks.

        Raises:
            ValueError: If ``env`` is empty.
        """
        config = self.config
        if not config.env:
            raise ValueError("env is empty: add --env.taskset.env alfworld")
        episode = Episode(config.env, **config.arguments)
        task_ids = episode.text_env.task_ids
        episode.env.close()
        for task_id in task_ids:
            data = TextData(
                id=task_id,
                name=task_id,
                system_prompt=SYSTEM_PROMPT,
                env=config.env,
                arguments=config.arguments,
            )
            yield TextTask(data, config.task)


class TextEnvironmentConfig(vf.EnvConfig):  # type: ignore[misc]
    """The agent and the rewards.

    Attributes:
        player: The agent.
        rubric_weight: Weight of the rollout's sum of r^TRCA in the reward; the outcome has weight
            1.
    """

    player: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    rubric_weight: float = 0.0


class TextEnvironment(vf.Env[TextEnvironmentConfig]):  # type: ignore[misc]
    """Plays a task: observations are user turns, and actions are parsed from the model's replies.

    The reward ``outcome`` is 1 for success, else 0; ``rubric_return`` is the sum of r^TRCA. A
    failure of the environment or the model ends the episode with an error and without a reward.
    """

    def __init__(self, config: Any) -> None:
        """Stores the configuration."""
        super().__init__(config)
        self._idle: dict[str, list[Episode]] = {}

    async def run(self, task: Any, agents: Any) -> None:
        """Plays one episode."""
        data = task.data
        key = json.dumps([data.env, data.arguments], sort_keys=True)
        idle = self._idle.setdefault(key, [])
        episode = idle.pop() if idle else await asyncio.to_thread(_make, data)
        try:
            async with agents.player.interaction(task) as interaction:
                observation = await asyncio.to_thread(episode.start, data.id)
                segment = await interaction.turn(observation)
                while not segment.terminated:
                    action = ACTION_FORMAT.read(segment.last_reply).action
                    observation = await asyncio.to_thread(episode.act, action)
                    if episode.over:
                        break
                    segment = await interaction.turn(observation)
        except Exception:  # excludes cancellation, during which a thread may still run a step
            await asyncio.to_thread(episode.env.close)
            raise
        trace = interaction.trace
        trace.info["transitions"] = episode.steps
        if trace.ok:
            trace.record_reward("outcome", episode.reward)
            if episode.rubric_return is not None:
                weight = self.config.rubric_weight
                trace.record_reward("rubric_return", episode.rubric_return, weight)
        idle.append(episode)

    async def stop(self) -> None:
        """Closes the environments."""
        for episodes in self._idle.values():
            for episode in episodes:
                episode.env.close()
        self._idle.clear()


class InProcessHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Calls the model once per turn, in verifiers' process and without a subprocess."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
    ) -> Any:
        """Sends the conversation to the endpoint, which adds the reply to the trace."""
        system, prompt = self.resolve_prompt(data)
        messages = [] if system is None else [{"role": "system", "content": system}]
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [_to_wire(message) for message in prompt or []]
        async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                headers={"Authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": messages},
            )
        return vf.ProgramResult(int(answer.is_error), "", answer.text if answer.is_error else "")


def _make(data: Any) -> Episode:
    return Episode(data.env, **data.arguments)
