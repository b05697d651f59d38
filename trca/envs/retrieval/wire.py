"""Requests and replies of retrieval servers, in both common formats.

Search-R1's *batch*::

    {"queries": ["a", "b"], "topk": 3, "return_scores": true}
    {"result": [[{"document": {"contents": "..."}, "score": 1.5}, ...], [...]]}

verl-agent's *single* has ``"query": "a"``, and its result is one list of documents. Without
``return_scores``, a result has the documents without ``"document"`` and ``"score"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

from trca.common.errors import short_line
from trca.envs.retrieval.passages import Passage

Shape = Literal["batch", "single"]
SHAPES: Final[tuple[str, ...]] = get_args(Shape)


class ReplyError(ValueError):
    """A reply does not have the format of a retrieval server."""


def request_body(queries: Sequence[str], limit: int, shape: Shape) -> dict[str, Any]:
    """The body of a request; the single shape takes one query."""
    rest = {"topk": limit, "return_scores": True}
    if shape == "batch":
        return {"queries": list(queries), **rest}
    [query] = queries
    return {"query": query, **rest}


def read_reply(reply: Any, count: int, shape: Shape) -> list[list[Passage]]:
    """The passages of each of ``count`` queries, from the decoded JSON of a reply."""
    result = reply.get("result") if isinstance(reply, dict) else None
    if not isinstance(result, list):
        raise ReplyError(f'expected {{"result": [...]}}, got {short_line(reply)}')
    if shape == "single" and not all(isinstance(hits, list) for hits in result[:1] or [None]):
        result = [result]
    if len(result) != count or not all(isinstance(hits, list) for hits in result):
        raise ReplyError(f"expected {count} lists of documents, got {short_line(result)}")
    return [[_passage(hit) for hit in hits] for hits in result]


def reply_body(
    results: Sequence[Sequence[Passage]], shape: Shape, with_scores: bool
) -> dict[str, Any]:
    """The body of a reply."""
    result = []
    for passages in results:
        hits: list[dict[str, Any]] = [{"id": p.id, "contents": p.contents} for p in passages]
        if with_scores:
            scored = zip(hits, passages, strict=True)
            hits = [{"document": document, "score": p.score} for document, p in scored]
        result.append(hits)
    return {"result": result if shape == "batch" else result[0]}


def _passage(hit: Any) -> Passage:
    document = hit.get("document", hit) if isinstance(hit, dict) else None
    if not isinstance(document, dict):
        raise ReplyError(f"expected a document, got {short_line(hit)}")
    contents = document.get("contents")
    if contents is None and isinstance(document.get("text"), str):
        title = document.get("title")
        contents = f'"{title}"\n{document["text"]}' if title else document["text"]
    score = hit.get("score")
    if not isinstance(contents, str) or not isinstance(score, float | int | None):
        raise ReplyError(f"expected a document with contents, got {short_line(hit)}")
    try:
        score = None if score is None else float(score)
    except OverflowError:
        raise ReplyError(f"a score is not a finite number: {short_line(score)}") from None
    return Passage(str(document.get("id", "")), contents, score)
