"""Inverted indices of blocks of documents, the part of indexing that runs in parallel."""

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
"""Documents per block. Inverting this number of passages of 100 words takes about 320 MB."""


def batched(texts: Iterable[str]) -> Iterator[Iterable[str]]:
    """Cuts texts into blocks. The caller must exhaust each block before the next."""
    left = iter(texts)
    for first in left:
        yield chain([first], islice(left, BLOCK_SIZE - 1))


@dataclass(frozen=True, slots=True)
class Block:
    """Documents and frequencies of each term in a block, with ``T`` terms and ``P`` postings.

    Attributes:
        terms: The terms in UTF-8, in order, concatenated.
        term_ends: End of each term in `terms`, shape ``(T,)``.
        row_ends: End of each term's postings, shape ``(T,)``.
        documents: Document of each posting, numbered within the block, ascending within a term,
            shape ``(P,)``.
        profiles: Frequency of the term times 256 plus the code of the document's length, shape
            ``(P,)``.
        lengths: Number of tokens of each document, shape ``(documents,)``.
    """

    terms: NDArray[np.uint8]
    term_ends: NDArray[np.int64]
    row_ends: NDArray[np.int64]
    documents: NDArray[np.int32]
    profiles: NDArray[np.int32]
    lengths: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Block:
        """Inverts documents."""
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
        """Yields the terms. The iterator keeps no reference to the block."""
        return _split(self.terms.tobytes(), self.term_ends.copy().data)

    def save(self, folder: Path) -> None:
        """Writes the block into a new folder, which appears when complete."""
        with writing(folder, _KIND, _VERSION) as writer:
            for field in fields(self):
                writer.add(field.name, getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path) -> Block:
        """Opens a saved block.

        Raises:
            StoredDataError: If the folder is incomplete, damaged or of another version.
        """
        arrays: dict[str, Any] = read_arrays(folder, _KIND, _VERSION)[0]
        return cls(**arrays)


def _split(words: bytes, ends: memoryview) -> Iterator[bytes]:
    start = 0
    for end in ends:
        yield words[start:end]
        start = end
