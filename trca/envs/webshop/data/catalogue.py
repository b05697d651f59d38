"""The catalogue: all products, their search index and their prices, immutable and shared.

For example::

    catalogue = open_catalogue("small")
    for position in catalogue.search("red mug", limit=10):
        print(catalogue[position].title)
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from trca.common.shared import Shared, named
from trca.envs.webshop.compat import quirks_of
from trca.envs.webshop.data.products import HumanInstruction, Product
from trca.envs.webshop.data.shelf import Shelf, open_store
from trca.envs.webshop.data.sources import source_of

Compat = Literal["clean", "original"]
_DECODED: Final = 8192


class Catalogue(Shared):
    """An immutable sequence of products with a search engine and one price per product.

    Environments and threads may share a catalogue. If a product has a price range, its price is
    drawn uniformly from this range. With ``compat="clean"``, the price depends on the seed and the
    ASIN only, so a product has the same price in a catalogue of any size or order. With
    ``compat="original"``, one stream draws the prices in catalogue order, like the original after
    ``random.seed(seed)``.

    Attributes:
        seed: Seed of the prices.
        compat: ``clean`` or ``original``: how prices are drawn.
    """

    def __init__(self, shelf: Shelf, seed: int = 0, compat: Compat = "clean") -> None:
        """Adds prices to a shelf; see `Catalogue.from_products` and `open_catalogue`."""
        self._shelf = shelf
        self.seed = seed
        self.compat = compat
        self._product = lru_cache(maxsize=_DECODED)(self._priced)

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalogue, (self._shelf, self.seed, self.compat)

    @classmethod
    def from_products(
        cls,
        products: Iterable[Product],
        human_instructions: Mapping[str, Sequence[HumanInstruction]] | None = None,
        seed: int = 0,
        compat: Compat = "clean",
    ) -> Catalogue:
        """A catalogue in memory.

        Args:
            products: The products, in order.
            human_instructions: ASIN -> instructions. Instructions for missing products are left
                out.
            seed: Seed of the prices.
            compat: ``clean`` or ``original``: how prices are drawn.

        Raises:
            ValueError: If two products have the same ASIN.
        """
        human = human_instructions or {}
        entries = ((product, tuple(human.get(product.asin, ()))) for product in products)
        return cls(Shelf.of(entries), seed, compat)

    def __len__(self) -> int:
        return len(self._shelf)

    def __getitem__(self, position: int) -> Product:
        """The product at a position from 0.

        Raises:
            IndexError: If there is no such position.
        """
        if not 0 <= position < len(self._shelf):
            raise IndexError(f"no product {position}: the catalogue has {len(self._shelf)}")
        return self._product(position)

    def position(self, asin: str) -> int:
        """The position of the product with an ASIN.

        Raises:
            KeyError: If the catalogue has no such product.
        """
        return self._shelf.position(asin)

    def search(self, query: str, limit: int = 50) -> list[int]:
        """The positions of the best hits for a query, best first."""
        documents, _ = self._shelf.index.search(query, limit)
        hits: list[int] = documents.tolist()
        return hits

    @property
    def human_instructions(self) -> Mapping[str, tuple[HumanInstruction, ...]]:
        """ASIN -> instructions by people, in the order of the products; read-only."""
        return self._shelf.human_instructions

    @property
    def instructed(self) -> Sequence[int]:
        """The positions of the products with a synthetic instruction, ascending."""
        return self._shelf.instructed

    @property
    def ranged(self) -> int:
        """Number of products with a price range; each of them takes one random draw."""
        return self._shelf.ranged

    @cached_property
    def hash(self) -> str:
        """Sixteen hex digits; equal for catalogues of equal products, instructions and prices."""
        text = json.dumps([self._shelf.hash, self.seed, self.compat])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _priced(self, position: int) -> Product:
        product = self._shelf[position]
        if len(product.price_range) == 1:
            return product
        if quirks_of(self.compat).prices_in_order:
            return replace(product, price=self._streamed[position])
        drawn = random.Random(f"{self.seed}/{product.asin}").uniform(*product.price_range)
        return replace(product, price=drawn)

    @cached_property
    def _streamed(self) -> dict[int, float]:
        """Position -> price of the products with a range, drawn in order."""
        rng = random.Random(self.seed)
        return {at: rng.uniform(low, high) for at, low, high in self._shelf.ranges()}


def open_catalogue(
    name: str | Path = "small", seed: int = 0, compat: Compat = "clean"
) -> Catalogue:
    """The catalogue with this name. All callers in a process share one object.

    A large catalogue is built once per machine, and every process memory-maps it (`shelf`).

    Args:
        name: One of `generate.SIZES`, or a size with a seed (``small-7``). Else the path of a
            folder of official files, or of a products file.
        seed: Seed of the prices.
        compat: ``clean`` or ``original``: how prices are drawn.

    Raises:
        DataFileError: If there is no such catalogue, or one of its files is broken.
        ValueError: For an unknown ``compat``.
    """
    quirks_of(compat)
    source = source_of(name)
    with _LOCK:
        key = (source.key, seed, compat)
        catalogue = _OPEN.get(key)
        if catalogue is None:
            shelf = _SHELVES.get(source.key)
            if shelf is None:
                in_memory = source.in_memory
                shelf = Shelf.of(source.read(lambda _: None)) if in_memory else open_store(source)
                _SHELVES[source.key] = shelf
            catalogue = Catalogue(shelf, seed, compat)
            _OPEN[key] = named(catalogue, open_catalogue, source.path or name, seed, compat)
        _RECENT.append(catalogue)
    return catalogue


_LOCK: Final = threading.Lock()
_OPEN: Final[WeakValueDictionary[tuple[str, int, str], Catalogue]] = WeakValueDictionary()
_SHELVES: Final[WeakValueDictionary[str, Shelf]] = WeakValueDictionary()
_RECENT: Final[deque[Catalogue]] = deque(maxlen=4)
"""Keeps recent catalogues open for later environments."""
