"""The contract of every retriever, and how one is opened by its name.

retriever = open_retriever("bm25", index="path/to/index")
[passages] = retriever.search(["who wrote the first program?"], limit=3)
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, Protocol

from trca.envs.retrieval.passages import Passage


class RetrievalError(Exception):
    """A search could not be done. It says nothing about what would have been found."""


class Retriever(Protocol):
    """Finds passages; any number of threads may use it."""

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """The best passages for each query.

        Args:
            queries: Any texts.
            limit: How many passages a query gets at most, positive.

        Returns:
            For each query its passages with their scores, best first; empty where nothing fits.

        Raises:
            RetrievalError: When the search could not be done.
        """
        ...

    def close(self) -> None:
        """Releases its resources; no search may follow."""
        ...


_OPENERS: Final = {
    "bm25": "trca.envs.retrieval.bm25_retriever:BM25Retriever.open",
    "lucene": "trca.envs.retrieval.lucene:LuceneRetriever",
    "dense": "trca.envs.retrieval.dense:DenseRetriever",
    "http": "trca.envs.retrieval.http:HttpRetriever",
    "simulated": "trca.envs.retrieval.simulated:SimulatedRetriever",
}
RETRIEVERS: Final = tuple(_OPENERS)
"""Names of all retrievers."""


def open_retriever(name: str, **options: Any) -> Retriever:
    """Opens a retriever.

    Args:
        name: One of `RETRIEVERS`.
        options: What that retriever takes.

    Raises:
        ValueError: When there is no such retriever, or it does not take such options.
        RetrievalError: When it cannot be opened.
    """
    if name not in _OPENERS:
        raise ValueError(f"unknown retriever {name!r}: choose {', '.join(RETRIEVERS)}")
    module, _, path = _OPENERS[name].partition(":")
    opener: Any = import_module(module)
    for part in path.split("."):
        opener = getattr(opener, part)
    try:
        inspect.signature(opener).bind(**options)
    except TypeError as error:
        takes = ", ".join(inspect.signature(opener).parameters)
        raise ValueError(f"{error}: the {name} retriever takes {takes}") from None
    retriever: Retriever = opener(**options)
    return retriever
