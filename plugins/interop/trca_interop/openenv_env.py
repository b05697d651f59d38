"""`RemoteEnv`: environments of OpenEnv servers as environments of this package.

Messages of a server are untrusted input: their form and size are checked. Any fault is a
`PeerError`, which makes the rollout missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any, Final

import gymnasium
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from trca.common.errors import short_line
from trca.common.extras import install
from trca.common.shared import Uncopied
from trca.envs.text_space import AnyText
from trca_interop import required

LONGEST: Final = 100_000
"""Largest number of characters of a server's text."""
MOST: Final = 1_000
"""Largest number of admissible actions."""
_MEGABYTES: Final = 4
"""Largest size of a message, in megabytes."""
_FULL: Final = "CAPACITY_REACHED"
"""OpenEnv's code of a server without room for another connection."""
_PAUSE_S: Final = 0.2
_OPTIONAL: Final = ("task", "admissible_actions")
"""Optional fields of an observation."""


class PeerError(RuntimeError):
    """A server is unreachable, reports an error, or sends an invalid message."""


class _Reply(BaseModel):
    """A checked message of a server."""

    model_config = ConfigDict(strict=True)

    text: Annotated[str, Field(max_length=LONGEST)]
    task: Annotated[str, Field(max_length=LONGEST)] | None = None
    admissible_actions: Annotated[
        list[Annotated[str, Field(max_length=LONGEST)]], Field(max_length=MOST)
    ] = Field(default_factory=list)
    reward: bool | FiniteFloat | None
    done: bool


class RemoteEnv(Uncopied, gymnasium.Env[str, str]):
    """An environment of an OpenEnv server as a plain text environment, without a rubric.

    ::

        env = make("trca_interop.openenv_env:RemoteEnv", url="http://127.0.0.1:8000")

    A task is a seed, which ``reset`` sends to the server. If the server ignores the seed, a rollout
    group compares different tasks. Instruction and admissible actions are the optional fields
    ``task`` and ``admissible_actions`` of the observation.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own convention)
    waits = True

    def __init__(
        self,
        url: str,
        action_field: str = "action",
        observation_field: str = "text",
        timeout_s: float = 60.0,
        won_above: float = 0.0,
    ) -> None:
        """Stores the settings; the first ``reset`` connects.

        Args:
            url: The server, ``http://`` or ``ws://``.
            action_field: Field of the server's action for the action text.
            observation_field: Field of the server's observation with the observation text.
            timeout_s: Seconds to wait for a reply, and for room on a full server.
            won_above: The episode is won if it ends with a reward above this value.

        Raises:
            ImportError: If OpenEnv is not installed. The message has the install command.
        """
        if find_spec("openenv") is None:
            name = type(self).__name__
            command = install("openenv", "./plugins/interop")
            raise ImportError(f"{name} needs openenv: {command}")
        self.observation_space = AnyText()
        self.action_space = AnyText()
        self._url, self._timeout_s, self._won_above = url, timeout_s, won_above
        self._action_field, self._observation_field = action_field, observation_field
        self._connected: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts the episode of a seed.

        A server has room again a moment after the end of another connection: a full server is asked
        again until the time limit of a reply.

        Raises:
            PeerError: If the server is unreachable, stays full, or sends an invalid message.
        """
        super().reset(seed=seed)
        arguments = {} if seed is None else {"seed": seed}
        end = time.monotonic() + self._timeout_s
        while True:
            try:
                reply = self._asked(partial(self._client().reset, **arguments))
                break
            except PeerError as error:
                if _FULL not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE_S)
        if reply.done:
            raise self._failed("the episode is over at its start")
        return reply.text, self._info(reply)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Sends an action.

        Raises:
            PeerError: If the server is unreachable, reports an error, sends an invalid message, or
                ends the episode without a reward.
        """
        if self._connected is None:
            raise PeerError(f"{self._url}: no episode was started: call reset() first")
        reply = self._asked(partial(self._connected.step, {self._action_field: action}))
        if reply.done and reply.reward is None:
            raise self._failed("the episode ended without a reward")
        reward = float(reply.reward or 0.0)
        won = reply.done and reward > self._won_above
        return reply.text, reward, reply.done, False, {**self._info(reply), "won": won}

    def close(self) -> None:
        """Closes the connection."""
        connected, self._connected = self._connected, None
        if connected is not None:
            with suppress(Exception):
                connected.close()

    def _client(self) -> Any:
        """The connected client of OpenEnv."""
        if self._connected is None:
            core = required("openenv.core", "openenv")
            client = core.GenericEnvClient(
                base_url=self._url,
                message_timeout_s=self._timeout_s,
                max_message_size_mb=_MEGABYTES,
            )
            self._connected = client.sync()
        return self._connected

    def _asked(self, ask: Callable[[], Any]) -> _Reply:
        try:
            result = ask()
            observation = dict(result.observation)
        except Exception as error:
            raise self._failed(f"{type(error).__name__}: {error}") from error
        field = self._observation_field
        if field not in observation:
            names = ", ".join(map(str, observation))
            raise self._failed(
                f"no field {field!r} in an observation of {names}: set observation_field"
            )
        optional = {name: observation[name] for name in _OPTIONAL if name in observation}
        try:
            return _Reply(
                text=observation[field], reward=result.reward, done=result.done, **optional
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise self._failed(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def _info(self, reply: _Reply) -> dict[str, Any]:
        instruction = {} if reply.task is None else {"task": reply.task}
        return {"admissible_actions": reply.admissible_actions, **instruction}

    def _failed(self, reason: str) -> PeerError:
        """The error for a fault. Closes the connection, so the next episode opens a new one."""
        self.close()
        return PeerError(f"{self._url}: {short_line(reason, 300)!r}")
