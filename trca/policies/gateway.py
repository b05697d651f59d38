"""`Gateway`: an OpenAI-compatible server in front of an engine, which records what it samples.

::

    async with gateway.serving():
        session = gateway.open(Session(generate, SamplingParams(), seeds=count()))
        ...  # a client asks session.base_url
        sampled = session.take()  # ids, mask and log-probabilities since the last call
        gateway.close(session)

A session is one rollout. Its address is ``http://127.0.0.1:PORT/rollouts/ID/v1``, so a client needs
only a ``base_url``. If the messages of a request begin with an earlier request and its answer, the
prompt begins with the ids of that prompt and the sampled ids, and only the further messages are
tokenized. A client that changes the history starts another context.

``temperature``, ``max_tokens``, ``max_completion_tokens``, ``stop``, ``seed`` and ``logprobs`` have
an effect. Further parameters are refused, unless they ask for the default.
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
from fastapi import FastAPI, Response
from fastapi import Request as HTTPRequest
from fastapi.responses import JSONResponse
from jinja2 import TemplateError
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.exceptions import HTTPException

from trca.policies.engines.engine import Completion, Request, SamplingParams
from trca.policies.prompts import Prompter
from trca.policies.spans import token_bytes

HOST: Final = "127.0.0.1"
_DEFAULTS: Final = {"n": 1, "stream": False, "top_p": 1, "top_logprobs": 0} | dict.fromkeys(
    ("frequency_penalty", "presence_penalty"), 0
)
"""Parameters without an effect, and the values that a request may give them."""

Generate = Callable[[Request, SamplingParams], Awaitable[Completion]]
Messages = tuple[tuple[str, str], ...]
"""Role and text of each message."""


class Sampled(NamedTuple):
    """The sampled responses of a context.

    Attributes:
        prompt_ids: int32 (P,), the first prompt.
        completion: The responses. Ids of messages between two responses have log-probability 0.
        mask: bool (R,), True on sampled ids.
    """

    prompt_ids: NDArray[np.int32]
    completion: Completion
    mask: NDArray[np.bool_]


@dataclass(eq=False)
class Session:
    """The requests of one rollout.

    Attributes:
        generate: Completes a prompt.
        sampling: Temperature and longest response.
        seeds: Seeds of the requests without a seed.
        module: Id of the policy.
        trains: Whether the rollout is trained. A request cannot change the temperature then.
        base_url: The address; `Gateway.open` sets it.
        failure: The first technical failure; None without one.
        contexts: Number of prompts that do not continue a response.
        left_out: Number of responses that `take` leaves out, because the client started another
            context before the call.
    """

    generate: Generate
    sampling: SamplingParams
    seeds: Iterator[int]
    module: str = ""
    trains: bool = False
    base_url: str = ""
    failure: Exception | None = None
    contexts: int = 0
    left_out: int = 0
    _known: dict[Messages, list[int]] = field(default_factory=dict)
    _untaken: list[tuple[list[int], Completion]] = field(default_factory=list)

    def past(self, messages: Messages) -> tuple[int, list[int]]:
        """Number and ids of the first messages, up to the last response of this session."""
        for count in range(len(messages), 0, -1):
            if ids := self._known.get(messages[:count]):
                return count, ids
        return 0, []

    def add(self, messages: Messages, prompt: list[int], completion: Completion, text: str) -> None:
        """Records the response to messages, and its text as the client reads it."""
        if self._untaken:
            before, last = self._untaken[-1]
            past = [*before, *last.ids.tolist()]
            if prompt[: len(past)] != past:
                self.left_out += len(self._untaken)
                self._untaken = []
        self._untaken.append((prompt, completion))
        self._known[(*messages, ("assistant", text))] = [*prompt, *completion.ids.tolist()]

    def take(self) -> Sampled | None:
        """The responses since the last call, in the newest context; None without a response."""
        if not self._untaken:
            return None
        taken, self._untaken = self._untaken, []
        start, (prompt, last) = len(taken[0][0]), taken[-1]
        ids = np.array([*prompt, *last.ids.tolist()], dtype=np.int32)
        logprobs, mask = np.zeros(len(ids), dtype=np.float32), np.zeros(len(ids), dtype=bool)
        for prompt, each in taken:
            place = slice(len(prompt), len(prompt) + len(each.ids))
            logprobs[place], mask[place] = each.logprobs, True
        completion = replace(last, ids=ids[start:], logprobs=logprobs[start:])
        return Sampled(ids[:start], completion, mask[start:])


class _Part(BaseModel):
    type: Literal["text"]
    text: str


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[_Part]
    name: str | None = None


_Stop = Annotated[str, StringConstraints(min_length=1)]
_Limit = Annotated[int, Field(ge=1)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="allow")
    messages: Annotated[list[_Message], Field(min_length=1)]
    model: str = "policy"
    user: str | None = None
    temperature: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    max_tokens: _Limit | None = None
    max_completion_tokens: _Limit | None = None
    stop: _Stop | list[_Stop] | None = None
    seed: int | None = None
    logprobs: bool | None = None


class _RefusedError(Exception):
    """An answer with an error, in the form of OpenAI's."""

    def __init__(self, message: str, param: str = "", code: str = "", status: int = 400) -> None:
        self.status = status
        kind = "server_error" if status >= 500 else "invalid_request_error"
        names = {"param": param or None, "code": code or None}
        self.body = {"error": {"message": message, "type": kind, **names}}


class _Server(uvicorn.Server):
    """A server that leaves Ctrl-C to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Gateway:
    """The server, and its open sessions."""

    def __init__(self, prompter: Prompter, tokenizer: Any) -> None:
        """Takes the prompter, for its chat template and its limit, and its tokenizer."""
        self._prompter, self._bytes = prompter, token_bytes(tokenizer)
        self._most_characters = prompter.max_prompt_tokens * max(map(len, self._bytes))
        self._most_bytes = 12 * self._most_characters + 2**20  # JSON can need 12 for a character
        self._sessions: dict[str, Session] = {}
        self._address = ""
        self._app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        self._app.post("/rollouts/{name}/v1/chat/completions")(self._complete)
        self._app.exception_handler(_RefusedError)(_refusal)
        self._app.exception_handler(HTTPException)(_refusal)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serves in the running event loop, on a free port of this machine."""
        options: Any = {"lifespan": "off", "log_config": None, "timeout_graceful_shutdown": 1}
        server = _Server(uvicorn.Config(self._app, **options))
        with socket.create_server((HOST, 0)) as opened:
            self._address = f"http://{HOST}:{opened.getsockname()[1]}"
            task = asyncio.create_task(server.serve([opened]))
            try:
                yield
            finally:
                server.should_exit = True
                await task

    def open(self, session: Session) -> Session:
        """Opens a session, and gives it its address."""
        session.base_url = self._url(uuid4().hex)
        self._sessions[session.base_url] = session
        return session

    def close(self, session: Session) -> None:
        """Refuses the further requests of a session."""
        del self._sessions[session.base_url]

    def _url(self, name: str) -> str:
        return f"{self._address}/rollouts/{name}/v1"

    async def _complete(self, name: str, request: HTTPRequest) -> Response:
        """Answers a request."""
        asked = _read(await _body(request, self._most_bytes))
        session = self._sessions.get(self._url(name))
        if session is None:
            why = "this rollout has ended: use the base_url of a rollout under way"
            raise _RefusedError(why, code="rollout_not_found", status=404)
        sampling = _sampling(asked, session)
        messages = tuple((each.role, _text(each)) for each in asked.messages)
        known, past = session.past(messages)
        prompt = self._prompt(messages[known:], past)
        seed = next(session.seeds) if asked.seed is None else asked.seed % 2**63
        made = Request(np.array(prompt, dtype=np.int32), seed, session.module)
        try:
            completion = await session.generate(made, sampling)
        except Exception as error:
            session.failure = session.failure or error
            why = f"the engine failed, and the rollout is lost: {type(error).__name__}: {error}"
            raise _RefusedError(why, code="engine_failed", status=500) from None
        if await request.is_disconnected():  # nobody reads the response: the rollout lacks it
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
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(pieces)}
        body = {
            "id": f"chatcmpl-{uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": asked.model,
            "choices": [choice],
            "usage": {**usage, "total_tokens": len(prompt) + len(pieces)},
        }
        return JSONResponse(body)

    def _prompt(self, messages: Messages, past: Sequence[int]) -> list[int]:
        """Ids of the messages after past ids."""
        limit = self._prompter.max_prompt_tokens
        characters = sum(len(text) for _, text in messages)
        if characters > self._most_characters:  # tokenizing would take seconds
            raise _too_long(f"{characters} characters", limit)
        try:
            rest = [{"role": role, "content": text} for role, text in messages]
            prompt = self._prompter.continued(rest, past)
        except (ValueError, TemplateError) as error:
            raise _RefusedError(f"{error}", "messages") from None
        if len(prompt) > limit:
            raise _too_long(f"{len(prompt)} tokens", limit)
        return prompt


def _too_long(size: str, limit: int) -> _RefusedError:
    why = f"the messages have {size}, and max_prompt_tokens is {limit}"
    why += ": shorten the messages, or raise the setting"
    return _RefusedError(why, "messages", "context_length_exceeded")


async def _refusal(request: HTTPRequest, error: Exception) -> Response:
    """The answer to a refused request; its header asks the client not to repeat the request."""
    if not isinstance(error, _RefusedError):
        why = f"no {request.method} {request.url.path}: ask POST {{base_url}}/chat/completions"
        error = _RefusedError(why, code="unknown_url", status=404)
    return JSONResponse(error.body, error.status, {"x-should-retry": "false"})


async def _body(request: HTTPRequest, most: int) -> bytes:
    """The body of a request, of which no more than ``most`` bytes are kept."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            why = f"the request has over {most} bytes, more than any prompt: shorten the messages"
            raise _RefusedError(why, code="request_too_large", status=413)
    return bytes(body)


def _read(body: bytes) -> _Asked:
    """Reads and checks the body of a request."""
    try:
        asked = _Asked.model_validate_json(body)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        param = ".".join(map(str, first["loc"]))
        raise _RefusedError(f"{param or 'the body'}: {first['msg']}", param) from None
    extra = {**(asked.model_extra or {})}
    for number, message in enumerate(asked.messages):
        others = message.model_extra or {}
        extra |= {f"messages.{number}.{name}": value for name, value in others.items()}
    for name, value in extra.items():
        if value not in (None, [], {}, _DEFAULTS.get(name)):
            why = f"{name} is {str(value)[:80]!r}, which has no effect here: leave {name} out"
            raise _RefusedError(why, name, "unsupported_parameter")
    if asked.messages[-1].role == "assistant":
        raise _RefusedError("the last message is an answer: end with another role", "messages")
    return asked


def _sampling(asked: _Asked, session: Session) -> SamplingParams:
    """The sampling of a request, within the limits of the session."""
    default = session.sampling
    temperature = default.temperature if asked.temperature is None else asked.temperature
    if session.trains and temperature != default.temperature:
        why = f"temperature is {temperature:g}, and training samples at {default.temperature:g}"
        why += ": leave temperature out, or change the setting"
        raise _RefusedError(why, "temperature")
    name = "max_tokens" if asked.max_completion_tokens is None else "max_completion_tokens"
    longest = getattr(asked, name) or default.max_new_tokens
    if longest > default.max_new_tokens:
        why = f"{name} is {longest}, and max_new_tokens is {default.max_new_tokens}"
        raise _RefusedError(f"{why}: ask for fewer tokens, or raise the setting", name)
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
    """The log-probabilities of a response in OpenAI's form."""
    return [
        {"token": t.decode(errors="replace"), "bytes": list(t), "logprob": p, "top_logprobs": []}
        for t, p in zip(pieces, completion.logprobs.tolist(), strict=True)
    ]
