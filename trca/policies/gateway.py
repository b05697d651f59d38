"""`Gateway`: an OpenAI-compatible server in front of an engine, which records what it samples.

::

    gateway = Gateway(prompter, tokenizer)
    async with gateway.serving():
        session = gateway.open(generate, SamplingParams(), seeds=count())
        ...  # a client asks session.base_url
        sampled = session.take()  # ids, mask and log-probabilities since the last call
        gateway.close(session)

A session is one rollout, and its ``base_url`` names it: ``http://127.0.0.1:PORT/rollouts/ID/v1``.
The server answers ``POST {base_url}/chat/completions``. If the messages of a request repeat an
earlier request and its answer, the prompt has the ids of that prompt and the sampled ids, and only
the further messages are tokenized. A client that changes the history starts another context.

The parameters ``temperature``, ``max_tokens``, ``max_completion_tokens``, ``stop``, ``seed`` and
``logprobs`` have an effect. Others are refused, unless they ask for the default.
Needs ``pip install 'trca[serve]'``.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, NamedTuple
from uuid import uuid4

import numpy as np
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from jinja2 import TemplateError
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from trca.policies.engines import engine
from trca.policies.engines.engine import Completion, SamplingParams
from trca.policies.prompts import Prompter
from trca.policies.spans import token_bytes

HOST: Final = "127.0.0.1"
_DEFAULTS: Final = {
    **{"n": 1, "stream": False, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0},
    "top_logprobs": 0,
}
"""Parameters without an effect here, and their values that a request may give."""

Generate = Callable[[engine.Request, SamplingParams], Awaitable[Completion]]
Messages = tuple[tuple[str, str], ...]
"""Role and text of each message."""


class Sampled(NamedTuple):
    """The sampled responses of one context.

    Attributes:
        prompt_ids: int32 (P,), the prompt of the first response.
        completion: The responses, and between two responses the ids of the messages, which have
            log-probability 0. Version and finish reason are those of the last response.
        mask: bool (R,), True on sampled ids.
    """

    prompt_ids: NDArray[np.int32]
    completion: Completion
    mask: NDArray[np.bool_]


@dataclass(eq=False)
class Session:
    """The requests of one rollout.

    Attributes:
        base_url: The address for a client.
        generate: Completes a prompt.
        sampling: Temperature and longest response.
        seeds: The seed of each request, unless the request has a seed.
        module: Id of the policy.
        trains: Whether the rollout is trained: its temperature is fixed.
        failure: The first technical failure; None without one.
        contexts: Number of prompts that do not continue an earlier response.
        left_out: Number of responses that `take` did not return, because the client asked in
            another context before the next `take`.
    """

    base_url: str
    generate: Generate
    sampling: SamplingParams
    seeds: Iterator[int]
    module: str = ""
    trains: bool = False
    failure: Exception | None = None
    contexts: int = 0
    left_out: int = 0
    _known: dict[Messages, list[int]] = field(default_factory=dict)
    _open: list[tuple[list[int], Completion]] = field(default_factory=list)

    def past(self, messages: Messages) -> tuple[int, list[int]]:
        """The longest beginning of the messages that ends with a response here, and its ids."""
        for count in range(len(messages), 0, -1):
            if ids := self._known.get(messages[:count]):
                return count, ids
        return 0, []

    def add(self, messages: Messages, prompt: list[int], completion: Completion, text: str) -> None:
        """Records the response to messages, and its text as the client reads it."""
        if self._open:
            before, last = self._open[-1]
            if prompt[: len(before) + len(last.ids)] != [*before, *last.ids.tolist()]:
                self.left_out += len(self._open)
                self._open.clear()
        self._open.append((prompt, completion))
        self._known[(*messages, ("assistant", text))] = [*prompt, *completion.ids.tolist()]

    def take(self) -> Sampled | None:
        """The responses since the last call, in the newest context; None without a response."""
        if not self._open:
            return None
        taken, self._open = self._open, []
        start = len(taken[0][0])
        prompt, last = taken[-1]
        ids = np.array([*prompt, *last.ids.tolist()], dtype=np.int32)
        logprobs, mask = np.zeros(len(ids), dtype=np.float32), np.zeros(len(ids), dtype=bool)
        for prompt, completion in taken:
            place = slice(len(prompt), len(prompt) + len(completion.ids))
            logprobs[place], mask[place] = completion.logprobs, True
        completion = replace(last, ids=ids[start:], logprobs=logprobs[start:])
        return Sampled(ids[:start], completion, mask[start:])


class _Part(BaseModel):
    type: Literal["text"]
    text: str


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[_Part]


_Stop = Annotated[str, StringConstraints(min_length=1)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="allow")

    messages: Annotated[list[_Message], Field(min_length=1)]
    model: str | None = None
    user: str | None = None
    temperature: Annotated[float, Field(ge=0.0)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: _Stop | list[_Stop] | None = None
    seed: int | None = None
    logprobs: bool | None = None


class _RefusedError(Exception):
    """A request gets an error, in the form of OpenAI's."""

    def __init__(
        self, message: str, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        self.status = status
        kind = "server_error" if status >= 500 else "invalid_request_error"
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class _Server(uvicorn.Server):
    """A server that leaves Ctrl-C to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Gateway:
    """The server, and its open sessions."""

    def __init__(self, prompter: Prompter, tokenizer: Any) -> None:
        """Takes the prompter, whose chat template and limit it uses, and its tokenizer."""
        self._prompter = prompter
        self._bytes = token_bytes(tokenizer)
        self._sessions: dict[str, Session] = {}
        self._address = ""
        self._app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        self._app.post("/rollouts/{name}/v1/chat/completions")(self._complete)
        self._app.exception_handler(_RefusedError)(_refusal)
        self._app.exception_handler(HTTPException)(_refusal)
        self._app.exception_handler(404)(_refusal)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serves in the running event loop, on a free port of this machine."""
        with socket.create_server((HOST, 0)) as opened:
            self._address = f"http://{HOST}:{opened.getsockname()[1]}"
            config = uvicorn.Config(
                self._app, lifespan="off", log_config=None, timeout_graceful_shutdown=1
            )
            server = _Server(config)
            task = asyncio.create_task(server.serve([opened]))
            try:
                yield
            finally:
                server.should_exit = True
                await task

    def open(
        self,
        generate: Generate,
        sampling: SamplingParams,
        seeds: Iterator[int],
        module: str = "",
        trains: bool = False,
    ) -> Session:
        """Opens a session; the arguments are attributes of `Session`."""
        name = uuid4().hex
        url = f"{self._address}/rollouts/{name}/v1"
        self._sessions[name] = Session(url, generate, sampling, seeds, module, trains)
        return self._sessions[name]

    def close(self, session: Session) -> None:
        """Refuses all further requests of a session."""
        self._sessions = {n: s for n, s in self._sessions.items() if s is not session}

    async def _complete(self, name: str, request: Request) -> Response:
        if (session := self._sessions.get(name)) is None:
            raise _RefusedError(
                "this rollout has ended: use the base_url of a rollout under way",
                code="rollout_not_found",
                status=404,
            )
        asked = _read(await request.body())
        messages = tuple((each.role, _text(each)) for each in asked.messages)
        sampling = _sampling(asked, session)
        known, past = session.past(messages)
        rest = [{"role": role, "content": text} for role, text in messages[known:]]
        try:
            prompt = self._prompter.continued(rest, past)
        except (ValueError, TemplateError) as error:
            raise _RefusedError(f"{error}", "messages") from None
        if len(prompt) > (limit := self._prompter.max_prompt_tokens):
            raise _RefusedError(
                f"the messages have {len(prompt)} tokens, over {limit}: shorten the messages, or"
                " raise max_prompt_tokens",
                "messages",
                "context_length_exceeded",
            )
        seed = next(session.seeds)
        if asked.seed is not None:
            seed = asked.seed % 2**63
        made = engine.Request(np.array(prompt, dtype=np.int32), seed, session.module)
        try:
            completion = await session.generate(made, sampling)
        except Exception as error:
            session.failure = session.failure or error
            why = f"the engine failed, so the rollout is lost: {type(error).__name__}: {error}"
            raise _RefusedError(why, code="engine_failed", status=500) from None
        if await request.is_disconnected():  # nobody reads the response: it is no part of a rollout
            return Response(status_code=499)
        session.contexts += not known
        pieces = [self._bytes[i] for i in completion.ids.tolist()]
        text = _shown(pieces, completion, sampling.stop)
        session.add(messages, prompt, completion, text)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": completion.finish_reason,
            "logprobs": {"content": _tokens(pieces, completion)} if asked.logprobs else None,
        }
        counts = len(prompt), len(completion.ids), len(prompt) + len(completion.ids)
        names = "prompt_tokens", "completion_tokens", "total_tokens"
        body = {
            "id": f"chatcmpl-{uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": asked.model or "policy",
            "choices": [choice],
            "usage": dict(zip(names, counts, strict=True)),
        }
        return JSONResponse(body)


async def _refusal(request: Request, error: Exception) -> Response:
    """The answer to a refused request. A client need not try again, which the header tells it."""
    if not isinstance(error, _RefusedError):
        why = f"no {request.method} {request.url.path}: ask POST {{base_url}}/chat/completions"
        error = _RefusedError(why, code="unknown_url", status=404)
    return JSONResponse(error.body, error.status, {"x-should-retry": "false"})


def _read(body: bytes) -> _Asked:
    try:
        asked = _Asked.model_validate_json(body)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        param = ".".join(map(str, first["loc"]))
        raise _RefusedError(f"{param or 'the body'}: {first['msg']}", param or None) from None
    extra = {**(asked.model_extra or {})}
    for number, message in enumerate(asked.messages):
        others = {**(message.model_extra or {})}
        others.pop("name", None)
        extra |= {f"messages.{number}.{name}": value for name, value in others.items()}
    for name, value in extra.items():
        if value not in (None, [], {}, _DEFAULTS.get(name)):
            why = f"{name} is {str(value)[:80]!r} and has no effect here: leave {name} out"
            raise _RefusedError(why, name, "unsupported_parameter")
    if asked.messages[-1].role == "assistant":
        raise _RefusedError("the last message is an answer: end with a message to answer", "messages")
    return asked


def _sampling(asked: _Asked, session: Session) -> SamplingParams:
    default = session.sampling
    temperature = default.temperature if asked.temperature is None else asked.temperature
    if session.trains and temperature != default.temperature:
        raise _RefusedError(
            f"temperature is {temperature:g}, and this rollout trains a policy that samples at"
            f" {default.temperature:g}: leave temperature out, or change the setting temperature",
            "temperature",
        )
    name = "max_tokens" if asked.max_completion_tokens is None else "max_completion_tokens"
    longest = getattr(asked, name) or default.max_new_tokens
    if longest > default.max_new_tokens:
        raise _RefusedError(
            f"{name} is {longest}: ask for {default.max_new_tokens} or fewer, or raise"
            " max_new_tokens",
            name,
        )
    stop = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ())
    return replace(default, temperature=temperature, max_new_tokens=longest, stop=stop)


def _text(message: _Message) -> str:
    content = message.content
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _shown(pieces: Sequence[bytes], completion: Completion, stop: Sequence[str]) -> str:
    """The text of a response, without the stop string or end token that ends it."""
    text = b"".join(pieces)
    if completion.finish_reason == "stop":
        before = len(text) - len(pieces[-1])
        ends = [(text.rfind(mark), len(mark)) for mark in map(str.encode, stop)]
        text = text[: min([k for k, size in ends if k >= 0 and k + size > before], default=before)]
    return text.decode(errors="replace")


def _tokens(pieces: Sequence[bytes], completion: Completion) -> list[dict[str, Any]]:
    """The log-probabilities of a response, stop string included, in OpenAI's form."""
    return [
        {
            "token": piece.decode(errors="replace"),
            "bytes": list(piece),
            "logprob": logprob,
            "top_logprobs": [],
        }
        for piece, logprob in zip(pieces, completion.logprobs.tolist(), strict=True)
    ]
