"""The contract of retrievers, and their factory.

retriever = open_retriever("bm25", index="path/to/index")
[passages] = retriever.search(["who wrote the first program?"], limit=3)
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Sequence
from typing import Any, Final, Protocol

from trca.envs.retrieval.passages import Passage


class RetrievalError(Exception):
    """A search failed for technical reasons, so its results are unknown."""


class Retriever(Protocol):
    """Retrieves passages. All threads may use it."""

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """The best passages for each query.

        Args:
            queries: Any texts.
            limit: Largest number of passages per query, positive.

        Returns:
            For each query its passages with scores, best first; empty without matches.

        Raises:
            RetrievalError: If the search fails.
        """
        ...

    def close(self) -> None:
        """Releases all resources; no search may follow."""
        ...


_OPENERS: Final = {
    "bm25": "trca.envs.retrieval.bm25:BM25Retriever.open",
    "lucene": "trca.envs.retrieval.lucene:LuceneRetriever",
    "dense": "trca.envs.retrieval.dense:DenseRetriever",
    "http": "trca.envs.retrieval.http:HttpRetriever",
    "simulated": "trca.envs.retrieval.simulated:SimulatedRetriever",
}
RETRIEVERS: Final = tuple(_OPENERS)
"""Names of all retrievers."""


def open_retriever(name: str, **options: Any) -> Retriever:
    """Opens a retriever of `RETRIEVERS` with its arguments.

    Raises:
        ValueError: For an unknown retriever or option.
        RetrievalError: If the retriever cannot be opened.
    """
    if name not in _OPENERS:
        raise ValueError(f"unknown retriever {name!r}: choose {', '.join(RETRIEVERS)}")
    opener: Any = pkgutil.resolve_name(_OPENERS[name])
    try:
        inspect.signature(opener).bind(**options)
    except TypeError as error:
        takes = ", ".join(inspect.signature(opener).parameters)
        raise ValueError(f"{error}: the {name} retriever takes {takes}") from None
    retriever: Retriever = opener(**options)
    return retriever
