"""A retrieval server: any retriever behind HTTP, for both common request formats.

``POST /retrieve`` takes the requests of `trca.envs.retrieval.wire`. ``GET /health`` succeeds when
the index is ready. Requests that arrive during a search are batched into the next search.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Self

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import RetrievalError, Retriever
from trca.envs.retrieval.wire import Shape, reply_body

MOST_QUERIES = 1024
"""Largest number of queries in one request, and in one search."""
MOST_WAITING = 8 * MOST_QUERIES
"""Largest number of waiting queries. Further requests are refused with a retry after one second."""
LONGEST_QUERY = 100_000
"""Largest number of characters of a query."""
LARGEST_BODY = 16 * 2**20
"""Largest size of a request, in bytes."""
MOST_PASSAGES = 1000
"""Largest number of passages per query."""

Query = Annotated[str, StringConstraints(max_length=LONGEST_QUERY)]


class SearchRequest(BaseModel):
    """A request with the ``queries`` of Search-R1 or the ``query`` of verl-agent."""

    queries: Annotated[list[Query], Field(max_length=MOST_QUERIES)] | None = None
    query: Query | None = None
    topk: Annotated[int, Field(ge=1, le=MOST_PASSAGES)] | None = None
    return_scores: bool = False

    @model_validator(mode="after")
    def _has_queries(self) -> Self:
        if self.queries is None and self.query is None:
            raise ValueError("give queries or query")
        return self


class BusyError(Exception):
    """Too many queries are waiting."""


@dataclass(slots=True)
class _Waiting:
    queries: Sequence[str]
    limit: int
    passages: asyncio.Future[list[list[Passage]]]


class Batcher:
    """Batches the searches of concurrent requests, one search at a time.

    ``waiting`` is the number of queries without answer.
    """

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue()
        self.waiting = 0

    async def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """The passages for each query; a BusyError if too many queries are waiting."""
        if self.waiting + len(queries) > MOST_WAITING:
            raise BusyError
        self.waiting += len(queries)
        try:
            request = _Waiting(queries, limit, asyncio.get_running_loop().create_future())
            self._waiting.put_nowait(request)
            return await request.passages
        finally:
            self.waiting -= len(queries)

    async def run(self) -> None:
        """Searches for waiting requests until cancelled."""
        while True:
            batch = [await self._waiting.get()]
            size = len(batch[0].queries)
            while not self._waiting.empty() and size < MOST_QUERIES:
                batch.append(self._waiting.get_nowait())
                size += len(batch[-1].queries)
            await self._serve(batch)

    async def _serve(self, batch: Sequence[_Waiting]) -> None:
        try:
            queries = [query for request in batch for query in request.queries]
            limit = max(request.limit for request in batch)
            results = iter(await asyncio.to_thread(self._retriever.search, queries, limit))
            for request in batch:
                passages = [next(results)[: request.limit] for _ in request.queries]
                if not request.passages.done():
                    request.passages.set_result(passages)
        except Exception as error:
            # One bad request must not fail the further requests of its batch.
            for request in batch if len(batch) > 1 else ():
                await self._serve([request])
            if not batch[0].passages.done():
                batch[0].passages.set_exception(error)


def create_app(load: Callable[[], Retriever], topk: int = 3) -> FastAPI:
    """The server as an ASGI application, which opens the retriever in a thread after the start.

    ``topk`` is the default number of passages per query.
    """
    batcher: Batcher | None = None
    failure: Exception | None = None

    async def work() -> None:
        nonlocal batcher, failure
        try:
            retriever = await asyncio.to_thread(load)
        except Exception as error:
            failure = error
            return
        batcher = Batcher(retriever)
        try:
            await batcher.run()
        finally:
            batcher = None
            retriever.close()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        task = asyncio.create_task(work())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    app = FastAPI(title="trca retrieval", lifespan=lifespan)

    def problem(status: int, text: Any) -> Response:
        headers = {"Retry-After": "1"} if status == 503 else None
        return JSONResponse({"detail": text}, status, headers)

    @app.get("/health")
    async def health() -> Response:
        if failure is not None:
            return problem(500, f"the retriever cannot be opened: {failure}")
        if batcher is None:
            return problem(503, "loading")
        return JSONResponse({"status": "ready", "waiting": batcher.waiting})

    @app.post("/retrieve")
    async def retrieve(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST_BODY:
                return problem(413, f"a request has at most {LARGEST_BODY} bytes")
        try:
            search = SearchRequest.model_validate_json(body)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False, include_context=False)
            return problem(422, details)
        if batcher is None:
            return await health()
        shape: Shape = "single" if search.queries is None else "batch"
        queries = search.queries if search.queries is not None else [str(search.query)]
        try:
            passages = await batcher.search(queries, search.topk or topk)
        except BusyError:
            return problem(503, f"more than {MOST_WAITING} queries are waiting")
        except RetrievalError as error:
            return problem(502, str(error))
        return JSONResponse(reply_body(passages, shape, search.return_scores))

    return app
