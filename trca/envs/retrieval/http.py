"""HTTP client of retrieval servers, with retries, round-robin and a circuit breaker.

A failed request is repeated with growing pauses. A server with several failures in a row is
excluded for a while and then gets a single request. If all servers are excluded, searches fail at
once.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import httpx

from trca.common.errors import short_line
from trca.common.shared import Shared
from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import RetrievalError
from trca.envs.retrieval.wire import SHAPES, ReplyError, Shape, read_reply, request_body

_BREAKING: Final = 5
"""Number of failures in a row that exclude a server."""
_LONGEST_PAUSE: Final = 10.0
_LONGEST_REPLY: Final = 64 << 20
"""Largest number of bytes of a reply."""
_PORTION: Final = 256
"""Largest number of queries in one request; servers have limits."""
_AT_ONCE: Final = 32
"""Largest number of simultaneous requests of one search."""


_certificates: Final = cache(httpx.create_ssl_context)
"""Makes the default certificates once; reading takes longer than many searches."""


class _PassingError(Exception):
    """A failure that a retry may solve."""


@dataclass(slots=True)
class _Server:
    """A server. `closed_until` applies after `_BREAKING` failures in a row."""

    url: str
    failures: int = 0
    closed_until: float = 0.0


class HttpRetriever(Shared):
    """A `Retriever` that sends requests to retrieval servers in turn."""

    waits: Final = True

    def __init__(
        self,
        urls: str | Sequence[str],
        shape: Shape = "batch",
        timeout: float = 60.0,
        attempts: int = 4,
        pause: float = 0.5,
        cooldown: float = 10.0,
    ) -> None:
        """Prepares a client without sending a request.

        Args:
            urls: One or more URLs, such as ``http://127.0.0.1:8000/retrieve``.
            shape: Format of the requests: ``batch`` (Search-R1) or ``single`` (verl-agent).
            timeout: Seconds to wait for a reply.
            attempts: Total number of attempts per request.
            pause: Seconds before the second attempt. The pause doubles with each further attempt.
            cooldown: Seconds without requests to a server after 5 failures in a row.
        """
        addresses = [urls] if isinstance(urls, str) else list(urls)
        if not addresses:
            raise ValueError(
                "an http retriever needs a URL, such as http://127.0.0.1:8000/retrieve"
            )
        if shape not in SHAPES:
            raise ValueError(f"unknown shape {shape!r}: choose {', '.join(SHAPES)}")
        self._servers = [_Server(url) for url in addresses]
        self._shape: Shape = shape
        self._attempts, self._pause, self._cooldown = attempts, pause, cooldown
        self._timeout = timeout
        self._client = httpx.Client(timeout=timeout, verify=_certificates())
        self._lock = threading.Lock()
        self._turn = 0

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """The best passages for each query; see `Retriever.search`."""
        size = _PORTION if self._shape == "batch" else 1
        portions = [queries[start : start + size] for start in range(0, len(queries), size)]
        ask = partial(self._ask, limit=limit)
        if len(portions) < 2:
            return [passages for portion in portions for passages in ask(portion)]
        with ThreadPoolExecutor(min(len(portions), _AT_ONCE)) as pool:
            return [passages for results in pool.map(ask, portions) for passages in results]

    def close(self) -> None:
        """Closes all connections."""
        self._client.close()

    def _ask(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        body = request_body(queries, limit, self._shape)
        problem = "all servers failed before"
        for attempt in range(self._attempts):
            if attempt:
                longest = min(self._pause * 2 ** (attempt - 1), _LONGEST_PAUSE)
                time.sleep(longest * random.uniform(0.5, 1.0))
            server = self._next_server()
            if server is None:
                tried = ", ".join(each.url for each in self._servers)
                raise RetrievalError(
                    f"no retrieval server is left ({tried}): {problem}; each server gets a request"
                    f" {self._cooldown:g} s after its last failure"
                )
            try:
                passages = read_reply(self._post(server.url, body), len(queries), self._shape)
            except (httpx.HTTPError, _PassingError, ReplyError) as error:
                reason = short_line(error) or "no reply"
                problem = f"{server.url}: {type(error).__name__}: {reason}"
                self._note(server, failed=True)
            else:
                self._note(server, failed=False)
                return [ranked[:limit] for ranked in passages]
        raise RetrievalError(f"no answer in {self._attempts} attempts: {problem}")

    def _post(self, url: str, body: dict[str, Any]) -> Any:
        """The decoded reply, within the limits of time and size."""
        deadline = time.monotonic() + self._timeout
        data = bytearray()
        with self._client.stream("POST", url, json=body) as response:
            for part in response.iter_bytes():
                data += part
                if len(data) > _LONGEST_REPLY:
                    raise _PassingError(f"the reply has over {_LONGEST_REPLY >> 20} MiB")
                if time.monotonic() > deadline:
                    raise _PassingError(f"the reply took over {self._timeout:g} s")
        text = short_line(data.decode(errors="replace"))
        status = f"HTTP {response.status_code}: {text}"
        if response.status_code >= 500 or response.status_code in (408, 425, 429):
            raise _PassingError(status)
        if response.status_code != 200:
            raise RetrievalError(f"{url} refuses the request: {status}")
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise _PassingError(f"the reply is not JSON: {text}") from None

    def _next_server(self) -> _Server | None:
        """The next server in turn, with one request after its cooldown; None if there is none."""
        now = time.monotonic()
        with self._lock:
            for _ in self._servers:
                server = self._servers[self._turn % len(self._servers)]
                self._turn += 1
                if server.failures < _BREAKING:
                    return server
                if now >= server.closed_until:
                    server.closed_until = now + self._cooldown
                    return server
        return None

    def _note(self, server: _Server, *, failed: bool) -> None:
        with self._lock:
            server.failures = server.failures + 1 if failed else 0
            server.closed_until = time.monotonic() + self._cooldown
