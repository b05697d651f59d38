"""Unpriced products with their search index, shared by the catalogues of all price seeds.

`MemoryShelf` is a shelf in memory; `store` has a shelf on disk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import cached_property
from typing import Protocol

from trca.envs.retrieval.bm25 import BM25
from trca.envs.webshop.data.products import HumanInstruction, Product, as_bytes, document, encode

Instructions = Mapping[str, Sequence[HumanInstruction]]


class Shelf(Protocol):
    """The products of a catalogue in order, without prices; immutable."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int) -> Product: ...

    def position(self, asin: str) -> int:
        """The position of the product with an ASIN; raises KeyError for an unknown ASIN."""

    def ranges(self) -> Iterable[tuple[int, float, float]]:
        """Position, lowest and highest price of the products with a price range, in order."""

    @property
    def ranged(self) -> int:
        """Number of products with a price range."""

    @property
    def instructed(self) -> Sequence[int]:
        """The positions of the products with a synthetic instruction, ascending."""

    @property
    def human_instructions(self) -> Mapping[str, tuple[HumanInstruction, ...]]:
        """ASIN -> instructions by people, in the order of the products."""

    @property
    def index(self) -> BM25:
        """The search index over `products.document`."""

    @property
    def hash(self) -> str:
        """Sixty-four hex digits; equal for equal products and instructions."""


class MemoryShelf:
    """A shelf in memory."""

    def __init__(self, products: Iterable[Product], human_instructions: Instructions) -> None:
        """Stores the products and their instructions; drops instructions for missing products.

        Raises:
            ValueError: If two products have the same ASIN.
        """
        self._products = tuple(products)
        self._positions: dict[str, int] = {}
        for position, product in enumerate(self._products):
            if self._positions.setdefault(product.asin, position) != position:
                raise ValueError(f"two products have the ASIN {product.asin!r}: leave one out")
        self.human_instructions = {
            asin: tuple(human_instructions[asin])
            for asin in self._positions
            if asin in human_instructions
        }
        self.instructed = [
            at for at, product in enumerate(self._products) if product.instruction is not None
        ]

    def __len__(self) -> int:
        return len(self._products)

    def __getitem__(self, position: int) -> Product:
        return self._products[position]

    def position(self, asin: str) -> int:
        """The position of the product with an ASIN; raises KeyError for an unknown ASIN."""
        return self._positions[asin]

    def ranges(self) -> Iterator[tuple[int, float, float]]:
        """Position, lowest and highest price of the products with a price range, in order."""
        for position, product in enumerate(self._products):
            if len(product.price_range) == 2:
                yield position, *product.price_range

    @cached_property
    def ranged(self) -> int:
        """Number of products with a price range."""
        return sum(1 for _ in self.ranges())

    @cached_property
    def index(self) -> BM25:
        """The search index over `products.document`."""
        return BM25.build(map(document, self._products), tuple(self._positions))

    @cached_property
    def hash(self) -> str:
        """Sixty-four hex digits; equal for equal products and instructions."""
        digest = hashlib.sha256()
        for product in self._products:
            digest.update(encode(product) + b"\n")
        digest.update(encode_instructions(self.human_instructions))
        return digest.hexdigest()


def encode_instructions(instructions: Instructions) -> bytes:
    """Instructions by people as bytes. Equal instructions in equal order have equal bytes."""
    return as_bytes({asin: [*map(astuple, entries)] for asin, entries in instructions.items()})


def decode_instructions(data: bytes) -> dict[str, tuple[HumanInstruction, ...]]:
    """The instructions of these bytes."""
    return {
        asin: tuple(
            HumanInstruction(text, tuple(attributes), tuple(options))
            for text, attributes, options in entries
        )
        for asin, entries in json.loads(data).items()
    }
