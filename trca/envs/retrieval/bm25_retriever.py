"""A retriever with BM25 in this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from trca.common.files import FileVersion, versions
from trca.common.shared import Shared, named
from trca.envs.retrieval.bm25 import BM25
from trca.envs.retrieval.passages import Passage, StoredPassages


class BM25Retriever(Shared):
    """A `Retriever` without server, Java or model."""

    def __init__(self, passages: Sequence[Passage], index: BM25) -> None:
        """Combines passages and their index.

        Args:
            passages: The passages.
            index: The index over their contents, in the same order.
        """
        self._passages = passages
        self._index = index

    @classmethod
    def of(cls, passages: Sequence[Passage]) -> BM25Retriever:
        """Indexes passages in memory. Ids order passages of equal score."""
        index = BM25.build(
            (passage.contents for passage in passages), [passage.id for passage in passages]
        )
        return cls(passages, index)

    @staticmethod
    def open(index: str | Path) -> BM25Retriever:
        """Opens the index in a folder, once per process and version of its files.

        All processes share its memory.

        Args:
            index: The folder.

        Raises:
            StoredDataError: If the folder is incomplete, damaged or of another version.
        """
        folder = Path(index).resolve()
        return named(_opened(folder, versions(folder)), BM25Retriever.open, folder)

    def __len__(self) -> int:
        """The number of passages."""
        return len(self._passages)

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """The best passages for each query; see `Retriever.search`."""
        return [self._found(query, limit) for query in queries]

    def close(self) -> None:
        """Does nothing, since the memory belongs to the page cache."""

    def _found(self, query: str, limit: int) -> list[Passage]:
        documents, scores = self._index.search(query, limit)
        passages = map(self._passages.__getitem__, documents.tolist())
        return [
            Passage(passage.id, passage.contents, score)
            for passage, score in zip(passages, scores.tolist(), strict=True)
        ]


@lru_cache(maxsize=8)
def _opened(folder: Path, files: tuple[FileVersion, ...]) -> BM25Retriever:
    return BM25Retriever(StoredPassages(folder / "passages"), BM25.load(folder / "bm25"))
