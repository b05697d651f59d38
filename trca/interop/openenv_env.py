"""`RemoteEnv`: environments of OpenEnv servers as environments here.

What a server says is input from outside: its form and its size are checked, and whatever is wrong
with it is a `PeerError`, which leaves the rollout out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final

import gymnasium
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from trca.common.extras import missing_extra, required
from trca.common.short_line import short_line
from trca.envs.text_space import AnyText

LONGEST: Final = 100_000
"""Characters of a text of a server at most."""
MOST: Final = 1_000
"""Admissible actions at most."""
_MEGABYTES: Final = 4
"""Size of a message at most."""
_OPTIONAL: Final = ("task", "admissible_actions")
"""Fields of an observation that are read where it has them."""


class PeerError(RuntimeError):
    """A server cannot be reached, reports an error, or says what it should not."""


class _Reply(BaseModel):
    """What a server says, checked."""

    model_config = ConfigDict(strict=True)

    text: Annotated[str, Field(max_length=LONGEST)]
    task: Annotated[str, Field(max_length=LONGEST)] | None = None
    admissible_actions: Annotated[
        list[Annotated[str, Field(max_length=LONGEST)]], Field(max_length=MOST)
    ] = Field(default_factory=list)
    reward: bool | FiniteFloat | None
    done: bool


class RemoteEnv(gymnasium.Env[str, str]):
    """An environment of an OpenEnv server as a plain text environment, without a rubric.

    ::

        env = make("trca.interop.openenv_env:RemoteEnv", url="http://127.0.0.1:8000")

    A task is a seed, which the server gets with ``reset``. Where the server ignores it, a group
    compares rollouts of different tasks. Instruction and admissible actions are the fields ``task``
    and ``admissible_actions`` of the observation, where it has them.
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
        """Prepares to play; connects with the first ``reset``.

        Args:
            url: The server, ``http://`` or ``ws://``.
            action_field: The field of the server's action that takes our text.
            observation_field: The field of its observation that is the text.
            timeout_s: Seconds that an answer may take.
            won_above: An end with a reward above this counts as success.

        Raises:
            ImportError: Where OpenEnv is not installed; says how to get it.
        """
        if lack := missing_extra("openenv", type(self).__name__, "openenv"):
            raise ImportError(lack)
        self.observation_space = AnyText()
        self.action_space = AnyText()
        self._url, self._timeout_s, self._won_above = url, timeout_s, won_above
        self._action_field, self._observation_field = action_field, observation_field
        self._connected: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts the episode of a seed.

        Raises:
            PeerError: When the server cannot be reached, or says what it should not.
        """
        super().reset(seed=seed)
        if self._connected is None:
            core = required("openenv.core", "openenv")
            client = core.GenericEnvClient(
                base_url=self._url,
                message_timeout_s=self._timeout_s,
                max_message_size_mb=_MEGABYTES,
            )
            self._connected = client.sync()
        reply = self._asked(
            partial(self._connected.reset, **({} if seed is None else {"seed": seed}))
        )
        if reply.done:
            raise self._failed("the episode is over at its start")
        return reply.text, self._told(reply)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Sends an action.

        Raises:
            PeerError: When the server cannot be reached, reports an error, says what it should not,
                or ends the episode without a reward.
        """
        if self._connected is None:
            raise PeerError(f"{self._url}: no episode is played: call reset() first")
        reply = self._asked(partial(self._connected.step, {self._action_field: action}))
        if reply.done and reply.reward is None:
            raise self._failed("the episode ended without a reward")
        reward = float(reply.reward or 0.0)
        won = reply.done and reward > self._won_above
        return reply.text, reward, reply.done, False, {**self._told(reply), "won": won}

    def close(self) -> None:
        """Closes the connection."""
        connected, self._connected = self._connected, None
        if connected is not None:
            with suppress(Exception):
                connected.close()

    def _asked(self, ask: Callable[[], Any]) -> _Reply:
        try:
            result = ask()
            observation = dict(result.observation)
        except Exception as error:
            raise self._failed(f"{type(error).__name__}: {error}") from error
        field = self._observation_field
        if field not in observation:
            known = ", ".join(map(str, observation))
            raise self._failed(
                f"no field {field!r} in an observation of {known}: observation_field"
            )
        said = {name: observation[name] for name in _OPTIONAL if name in observation}
        try:
            return _Reply(text=observation[field], reward=result.reward, done=result.done, **said)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise self._failed(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def _told(self, reply: _Reply) -> dict[str, Any]:
        task = {} if reply.task is None else {"task": reply.task}
        return {"admissible_actions": reply.admissible_actions, **task}

    def _failed(self, why: str) -> PeerError:
        """The error; the next episode begins on a connection of its own."""
        self.close()
        return PeerError(f"{self._url}: {short_line(why, 300)!r}")
