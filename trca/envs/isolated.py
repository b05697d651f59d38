"""`IsolatedEnv`: plays a text environment in a child process that can be killed and restarted.

A native library can crash a process, or hold its interpreter so that no time limit works. With
``isolation: process`` in the arguments of an environment, or as an attribute of its class, each
environment has a child process. A crash of the child is an exception of the environment. A child
that does not return is killed. The next ``reset`` starts another child.

A child takes about a second to start and the memory of one Python process. It runs the code of the
environment; adapter and rubric run in the parent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

import gymnasium
import numpy as np

from trca.common.errors import words
from trca.common.shared import Uncopied
from trca.envs.annotate import add_place
from trca.envs.info import TextInfo
from trca.envs.text_env import MissingPartError, Outcome, TextEnv

PROCESS: Final = "process"
"""The value of ``isolation`` for a child process per environment."""
_END_S: Final = 2.0
"""Seconds that a child may take to close its environment."""


class IsolatedEnv(Uncopied, TextEnv):
    """A text environment whose code runs in a child process.

    ``isolated_class`` is the class of the environment in the child, or the function that makes it.
    """

    def __init__(self, isolated_class: Any, made: Callable[[], gymnasium.Env[str, str]]) -> None:
        """Starts the child, which receives ``made`` as a pickle and makes the environment."""
        self.isolated_class = isolated_class
        self._made = made
        self._seed: int | None = None
        self._start()
        attributes, arguments, self._task_ids = self._call(_about)
        vars(self).update(attributes)
        adapter_class: Any = getattr(isolated_class, "adapter_class", None)
        self.adapter_class = adapter_class  # type: ignore[misc]
        super().__init__(*arguments)
        self._state: dict[str, Any] = {}

    def _start(self) -> None:
        """Starts the child, which makes the environment.

        `multiprocessing` cannot start the child: its processes import the script of the user, and
        workers of a vector environment may not have children.
        """
        self._connection, theirs = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C in a terminal interrupts the parent, which ends in order
        )
        theirs.close()
        self._end = weakref.finalize(self, _end, self._process, self._connection)
        self._call(self._made)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function with the environment in the child; the first makes the environment."""
        try:
            self._connection.send((function, *arguments))
            error, answer = self._connection.recv()
        except (EOFError, OSError):
            name = getattr(function, "__name__", "").lstrip("_")
            call = f"{name}({', '.join(repr(argument)[:100] for argument in arguments)})"
            class_name = getattr(self.isolated_class, "__name__", self.isolated_class)
            raise RuntimeError(
                f"the process of {class_name} {_ended(self._process)} in"
                f" {call if name else 'its first line'}"
            ) from None
        except BaseException:
            self.kill()  # after an interrupt the next request would get the answer of this one
            raise
        if error is not None:
            raise error
        return answer

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The task ids of the split, in panel order."""
        return tuple(self._task_ids)

    @property
    def instruction(self) -> str:
        """The current task in words."""
        return str(self._state["task"])

    @property
    def task_type(self) -> str:
        """Type of the current task."""
        return str(self._state["task_type"])

    @property
    def admissible_actions(self) -> list[str]:
        """The admissible actions now."""
        return list(self._state["admissible_actions"])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts a task; starts another child if the last one has ended."""
        self._seed = seed
        if self._process.poll() is not None:
            self.kill()
            self._start()
        return super().reset(seed=seed, options=options)

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        """Starts a task in the child."""
        options = {**options, "task": task_id}
        observation, self._state = self._call(_reset, self._seed, options)
        return str(observation)

    def take_action(self, action: str) -> Outcome:
        """Carries out an action in the child."""
        outcome, self._state = self._call(_step, action)
        return Outcome(*outcome)

    def _info(self, admissible: Sequence[str]) -> TextInfo:
        info = super()._info(admissible)
        if "tools" in self._state:
            info["tools"] = self._state["tools"]
            info["tool_results"] = self._state["tool_results"]
        return info

    def episode_measures(self) -> dict[str, float]:
        """Further metrics at the end of an episode, by name."""
        return dict(self._state.get("measures", {}))

    def gold(self, task_id: str) -> Any:
        """The hidden truth of a task."""
        return self._call(_method, "gold", task_id)

    def oracle_action(self) -> str:
        """The next action of the oracle."""
        return str(self._call(_method, "oracle_action"))

    def demonstrator_action(self) -> str:
        """The next action of the demonstrator."""
        return str(self._call(_method, "demonstrator_action"))

    def demonstrator_subgoal(self) -> str:
        """The subgoal of the next action of the demonstrator."""
        return str(self._call(_method, "demonstrator_subgoal"))

    def random_action(self, rng: np.random.Generator) -> str:
        """An admissible action, drawn with the generator of the caller."""
        action, rng.bit_generator.state = self._call(_random_action, rng)
        return str(action)

    def kill(self) -> None:
        """Ends the child at once; a call that waits for the child raises an exception."""
        self._end()

    def close(self) -> None:
        """Lets the child close its environment; kills a child that does not end."""
        with suppress(OSError):
            self._connection.send((_close,))
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self.kill()


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    process.kill()
    process.wait()
    with suppress(OSError):
        connection.close()


def _ended(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_END_S)
    except subprocess.TimeoutExpired:
        return "does not answer"
    if code >= 0:
        return f"ended with exit code {code}"
    return f"ended by {signal.Signals(-code).name} ({signal.strsignal(-code)})"


def serve(descriptor: int) -> None:
    """Answers the calls of the parent until the connection with this file descriptor ends."""
    connection = Connection(descriptor)
    env: Any = None
    while True:
        try:
            function, *arguments = connection.recv()
        except EOFError:
            return
        error, answer = None, None
        try:
            if env is None:
                env = function()
            else:
                answer = function(env, *arguments)
        except Exception as raised:
            if not isinstance(raised, MissingPartError):  # an answer, and no failure
                traceback.print_exc()
            if env is not None:
                add_place(raised, env.unwrapped)
            error = _sendable(raised)
        connection.send((error, answer))


def _sendable(error: Exception) -> Exception:
    """The exception itself, or one in words if the parent may lack its class."""
    if type(error).__module__.partition(".")[0] in ("builtins", "trca", "gymnasium"):
        return error
    notes = getattr(error, "__notes__", [])
    error.__notes__ = []
    sendable = RuntimeError(words(error))
    sendable.__notes__ = notes
    return sendable


def _about(outer: gymnasium.Env[str, str]) -> Any:
    env: Any = outer.unwrapped
    names = ("library", "default_split", "open_actions", "idle_actions", "generated", "waits")
    attributes = {name: getattr(env, name) for name in names}
    attributes["env_id"] = env.env_id or type(env).__name__
    return attributes, (env.split, env.max_steps, env.render_mode), tuple(env.task_ids)


def _state(info: dict[str, Any]) -> dict[str, Any]:
    names = ("task", "task_type", "admissible_actions", "measures", "tools", "tool_results")
    return {name: info[name] for name in names if name in info}


def _reset(env: gymnasium.Env[str, str], seed: int | None, options: dict[str, Any]) -> Any:
    observation, info = env.reset(seed=seed, options=options)
    return observation, _state(info)


def _step(env: gymnasium.Env[str, str], action: str) -> Any:
    observation, reward, terminated, truncated, info = env.step(action)
    ended = (terminated, truncated, info["accepted"], info["won"], info["score"])
    return (observation, reward, *ended, info.get("milestone"), info.get("rewards")), _state(info)


def _random_action(env: gymnasium.Env[str, str], rng: np.random.Generator) -> Any:
    inner: Any = env.unwrapped
    return inner.random_action(rng), rng.bit_generator.state


def _method(env: gymnasium.Env[str, str], name: str, *arguments: Any) -> Any:
    return getattr(env.unwrapped, name)(*arguments)


def _close(env: gymnasium.Env[str, str]) -> None:
    env.close()
    sys.exit()
