"""Client of an OpenAI-compatible chat endpoint, with retries, token counts and a hidden key.

::

    with ChatEndpoint("https://api.example.com/v1", "some-model") as endpoint:
        answer = endpoint.ask("Who wrote Emma?", max_tokens=100)
    answer.text, endpoint.usage.prompt_tokens

The key comes from the environment variable ``OPENAI_API_KEY``. After temporary failures (429, 5xx,
time-outs, lost connections) the client retries after ``Retry-After``, or after growing pauses.
Answers are untrusted input: they have a limited size, are checked, and never contain the key.
Needs the extra ``endpoint``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from threading import Lock
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from trca.common.errors import short_line
from trca.common.extras import missing_extra
from trca.common.thoughts import answer_start

KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""Environment variable of the key."""
_MOST_BYTES: Final = 4 << 20
"""Largest size of a reply in bytes."""
_SECRET: Final = 16
"""Least number of characters of a secret key. Local servers accept any short word as a key, and
answers may contain such a word."""
_REFUSALS: Final = (401, 403, 404)
"""Statuses that every request would meet: no key, no permission, unknown model.

After such a status the client sends no further request, unless an earlier request was answered: the
status then concerns a single request, such as a moderated prompt.
"""


class EndpointError(RuntimeError):
    """The endpoint gave no usable answer."""


@dataclass(slots=True)
class Usage:
    """Numbers of requests and tokens.

    Attributes:
        requests: Answered requests.
        retries: Repeated attempts of requests with a reply.
        failures: Requests without a usable answer after all attempts.
        prompt_tokens: Tokens that the endpoint reports, also for unusable answers.
        uncounted: Answered requests without reported tokens.
    """

    requests: int = 0
    retries: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    uncounted: int = 0

    def cost(self, prompt: float, completion: float) -> float:
        """Returns the cost from the prices of a million prompt tokens and completion tokens."""
        return (self.prompt_tokens * prompt + self.completion_tokens * completion) / 1e6

    def words(self, prices: tuple[float, float] | None = None) -> str:
        """Returns the numbers in one line, with the cost if prices are given."""
        parts = [
            f"{self.requests:,} answers",
            f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens",
        ]
        if self.uncounted:
            parts.append(f"without the unreported tokens of {self.uncounted:,} answers")
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
    """A text of the model, which may be empty; ``length`` if a limit on tokens ended the text."""

    text: str
    finish_reason: Literal["stop", "length"]

    @property
    def after_thought(self) -> str:
        """The text after the native thoughts of the model."""
        return self.text[answer_start(self.text, "unknown") :]


class ChatEndpoint:
    """One model at one endpoint, and the `usage` so far. Several threads may use it at once."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        attempts: int = 4,
    ) -> None:
        """Creates a client without sending a request.

        Args:
            url: The base URL, usually ending in ``/v1``.
            model: The model's name at the endpoint.
            api_key: The key; `None` for the key of the environment, if set.
            timeout: Seconds to wait for a reply.
            attempts: Total number of attempts per request.

        Raises:
            EndpointError: If the client is not installed, or the key is not printable ASCII.
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
                f"the key in {KEY_VARIABLE} has characters that are invalid in a request: set the"
                " key again"
            )
        self._timeout, self._refusal, self._lock = timeout, "", Lock()
        self._client = openai.OpenAI(
            base_url=url,
            api_key=self._key or "none",
            timeout=timeout,
            max_retries=attempts - 1,
        )

    def ask(self, prompt: str, **request: Any) -> Answer:
        """Sends one user message and returns the answer.

        Further fields of the request, such as ``max_tokens``, are left out if they are `None`.

        Raises:
            EndpointError: If there is no answer after all attempts, or the reply is not a
                completion.
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
        """Sends a request, and updates the usage."""
        import openai

        if self._refusal and not self.usage.requests:
            raise EndpointError(self._refusal)
        create = self._client.chat.completions.with_streaming_response.create
        body = bytearray()
        try:
            with create(
                model=self.model,
                messages=[{"role": "user", "content": prompt}],
                extra_body={name: value for name, value in request.items() if value is not None},
            ) as response:
                usage.retries = response.retries_taken
                deadline = time.monotonic() + self._timeout
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > _MOST_BYTES:
                        long = f"the reply is longer than {_MOST_BYTES} bytes"
                        raise EndpointError(self._message(long))
                    if time.monotonic() > deadline:
                        late = f"the reply is incomplete after {self._timeout:g} s"
                        raise EndpointError(self._message(late))
        except EndpointError:
            raise
        except openai.APIStatusError as error:
            message = self._message(f"HTTP {error.status_code}: {error.response.text}")
            if error.status_code in _REFUSALS:
                self._refusal = message
            raise EndpointError(message) from None
        except Exception as error:  # errors of the client, and of its HTTP library inside a body
            cause = error.__cause__
            why = f" ({type(cause).__name__}: {cause})" if cause else ""
            raise EndpointError(self._message(f"{type(error).__name__}: {error}{why}")) from None
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):
            text = body.decode(errors="replace")
            raise EndpointError(self._message(f"this is not JSON: {text}")) from None
        return self._read(reply, usage)

    def _read(self, reply: Any, usage: Usage) -> Answer:
        """Checks a reply, updates the usage and returns the answer."""
        uncounted = 1
        match reply:
            case {"usage": {"prompt_tokens": int(prompt), "completion_tokens": int(completion)}}:
                if min(prompt, completion) >= 0:
                    usage.prompt_tokens, usage.completion_tokens, uncounted = prompt, completion, 0
        try:
            choice = reply["choices"][0]
            text, reason = choice["message"].get("content"), choice.get("finish_reason")
        except (TypeError, KeyError, IndexError, AttributeError):
            raise EndpointError(self._message(f"this is not a completion: {reply}")) from None
        if reason == "content_filter" or not isinstance(text, str | None):
            raise EndpointError(self._message(f"this is not a completion: {choice}"))
        usage.requests, usage.uncounted = 1, uncounted
        text = text or ""
        text = self._hidden(text) if len(self._key) >= _SECRET else text
        return Answer(text, "length" if reason == "length" else "stop")

    def _message(self, text: str) -> str:
        return f"{self.url}: {short_line(self._hidden(text), 300)}"

    def _hidden(self, text: str) -> str:
        """Replaces the key in a text."""
        return text.replace(self._key, "***") if self._key else text


def check_url(url: str) -> None:
    """Raises a `ValueError` for a malformed base URL.

    The URL has no user, password or query, which logs would show.
    """
    wrong = "the base URL must read like http://127.0.0.1:8000/v1"
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (raises for an invalid port)
    except ValueError:
        raise ValueError(wrong) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in url:
        raise ValueError(wrong)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            f"the base URL of {parts.hostname} has more than a path, and appears in logs and"
            f" reports: put the key into {KEY_VARIABLE}"
        )


def missing_client() -> str:
    """Returns how to install the client; empty if installed."""
    return missing_extra("openai", "an endpoint", "endpoint")
