"""`TRLEnv`: TRL's environment classes as environments of this package."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from typing import Any

from trca.common.names import unknown
from trca.common.registry import Registry
from trca.common.shared import Uncopied
from trca.envs.panel import no_task
from trca.envs.text_env import Outcome, TextEnv
from trca_interop.splits import part_of_split, read_rows


class TRLEnv(Uncopied, TextEnv):
    """A TRL environment class as a text environment: an action is a call of one of its tools.

    ::

        env = make("trca_interop.trl_env:TRLEnv", environment="guess.py:Guess", rows="rows.jsonl")
        env.step('{"name": "guess", "arguments": {"number": 4}}')

    Any text without a call is an answer, which ends the episode, as in TRL. The reward is
    ``get_reward()`` at the end. The message of a `ValueError` in a tool is an observation, as in
    TRL's documentation. Any other exception makes the rollout missing; TRL would show its message
    to the model. Asynchronous methods share one event loop, which runs during calls only; TRL's
    loop runs all the time.

    A row has the form of TRL's data set: ``prompt`` and the arguments of ``reset``. Every tenth row
    is in split ``test``, the remaining rows are in ``train``.
    """

    default_split = "test"

    def __init__(
        self,
        environment: str,
        rows: str,
        split: str = "train",
        max_steps: int = 25,
        render_mode: str | None = None,
        won_above: float = 0.0,
    ) -> None:
        """Loads the class and the rows.

        Args:
            environment: The class, as ``path/to/file.py:Class`` or ``package.module:Class``.
                Loading runs its code.
            rows: Path of a JSON-lines file.
            split: ``train`` or ``test``.
            max_steps: The step limit.
            render_mode: See `TextEnv`.
            won_above: The episode is won with a reward above this value.

        Raises:
            ValueError: If the class lacks ``reset`` or ``get_reward``, or a row is not an object.
        """
        super().__init__(split, max_steps, render_mode)
        self.plain = Registry[Any]("TRL environment").get(environment)()
        self._runner = asyncio.Runner()
        functions = dict(inspect.getmembers(type(self.plain), inspect.isfunction))
        for name in ("reset", "get_reward"):
            if name not in functions:
                raise ValueError(f"{environment} has no method {name}: add reset and get_reward")
        self._tools = {
            name: getattr(self.plain, name)
            for name in functions
            if name not in ("reset", "get_reward") and not name.startswith("_")
        }
        self._rows = part_of_split(read_rows(rows), split, rows)
        self._prompt = ""
        self._won_above = won_above

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The rows of the split, by index in the file."""
        return tuple(self._rows)

    @property
    def instruction(self) -> str:
        """The prompt of the row, and the descriptions of the tools."""
        tools = [
            f"{name}{inspect.signature(tool)}: {inspect.getdoc(tool) or ''}".rstrip(": ")
            for name, tool in self._tools.items()
        ]
        call_format = 'An action is a call: {"name": ..., "arguments": {...}}. The tools are:'
        return "\n\n".join([self._prompt, call_format, *tools]).strip()

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        """Resets the environment with the row of the task."""
        if task_id not in self._rows:
            raise no_task(task_id, self.split, self.task_ids)
        row = self._rows[task_id]
        prompt = row.get("prompt", "")
        messages = (
            [prompt] if isinstance(prompt, str) else [message["content"] for message in prompt]
        )
        self._prompt = "\n\n".join(map(str, messages)).strip()
        return str(self._run(self.plain.reset(**row)) or "")

    def take_action(self, action: str) -> Outcome:
        """Calls the tool in the action; text without a call ends the episode."""
        call = _read_call(action)
        if call is None and action.strip():
            return self._ended("", accepted=True, terminated=True)
        answer, accepted = self._call(*call) if call else ("There is no action.", False)
        if self._steps + 1 == self.max_steps:
            return self._ended(answer, accepted, terminated=False)
        return Outcome(answer, accepted=accepted)

    def close(self) -> None:
        """Closes the event loop."""
        self._runner.close()

    def _run(self, result: Any) -> Any:
        """The result of a method of the environment; waits for asynchronous results."""
        if not inspect.isawaitable(result):
            return result

        async def awaited() -> Any:
            return await result

        return self._runner.run(awaited())

    def _call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        tool = self._tools.get(name)
        if tool is None:
            return str(unknown("tool", name, self._tools)), False
        try:
            inspect.signature(tool).bind(**arguments)
        except TypeError as error:
            return f"{name}: {error}", False
        try:
            return str(self._run(tool(**arguments))), True
        except ValueError as error:
            return str(error), False

    def _ended(self, answer: str, accepted: bool, terminated: bool) -> Outcome:
        reward = self._run(self.plain.get_reward())
        if reward is None or not math.isfinite(reward):
            raise RuntimeError(f"get_reward() of {type(self.plain).__name__} gave {reward}")
        won = reward > self._won_above
        return Outcome(answer, float(reward), terminated=terminated, accepted=accepted, won=won)


def _read_call(action: str) -> tuple[str, dict[str, Any]] | None:
    try:
        call = json.loads(action)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", {})
    return (call["name"], arguments) if isinstance(arguments, dict) else None
