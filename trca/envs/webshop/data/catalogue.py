"""The catalogue: all products, their search index and their prices, immutable and shared."""

from __future__ import annotations

import hashlib
import json
import random
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trca.common.shared import Shared
from trca.envs.retrieval.bm25 import BM25
from trca.envs.retrieval.storage import encoded
from trca.envs.webshop.compat import quirks_of
from trca.envs.webshop.data.products import (
    HumanInstruction,
    Product,
    as_bytes,
    decode,
    document,
    encode,
)

Compat = Literal["clean", "original"]
Entry: TypeAlias = tuple[Product, tuple[HumanInstruction, ...]]
"""A product and its instructions by people."""
_DECODED: Final = 8192


class Catalogue(Shared):
    """An immutable sequence of products with a search engine and one price per product.

    Environments and threads may share a catalogue. Products are decoded on access. If a product has
    a price range, its price is drawn uniformly from this range. With ``compat="clean"``, the price
    depends on the seed and the ASIN only, so a product has the same price in a catalogue of any
    size or order. With ``compat="original"``, one stream draws the prices in catalogue order, like
    the original after ``random.seed(seed)``.

    Attributes:
        instructed: The positions of the products with a synthetic instruction, ascending.
        hash: Sixteen hex digits; equal for catalogues of equal products, instructions and prices.
    """

    def __init__(
        self,
        records: Sequence[bytes],
        tables: Mapping[str, NDArray[Any]],
        index: Path | None = None,
        seed: int = 0,
        compat: Compat = "clean",
    ) -> None:
        """Combines encoded products and the tables of `tables_of`.

        Without a folder of the search index, the index is built in memory.
        """
        self.seed, self.compat = seed, compat
        self._records, self._tables, self._index = records, tables, index
        self._asins: NDArray[np.bytes_] = tables["asins"]
        self.instructed: list[int] = tables["instructed"].tolist()
        text = json.dumps([tables["hash"].tobytes().hex(), seed, compat])
        self.hash = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._product = lru_cache(maxsize=_DECODED)(self._priced)

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalogue, (self._records, self._tables, self._index, self.seed, self.compat)

    @classmethod
    def of(cls, entries: Iterable[Entry], seed: int = 0, compat: Compat = "clean") -> Catalogue:
        """A catalogue in memory; two products with the same ASIN are a ValueError."""
        records: list[bytes] = []
        tables = tables_of(entries, records.append)
        return cls(records, tables, seed=seed, compat=compat)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, position: int) -> Product:
        if not 0 <= position < len(self):
            raise IndexError(f"no product {position}: the catalogue has {len(self)}")
        return self._product(position)

    def position(self, asin: str) -> int:
        """The position of the product with an ASIN; a KeyError without such a product."""
        key = encoded(asin)
        place = int(np.searchsorted(self._asins, np.bytes_(key)))
        if place == len(self._asins) or self._asins[place] != key:
            raise KeyError(asin)
        return int(self._tables["places"][place])

    def asins(self) -> list[str]:
        """The ASINs in the order of the products."""
        names = np.empty_like(self._asins)
        names[self._tables["places"]] = self._asins
        return [name.decode() for name in names.tolist()]

    def search(self, query: str, limit: int = 50) -> list[int]:
        """The positions of the best hits for a query, best first."""
        hits: list[int] = self.index.search(query, limit)[0].tolist()
        return hits

    @cached_property
    def human_instructions(self) -> Mapping[str, tuple[HumanInstruction, ...]]:
        """ASIN -> instructions by people, in the order of the products; read-only."""
        return {
            asin: tuple(
                HumanInstruction(text, tuple(attributes), tuple(options))
                for text, attributes, options in entries
            )
            for asin, entries in json.loads(self._tables["human"].tobytes()).items()
        }

    @cached_property
    def index(self) -> BM25:
        """The search index over `products.document`."""
        if self._index is not None:
            return BM25.load(self._index)
        return BM25.build(map(document, map(decode, self._records)), self.asins())

    @property
    def ranged(self) -> int:
        """Number of products with a price range; each of them takes one random draw."""
        return len(self._tables["ranged"])

    def _priced(self, position: int) -> Product:
        product = decode(self._records[position])
        if len(product.price_range) == 1:
            return product
        if quirks_of(self.compat).prices_in_order:
            return replace(product, price=self._streamed[position])
        drawn = random.Random(f"{self.seed}/{product.asin}").uniform(*product.price_range)
        return replace(product, price=drawn)

    @cached_property
    def _streamed(self) -> dict[int, float]:
        """Position -> price of the products with a range, drawn in order."""
        rng, tables = random.Random(self.seed), self._tables
        ranges = zip(tables["ranged"].tolist(), tables["prices"].tolist(), strict=True)
        return {at: rng.uniform(low, high) for at, (low, high) in ranges}


def tables_of(entries: Iterable[Entry], add: Callable[[bytes], object]) -> dict[str, NDArray[Any]]:
    """Encodes products in order, stores each with ``add``, and returns their lookup tables.

    Two products with the same ASIN are a ValueError.
    """
    ranged, prices, instructed = array("i"), array("d"), array("i")
    asins: list[bytes] = []
    human: dict[str, list[tuple[Any, ...]]] = {}
    digest = hashlib.sha256()
    for position, (product, instructions) in enumerate(entries):
        record = encode(product)
        digest.update(record + b"\n")
        add(record)
        asins.append(product.asin.encode())
        if instructions:
            human[product.asin] = [*map(astuple, instructions)]
        if len(product.price_range) == 2:
            ranged.append(position)
            prices.extend(product.price_range)
        if product.instruction is not None:
            instructed.append(position)
    instructions_by_people = as_bytes(human)
    digest.update(instructions_by_people)
    names = np.array(asins, dtype=np.bytes_)
    order = np.argsort(names)
    names = names[order]
    repeated = names[1:][names[1:] == names[:-1]]
    if len(repeated):
        raise ValueError(f"two products have the ASIN {repeated[0].decode()!r}: leave one out")
    return {
        "hash": np.frombuffer(digest.digest(), np.uint8),
        "asins": names,
        "places": order.astype(np.int32),
        "ranged": np.array(ranged),
        "prices": np.array(prices).reshape(-1, 2),
        "instructed": np.array(instructed),
        "human": np.frombuffer(instructions_by_people, np.uint8),
    }
