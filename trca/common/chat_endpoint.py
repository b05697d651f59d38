"""Client of an OpenAI-compatible chat endpoint: retries, tokens counted, and no secret in any text.

::

    with ChatEndpoint("https://api.example.com/v1", "some-model") as endpoint:
        answer = endpoint.ask("Who wrote Emma?", max_tokens=100)
    answer.text, endpoint.usage.prompt_tokens

The key is ``OPENAI_API_KEY`` of the environment. What fails in passing (429, 5xx, time-outs, lost
connections) is asked again after ``Retry-After``, or else after growing pauses. An answer is input
from outside: of a limited size, checked, and without the key should it repeat it.
Needs ``pip install 'trca[endpoint]'``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from trca.common.short_line import short_line

KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""Environment variable of the key."""

_MOST_BYTES: Final = 4 << 20
"""Bytes of a reply at most."""

_SECRET: Final = 16
"""Characters of a key that is a secret; local servers take any word, which answers may hold."""

_REFUSALS: Final = (401, 403, 404)
"""Statuses that the next request would meet too: no key, no right, no such model.

So nothing more is sent, unless something was answered: then they are of one request, such as a
prompt that is moderated.
"""


class EndpointError(RuntimeError):
    """The endpoint gave no usable answer."""


@dataclass(slots=True)
class Usage:
    """What was asked and answered.

    Attributes:
        requests: Answered requests.
        retries: Further attempts, of requests that got a reply.
        failures: Requests without a usable answer, after all attempts.
        prompt_tokens: Tokens of prompts, as the endpoint counts them, also where it then refused.
        completion_tokens: Tokens of answers, in the same way.
        uncounted: Answered requests of which the endpoint does not say the tokens.
    """

    requests: int = 0
    retries: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    uncounted: int = 0

    def cost(self, prompt: float, completion: float) -> float:
        """What it cost, in the unit of the prices.

        Args:
            prompt: Price of a million prompt tokens.
            completion: Price of a million completion tokens.
        """
        return (self.prompt_tokens * prompt + self.completion_tokens * completion) / 1e6

    def words(self, prices: tuple[float, float] | None = None) -> str:
        """What was asked and answered, on one line, with its cost where there are prices."""
        parts = [
            f"{self.requests:,} answers",
            f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens",
        ]
        if self.uncounted:
            parts.append(f"without those of {self.uncounted:,} answers that do not say theirs")
        if prices:
            parts.append(f"cost {self.cost(*prices):,.4f}")
        if self.retries or self.failures:
            parts.append(f"{self.retries:,} retries, {self.failures:,} without a usable answer")
        return ", ".join(parts)

    def __iadd__(self, other: Usage) -> Self:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        return self


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer.

    Attributes:
        text: What the model wrote; blank where it wrote nothing.
        finish_reason: ``length`` where a limit on its tokens ended it, else ``stop``.
    """

    text: str
    finish_reason: Literal["stop", "length"]


class ChatEndpoint:
    """One model at one endpoint; many threads may ask at once.

    Attributes:
        url: The base URL.
        model: The model's name there.
        usage: What was asked and answered so far.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        attempts: int = 4,
    ) -> None:
        """Prepares a client; nothing is asked yet.

        Args:
            url: The base URL, mostly ending in ``/v1``.
            model: The model's name there.
            api_key: The key; that of the environment when None, if it is set.
            timeout: Seconds to wait for a reply.
            attempts: How often a request is tried in all.

        Raises:
            EndpointError: When the client is not installed, or the key cannot be one.
            ValueError: See `check_url`.
        """
        if lack := missing_client():
            raise EndpointError(lack)
        check_url(url)
        import openai

        self.url, self.model, self.usage = url, model, Usage()
        self._key = (api_key or os.environ.get(KEY_VARIABLE) or "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise EndpointError(
                f"the key in {KEY_VARIABLE} has characters that no request can carry: set it again"
            )
        self._timeout, self._refusal, self._lock = timeout, "", Lock()
        self._client = openai.OpenAI(
            base_url=url,
            api_key=self._key or "none",
            timeout=timeout,
            max_retries=attempts - 1,
        )

    def ask(self, prompt: str, **request: Any) -> Answer:
        """Asks with one user message.

        Args:
            prompt: The message.
            request: Further fields of the request, such as ``max_tokens``; None leaves one out.

        Raises:
            EndpointError: When there is no answer after all attempts, or it is no completion.
        """
        usage = Usage()
        try:
            return self._ask(prompt, request, usage)
        except EndpointError:
            usage.failures = 1
            raise
        finally:
            with self._lock:
                self.usage += usage

    def close(self) -> None:
        """Closes all connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, prompt: str, request: Mapping[str, Any], usage: Usage) -> Answer:
        """Asks, and notes what it took."""
        import openai

        if self._refusal and not self.usage.requests:
            raise EndpointError(self._refusal)
        create = self._client.chat.completions.with_streaming_response.create
        try:
            with create(
                model=self.model,
                messages=[{"role": "user", "content": prompt}],
                extra_body={name: value for name, value in request.items() if value is not None},
            ) as response:
                usage.retries = response.retries_taken
                body = self._body(response.iter_bytes())
        except EndpointError:
            raise
        except openai.APIStatusError as error:
            said = self._said(f"HTTP {error.status_code}: {error.response.text}")
            if error.status_code in _REFUSALS:
                self._refusal = said
            raise EndpointError(said) from None
        except Exception as error:  # the client's own, and its HTTP library's within a body
            cause = error.__cause__
            why = f" ({type(cause).__name__}: {cause})" if cause else ""
            raise EndpointError(self._said(f"{type(error).__name__}: {error}{why}")) from None
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):
            text = body.decode(errors="replace")
            raise EndpointError(self._said(f"this is no JSON: {text}")) from None
        return self._read(reply, usage)

    def _body(self, chunks: Iterator[bytes]) -> bytes:
        """All of a reply's body, as long as it is neither too long nor too slow."""
        body, deadline = bytearray(), time.monotonic() + self._timeout
        for chunk in chunks:
            body += chunk
            if len(body) > _MOST_BYTES:
                raise EndpointError(self._said(f"the reply is longer than {_MOST_BYTES} bytes"))
            if time.monotonic() > deadline:
                raise EndpointError(self._said(f"the reply is not whole in {self._timeout:g} s"))
        return bytes(body)

    def _read(self, reply: Any, usage: Usage) -> Answer:
        """The answer in a reply, whose every part may be anything; notes its tokens."""
        counts = reply.get("usage") if isinstance(reply, dict) else None
        told = counts if isinstance(counts, dict) else {}
        match told.get("prompt_tokens"), told.get("completion_tokens"):
            case int(prompt), int(completion) if min(prompt, completion) >= 0:
                usage.prompt_tokens, usage.completion_tokens, counted = prompt, completion, True
            case _:
                counted = False
        try:
            choice = reply["choices"][0]
            text, reason = choice["message"].get("content"), choice.get("finish_reason")
        except (TypeError, KeyError, IndexError, AttributeError):
            raise EndpointError(self._said(f"this is no completion: {reply}")) from None
        if reason == "content_filter" or not isinstance(text, str | None):
            raise EndpointError(self._said(f"this is no completion: {choice}"))
        usage.requests, usage.uncounted = 1, int(not counted)
        text = text or ""
        if len(self._key) >= _SECRET:
            text = self._hidden(text)
        return Answer(text, "length" if reason == "length" else "stop")

    def _said(self, what: str) -> str:
        return f"{self.url}: {short_line(self._hidden(what), 300)}"

    def _hidden(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._key, "***") if self._key else text


def check_url(url: str) -> None:
    """Checks a base URL.

    Raises:
        ValueError: For a URL that is none, or has a user, a password or a query in it, which would
            stand in logs.
    """
    wrong = "the base URL must read like http://127.0.0.1:8000/v1"
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (raises where it is none)
    except ValueError:
        raise ValueError(wrong) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in url:
        raise ValueError(wrong)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            f"the base URL of {parts.hostname} has more than a path: it stands in logs and reports;"
            f" put the key into {KEY_VARIABLE}"
        )


def missing_client() -> str:
    """What to install; blank when it is there."""
    return "" if find_spec("openai") else "an endpoint needs: pip install 'trca[endpoint]'"
