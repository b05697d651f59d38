"""The inverted index: documents and frequencies of each term."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trca.envs.retrieval.blocks import Block

Allocate = Callable[[str, tuple[int, ...], DTypeLike], NDArray[Any]]
"""Allocates an array from name, shape and type, in memory or in a file."""


@dataclass(frozen=True, slots=True)
class Postings:
    """Documents by term, in compressed rows, with ``T`` terms, ``D`` documents, ``P`` postings.

    The frequency of a posting and the length of its document determine its score. A posting stores
    both as one number, a row of `profiles`, since there are few different pairs.

    Attributes:
        terms: The terms in UTF-8, in order, concatenated.
        term_ends: End of each term in `terms`, shape ``(T,)``.
        row_ends: End of each term's postings, shape ``(T,)``.
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


def in_memory(name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Allocates in memory; see `Allocate`."""
    del name
    return np.empty(shape, dtype)


def merged(blocks: Sequence[Callable[[], Block]], allocate: Allocate = in_memory) -> Postings:
    """The index over all documents of several blocks, in their order.

    In addition to the result, the terms of all blocks and one block are in memory at a time.

    Args:
        blocks: Functions that return the blocks; each is called twice.
        allocate: Allocates the postings.

    Raises:
        ValueError: If there are more than 65,536 different profiles, because document lengths
            differ too widely.
    """
    survey = _Survey()
    for block in blocks:
        survey.add(block())
    terms, term_ends, ranks = _united(survey.words)
    sizes = np.zeros(len(term_ends), dtype=np.int64)
    for rank, counts in zip(ranks, survey.counts, strict=True):
        sizes[rank] += counts
    row_ends = np.cumsum(sizes)
    profiles = np.unique(np.concatenate([np.empty(0, np.int32), *survey.profiles]))
    if len(profiles) > 1 << 16:
        raise ValueError(
            f"documents have {len(profiles)} combinations of length and term frequency, of at most"
            " 65536: cut the longest documents into passages"
        )
    total = int(sizes.sum())
    documents = allocate("documents", (total,), np.int32)
    codes = allocate("codes", (total,), np.uint16)
    cursor = row_ends - sizes
    first = 0
    for block, rank, counts in zip(blocks, ranks, survey.counts, strict=True):
        part = block()
        shift = np.repeat(cursor[rank] - (part.row_ends - counts), counts)
        place = np.arange(len(part.documents)) + shift
        documents[place] = part.documents + np.int32(first)
        codes[place] = np.searchsorted(profiles, part.profiles)
        cursor[rank] += counts
        first += len(part.lengths)
    return Postings(
        terms=terms,
        term_ends=term_ends,
        row_ends=row_ends,
        documents=documents,
        codes=codes,
        profiles=np.stack(np.divmod(profiles, 256), axis=1).astype(np.int32),
        tokens=survey.tokens,
        filled=survey.filled,
        size=first,
    )


class _Survey:
    """Statistics over all blocks that are required before the first posting is placed."""

    def __init__(self) -> None:
        self.words: list[Iterator[bytes]] = []
        self.counts: list[NDArray[np.int64]] = []
        self.profiles: list[NDArray[np.int32]] = []
        self.tokens = 0
        self.filled = 0

    def add(self, block: Block) -> None:
        self.words.append(block.words())
        self.counts.append(np.diff(block.row_ends, prepend=0))
        self.profiles.append(np.unique(block.profiles))
        self.tokens += int(block.lengths.sum(dtype=np.int64))
        self.filled += int(np.count_nonzero(block.lengths))


def _united(
    words: Sequence[Iterator[bytes]],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[NDArray[np.int32]]]:
    """All terms in order, the end of each term, and the numbers of the terms of each block."""
    ranks = [array("i") for _ in words]
    terms = bytearray()
    ends = array("q")
    last = None
    for word, block in merge(*(_labelled(each, label) for label, each in enumerate(words))):
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


def _labelled(words: Iterator[bytes], label: int) -> Iterator[tuple[bytes, int]]:
    for word in words:
        yield word, label
