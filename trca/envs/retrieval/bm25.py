"""BM25 in process, with Lucene's scores and order.

    index = BM25.build(["a red apple", "the green apple tree", "red bricks"])
    documents, scores = index.search("red apples", limit=2)  # [0, 2]

The score of a document is the sum over the distinct terms of the query of ``w - w / (1 + tf / (k1
(1 - b + b L / avgdl)))``. ``w`` is the term's count in the query times ``ln(1 + (N - df + 0.5) /
(df + 0.5))``. Terms have single precision and the sum has double precision, as in Lucene. ``L`` is
the document's length in Lucene's one-byte code; ``k1`` = 0.9 and ``b`` = 0.4, as in Anserini.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trca.common.files import FileVersion, versions
from trca.common.shared import Shared, named
from trca.envs.retrieval.analysis import lucene_tokens
from trca.envs.retrieval.passages import Passage, StoredPassages
from trca.envs.retrieval.postings import LENGTHS, Block, Postings, batched, merged
from trca.envs.retrieval.storage import SortedStrings, Writer, encoded, read_arrays, writing

K1: Final = np.float32(0.9)
B: Final = np.float32(0.4)
_WORTH_PRUNING: Final = 20_000
"""Number of postings up to which adding all scores is faster than pruning."""
_FEW: Final = 16_384
"""Largest index, in documents, for which all scores may be added."""
_KIND: Final = "BM25 index"
_VERSION: Final = 1


class _Term(NamedTuple):
    """A term of a query: its postings, its weight, and its largest contribution to a score."""

    start: int
    end: int
    weight: np.float32
    gain: float


class BM25(Shared):
    """An immutable index over numbered documents. All threads may search it."""

    def __init__(self, postings: Postings, order: NDArray[np.int32] | None = None) -> None:
        """Makes an index from its parts; use `build` or `load`.

        ``order`` ranks documents of equal score, shape ``(documents,)``; None for their numbers.
        """
        self._postings = postings
        self._order = order
        self._vocabulary = SortedStrings(postings.terms, postings.term_ends)
        average = np.float32(postings.tokens / max(postings.filled, 1))
        norms = K1 * ((1 - B) + B * LENGTHS.astype(np.float32) / max(average, np.float32(1e-9)))
        frequency, length = postings.profiles.T
        self._saturation = np.float32(1) + frequency.astype(np.float32) * (1 / norms)[length]
        self._term = lru_cache(maxsize=1 << 14)(self._find)

    def __reduce__(self) -> tuple[Any, ...]:
        return BM25, (self._postings, self._order)

    @classmethod
    def build(cls, texts: Iterable[str], ids: Sequence[str] | None = None) -> BM25:
        """Indexes one text per document in memory. Unique ids order documents of equal score."""
        blocks = [Block.of(batch) for batch in batched(texts)]
        postings = merged([partial(blocks.__getitem__, at) for at in range(len(blocks))])
        if ids is not None and len(ids) != postings.size:
            raise ValueError(f"there are {postings.size} texts but {len(ids)} ids: give one each")
        return cls(postings, None if ids is None else order_of(ids))

    def __len__(self) -> int:
        return self._postings.size

    def search(self, query: str, limit: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The best documents that contain a term of the query.

        Returns document numbers and their scores, best first, both of shape ``(results,)`` with
        ``results <= limit``.
        """
        if limit < 1:
            raise ValueError(f"limit is {limit}: give 1 or more")
        counts = Counter(lucene_tokens(query)).items()
        terms = [term for token, count in counts if (term := self._term(token, count))]
        terms.sort(key=attrgetter("gain"), reverse=True)
        candidates, scores = self._candidates(terms, limit)
        return self._best(candidates, scores.astype(np.float32), limit)

    def _find(self, token: str, count: int) -> _Term | None:
        row = self._vocabulary.find(encoded(token))
        if row is None:
            return None
        start = int(self._postings.row_ends[row - 1]) if row else 0
        end = int(self._postings.row_ends[row])
        # As in Lucene, the number of documents excludes documents without tokens.
        idf = np.log(1 + (self._postings.filled - (end - start) + 0.5) / (end - start + 0.5))
        peak = self._saturation.take(self._postings.codes[start:end]).max()
        weight = np.float32(count) * np.float32(idf)
        return _Term(start, end, weight, float(weight - weight / peak))

    def _added_up(self, terms: Sequence[_Term]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """All documents with a term of the query, and their scores."""
        rows = [slice(term.start, term.end) for term in terms]
        documents = np.concatenate([self._postings.documents[row] for row in rows])
        codes = np.concatenate([self._postings.codes[row] for row in rows])
        lengths = [term.end - term.start for term in terms]
        weights = np.array([term.weight for term in terms]).repeat(lengths)
        scores = weights - weights / self._saturation.take(codes)
        total = cast("NDArray[np.float64]", np.bincount(documents, scores))
        matches = np.flatnonzero(total > 0)
        return matches, total[matches]

    def _candidates(
        self, terms: Sequence[_Term], limit: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Documents that include the best ``limit`` and their equals, and their scores.

        Terms are added in order of their largest contributions. When the remaining contributions
        are too small for a new document to reach the best, the remaining (frequent) terms are only
        looked up for the documents that still can (MaxScore, Turtle and Flood 1995).
        """
        left = sum(term.end - term.start for term in terms)
        if len(self) <= _FEW and 0 < left <= _WORTH_PRUNING:
            return self._added_up(terms)
        total = np.zeros(self._postings.size)
        parts = [np.empty(0, dtype=np.intp)]
        scored = 0
        gain = sum(term.gain for term in terms)
        for place, term in enumerate(terms):
            if scored >= limit and left > max(2 * scored, _WORTH_PRUNING):
                documents = np.concatenate(parts)
                scores = total[documents]
                least = _least(scores, limit)
                if gain < least:
                    kept = scores + gain >= least
                    return self._looked_up(documents[kept], scores[kept], terms[place:], limit)
            documents = self._postings.documents[term.start : term.end].astype(np.intp)
            before = total[documents]
            by_profile = term.weight - term.weight / self._saturation
            total[documents] = before + by_profile.take(self._postings.codes[term.start : term.end])
            parts.append(documents[before == 0])
            scored += len(parts[-1])
            left -= len(documents)
            gain -= term.gain
        documents = np.concatenate(parts)
        return documents, total[documents]

    def _looked_up(
        self,
        documents: NDArray[np.intp],
        scores: NDArray[np.float64],
        terms: Sequence[_Term],
        limit: int,
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The documents that can reach the best, with the remaining terms added to their scores."""
        gain = sum(term.gain for term in terms)
        for term in terms:
            row = self._postings.documents[term.start : term.end]
            place = np.searchsorted(row, documents.astype(np.int32))
            place[place == len(row)] = 0
            hit = np.flatnonzero(row[place] == documents)
            codes = self._postings.codes[term.start + place[hit]]
            scores[hit] += term.weight - term.weight / self._saturation[codes]
            gain -= term.gain
            if len(scores) > 2 * limit:
                kept = scores + gain >= _least(scores, limit)
                documents, scores = documents[kept], scores[kept]
        return documents, scores

    def _best(
        self, candidates: NDArray[np.intp], scores: NDArray[np.float32], limit: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        if limit < len(scores):
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            kept = scores >= least
            candidates, scores = candidates[kept], scores[kept]
        ranks = candidates if self._order is None else self._order[candidates]
        best = np.lexsort((ranks, -scores))[:limit]
        return candidates[best].astype(np.int32), scores[best]

    def save(self, folder: Path) -> None:
        """Writes the index into a new folder, which appears when complete."""
        with writing(folder, _KIND, _VERSION) as writer:
            _write(self._postings, self._order, writer)

    @classmethod
    def load(cls, folder: Path) -> BM25:
        """Opens a saved index, whose memory all processes share; see `read_arrays`."""
        arrays, facts = read_arrays(folder, _KIND, _VERSION)
        order = arrays.pop("order", None)
        parts: dict[str, Any] = {**arrays, **facts}
        return cls(Postings(**parts), order)


def save_merged(folder: Path, blocks: Sequence[Path], ids: Iterable[str]) -> None:
    """Writes the index over the documents of saved blocks. Its postings are never in memory."""
    with writing(folder, _KIND, _VERSION) as writer:
        loaders = [partial(Block.load, block) for block in blocks]
        _write(merged(loaders, writer.allocate), order_of(ids), writer)


def _write(postings: Postings, order: NDArray[np.int32] | None, writer: Writer) -> None:
    for field in fields(Postings):
        part = getattr(postings, field.name)
        if isinstance(part, int):
            writer.facts[field.name] = part
        else:
            writer.add(field.name, part)
    if order is not None:
        writer.add("order", order)


def _least(scores: NDArray[np.float64], limit: int) -> float:
    """A value slightly below the smallest of the best ``limit`` scores."""
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit]) * (1 - 1e-6)


def order_of(ids: Iterable[str]) -> NDArray[np.int32]:
    """The rank of each id among all sorted ids, shape ``(ids,)``."""
    sorter = np.argsort(np.array([encoded(each) for each in ids], dtype=np.bytes_), kind="stable")
    order = np.empty(len(sorter), dtype=np.int32)
    order[sorter] = np.arange(len(sorter), dtype=np.int32)
    return order


class BM25Retriever(Shared):
    """A `Retriever` without server, Java or model."""

    def __init__(self, passages: Sequence[Passage], index: BM25) -> None:
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
        """Opens the index in a folder, once per process and version of its files."""
        folder = Path(index).resolve()
        return named(_opened(folder, versions(folder)), BM25Retriever.open, folder)

    def __len__(self) -> int:
        return len(self._passages)

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """The best passages for each query; see `Retriever.search`."""
        results = []
        for query in queries:
            documents, scores = self._index.search(query, limit)
            pairs = zip(documents.tolist(), scores.tolist(), strict=True)
            results.append([replace(self._passages[at], score=score) for at, score in pairs])
        return results

    def close(self) -> None:
        """Does nothing, since the memory belongs to the page cache."""


@lru_cache(maxsize=8)
def _opened(folder: Path, files: tuple[FileVersion, ...]) -> BM25Retriever:
    return BM25Retriever(StoredPassages(folder / "passages"), BM25.load(folder / "bm25"))
