"""The inverted index: documents and frequencies of each term, built in blocks that are merged."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from heapq import merge
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trca.envs.retrieval.analysis import lucene_tokenizer
from trca.envs.retrieval.storage import ByteStrings, encoded, read_arrays, writing

BLOCK_SIZE: Final = 100_000
"""Documents per block. Inverting this number of passages of 100 words takes about 320 MB."""
_KIND: Final = "block of a BM25 index"
_VERSION: Final = 1
_EXACT: Final = 24
"""Lengths below this value are their own code. For larger lengths, the code depends on the excess.
"""

Allocate = Callable[[str, tuple[int, ...], DTypeLike], NDArray[Any]]
"""Allocates an array from name, shape and type, in memory or in a file."""


def _decoded(code: int) -> int:
    """`SmallFloat.byte4ToInt` of Lucene."""
    if code < _EXACT:
        return code
    mantissa, shift = (code - _EXACT) & 7, ((code - _EXACT) >> 3) - 1
    return _EXACT + (mantissa if shift < 0 else (mantissa | 8) << shift)


LENGTHS: Final = np.array([_decoded(code) for code in range(256)], dtype=np.int64)
"""The document length of each of Lucene's one-byte codes, increasing: exact to 39, then four
significant bits."""


def length_codes(lengths: NDArray[np.integer]) -> NDArray[np.uint8]:
    """The code of the largest length in `LENGTHS` that does not exceed each length."""
    return (np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8)


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

    def save(self, folder: Path) -> None:
        """Writes the block into a new folder, which appears when complete."""
        with writing(folder, _KIND, _VERSION) as writer:
            for field in fields(self):
                writer.add(field.name, getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path) -> Block:
        """Opens a saved block."""
        arrays: dict[str, Any] = read_arrays(folder, _KIND, _VERSION)[0]
        return cls(**arrays)


@dataclass(frozen=True, slots=True)
class Postings:
    """Documents by term, in compressed rows, with ``T`` terms, ``D`` documents, ``P`` postings.

    The frequency of a posting and the length of its document determine its score. A posting stores
    both as one number, a row of `profiles`, since there are few different pairs.

    Attributes:
        terms, term_ends, row_ends: As in `Block`.
        documents: Document of each posting, ascending within a term, shape ``(P,)``.
        codes: Row in `profiles` of each posting, shape ``(P,)``.
        profiles: Frequency and code of the length, shape ``(profiles, 2)``.
        tokens: Number of tokens in all documents.
        filled: Number of documents with at least one token.
        size: Number of documents, D.
    """

    terms: NDArray[np.uint8]
    term_ends: NDArray[np.int64]
    row_ends: NDArray[np.int64]
    documents: NDArray[np.int32]
    codes: NDArray[np.uint16]
    profiles: NDArray[np.int32]
    tokens: int
    filled: int
    size: int


def merged(
    blocks: Sequence[Callable[[], Block]],
    allocate: Allocate = lambda name, shape, dtype: np.empty(shape, dtype),
) -> Postings:
    """The index over all documents of several blocks, in their order.

    Each function returns a block and is called twice. In addition to the result, the terms of all
    blocks and one block are in memory at a time.
    """
    words: list[ByteStrings] = []
    counts: list[NDArray[np.int64]] = []
    profiles = np.empty(0, np.int32)
    tokens = filled = 0
    for load in blocks:
        block = load()
        # The copies leave no reference to a block, whose files would stay open.
        words.append(ByteStrings(block.terms.copy(), block.term_ends.copy()))
        counts.append(np.diff(block.row_ends, prepend=0))
        profiles = np.union1d(profiles, block.profiles)
        tokens += int(block.lengths.sum(dtype=np.int64))
        filled += int(np.count_nonzero(block.lengths))
    if len(profiles) > 1 << 16:
        raise ValueError(
            f"documents have {len(profiles)} combinations of length and term frequency, of at most"
            " 65536: cut the longest documents into passages"
        )
    terms, term_ends, ranks = _united(words)
    sizes = np.zeros(len(term_ends), dtype=np.int64)
    for rank, block_counts in zip(ranks, counts, strict=True):
        sizes[rank] += block_counts
    row_ends = np.cumsum(sizes)
    total = int(sizes.sum())
    documents = allocate("documents", (total,), np.int32)
    codes = allocate("codes", (total,), np.uint16)
    cursor = row_ends - sizes
    first = 0
    for load, rank, block_counts in zip(blocks, ranks, counts, strict=True):
        block = load()
        shift = np.repeat(cursor[rank] - (block.row_ends - block_counts), block_counts)
        place = np.arange(len(block.documents)) + shift
        documents[place] = block.documents + np.int32(first)
        codes[place] = np.searchsorted(profiles, block.profiles)
        cursor[rank] += block_counts
        first += len(block.lengths)
    return Postings(
        terms=terms,
        term_ends=term_ends,
        row_ends=row_ends,
        documents=documents,
        codes=codes,
        profiles=np.stack(np.divmod(profiles, 256), axis=1).astype(np.int32),
        tokens=tokens,
        filled=filled,
        size=first,
    )


def _united(
    words: Sequence[ByteStrings],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[NDArray[np.int32]]]:
    """All terms in order, the end of each term, and the numbers of the terms of each block."""
    ranks = [array("i") for _ in words]
    terms = bytearray()
    ends = array("q")
    last = None
    for word, block in merge(*(zip(each, repeat(at)) for at, each in enumerate(words))):
        if word != last:
            terms += word
            ends.append(len(terms))
            last = word
        ranks[block].append(len(ends) - 1)
    return (
        np.frombuffer(bytes(terms), dtype=np.uint8),
        np.frombuffer(ends, dtype=np.int64),
        [np.frombuffer(rank, dtype=np.int32) for rank in ranks],
    )
