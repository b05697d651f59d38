"""Inverted indices of blocks of documents: the part of indexing that can be done in parallel."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.envs.retrieval.analysis import lucene_tokenizer
from trca.envs.retrieval.lengths import length_codes
from trca.envs.retrieval.storage import read_arrays, writing
from trca.envs.retrieval.vocabulary import encoded

_KIND: Final = "block of a BM25 index"
_VERSION: Final = 1


BLOCK_SIZE: Final = 100_000
"""Documents of a block: passages of 100 words then take about 320 MB while they are inverted."""


def batched(texts: Iterable[str]) -> Iterator[Iterable[str]]:
    """Cuts texts into blocks; each is to be used up before the next."""
    left = iter(texts)
    for first in left:
        yield chain([first], islice(left, BLOCK_SIZE - 1))


@dataclass(frozen=True, slots=True)
class Block:
    """Which documents of a block hold a term, and how often; ``T`` terms and ``P`` postings.

    Attributes:
        terms: The terms in UTF-8, in order, one after the other.
        term_ends: Where each term ends in `terms`, shape ``(T,)``.
        row_ends: Where each term's postings end, shape ``(T,)``.
        documents: Document of each posting, counted within the block, ascending within a term,
            shape ``(P,)``.
        profiles: Frequency of the term times 256 plus the code of the document's length, shape
            ``(P,)``.
        lengths: Tokens of each document, shape ``(documents,)``.
    """

    terms: NDArray[np.uint8]
    term_ends: NDArray[np.int64]
    row_ends: NDArray[np.int64]
    documents: NDArray[np.int32]
    profiles: NDArray[np.int32]
    lengths: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Block:
        """Inverts some documents."""
        tokens_of = lucene_tokenizer(1 << 17)
        numbers: dict[str, int] = {}
        stream, counts = array("i"), array("i")
        for text in texts:
            tokens = tokens_of(text)
            counts.append(len(tokens))
            stream.extend(numbers.setdefault(token, len(numbers)) for token in tokens)
        lengths = np.frombuffer(counts, dtype=np.int32)
        terms = sorted(numbers)
        rank = np.empty(len(terms), dtype=np.int64)
        rank[[numbers[term] for term in terms]] = np.arange(len(terms))
        keys = rank[np.frombuffer(stream, dtype=np.int32)]
        keys *= max(len(lengths), 1)
        keys += np.repeat(np.arange(len(lengths)), lengths)
        keys, frequency = np.unique(keys, return_counts=True)
        row, document = np.divmod(keys, max(len(lengths), 1))
        spelled = [encoded(term) for term in terms]
        return cls(
            terms=np.frombuffer(b"".join(spelled), dtype=np.uint8),
            term_ends=np.cumsum([len(term) for term in spelled], dtype=np.int64),
            row_ends=np.cumsum(np.bincount(row, minlength=len(terms)), dtype=np.int64),
            documents=document.astype(np.int32),
            profiles=(frequency * 256 + length_codes(lengths)[document]).astype(np.int32),
            lengths=lengths,
        )

    def words(self) -> Iterator[bytes]:
        """The terms one by one; the block itself need not be kept for it."""
        return _split(self.terms.tobytes(), self.term_ends.copy().data)

    def save(self, folder: Path) -> None:
        """Writes the block into a new folder, whole or not at all."""
        with writing(folder, _KIND, _VERSION) as writer:
            for field in fields(self):
                writer.add(field.name, getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path) -> Block:
        """Opens a block that was saved.

        Raises:
            StoredDataError: When the folder is not whole, or of another version.
        """
        arrays: dict[str, Any] = read_arrays(folder, _KIND, _VERSION)[0]
        return cls(**arrays)


def _split(words: bytes, ends: memoryview) -> Iterator[bytes]:
    start = 0
    for end in ends:
        yield words[start:end]
        start = end
