"""Unpriced products with their search index, shared by the catalogues of all price seeds.

For example::

    shelf = open_store(generated_source(100_000))  # the first call builds the store

A small shelf is in memory. A large shelf is a store on disk: built once, checked on opening, and
memory-mapped by every process. The folder of a store contains ``products`` (encoded products and
their lookup tables) and ``index`` (BM25), both with checksums. Stores are in
``$TRCA_CACHE/webshop``, or else in the user's cache folder. A store appears in one step when
complete. A damaged store is built again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.common.cache import build_once, cache_folder
from trca.common.progress import Report, progress_bar
from trca.envs.retrieval import analysis, bm25, porter, postings, storage
from trca.envs.retrieval.bm25 import BM25, save_merged
from trca.envs.retrieval.postings import Block, batched
from trca.envs.retrieval.storage import ByteStrings, StoredDataError, read_arrays, writing
from trca.envs.webshop.data.jsonfile import DataFileError
from trca.envs.webshop.data.products import (
    HumanInstruction,
    Product,
    as_bytes,
    decode,
    document,
    encode,
)
from trca.envs.webshop.data.sources import Entry, Source, code_hash

_KIND: Final = "WebShop catalogue"
_VERSION: Final = 1
_MADE_BY: Final = (analysis, bm25, porter, postings, storage)


class Shelf:
    """The products of a catalogue in order, without prices; immutable.

    Products are decoded on access and not cached.

    Attributes:
        instructed: The positions of the products with a synthetic instruction, ascending.
        hash: Sixty-four hex digits; equal for equal products and instructions.
    """

    def __init__(
        self,
        records: Sequence[bytes],
        tables: Mapping[str, NDArray[Any]],
        folder: Path | None = None,
    ) -> None:
        """Combines the parts; see `Shelf.of` and `Shelf.open`.

        Args:
            records: The encoded products.
            tables: The result of `_tables`.
            folder: Folder of the search index; None to build the index in memory.
        """
        self._records, self._folder = records, folder
        self._asins: NDArray[np.bytes_] = tables["asins"]
        self._places: NDArray[np.int32] = tables["places"]
        self._ranged: NDArray[np.int32] = tables["ranged"]
        self._prices: NDArray[np.float64] = tables["prices"]
        self._human: NDArray[np.uint8] = tables["human"]
        self.instructed: list[int] = tables["instructed"].tolist()
        self.hash = tables["hash"].tobytes().hex()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Shelf:
        """A shelf in memory.

        Raises:
            ValueError: If two products have the same ASIN.
        """
        records: list[bytes] = []
        tables = _tables(entries, records.append)
        return cls(records, tables)

    @classmethod
    def open(cls, folder: Path) -> Shelf:
        """The shelf of a store; the index is opened at the first search.

        Raises:
            StoredDataError: If the products are incomplete or damaged.
        """
        tables, _ = read_arrays(folder / "products", _KIND, _VERSION)
        records = ByteStrings(tables["records"], tables["ends"])
        return cls(records, tables, folder / "index")

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, position: int) -> Product:
        return decode(self._records[position])

    def asins(self) -> list[str]:
        """The ASINs in the order of the products."""
        names = np.empty_like(self._asins)
        names[self._places] = self._asins
        return [name.decode() for name in names.tolist()]

    def position(self, asin: str) -> int:
        """The position of the product with an ASIN.

        Raises:
            KeyError: If there is no such product.
        """
        key = storage.encoded(asin)
        place = int(np.searchsorted(self._asins, np.bytes_(key)))
        if place == len(self._asins) or self._asins[place] != key:
            raise KeyError(asin)
        return int(self._places[place])

    def ranges(self) -> Iterator[tuple[int, float, float]]:
        """Position, lowest and highest price of the products with a price range, in order."""
        for position, (low, high) in zip(self._ranged.tolist(), self._prices.tolist(), strict=True):
            yield position, low, high

    @property
    def ranged(self) -> int:
        """Number of products with a price range."""
        return len(self._ranged)

    @cached_property
    def human_instructions(self) -> Mapping[str, tuple[HumanInstruction, ...]]:
        """ASIN -> instructions by people, in the order of the products."""
        return {
            asin: tuple(
                HumanInstruction(text, tuple(attributes), tuple(options))
                for text, attributes, options in entries
            )
            for asin, entries in json.loads(self._human.tobytes()).items()
        }

    @cached_property
    def index(self) -> BM25:
        """The search index over `products.document`."""
        if self._folder is not None:
            return BM25.load(self._folder)
        return BM25.build(map(document, map(decode, self._records)), self.asins())


def open_store(source: Source, folder: Path | None = None) -> Shelf:
    """Opens the store of a source; builds a missing or damaged store.

    Args:
        source: Source of the products.
        folder: Folder of all stores; None for ``webshop`` in the cache folder.

    Raises:
        DataFileError: If a file of the source is broken.
        OSError: If the folder is read-only or full.
    """
    code = code_hash(*_MADE_BY, sys.modules[__name__])[:8]
    folder = (folder or cache_folder() / "webshop") / f"{source.key}-{code}"
    build_once(folder, partial(_build, source))
    try:
        return _whole(folder)
    except StoredDataError as error:
        print(f"{error}. Building the catalogue again.", file=sys.stderr)
        build_once(folder, partial(_build, source), _is_whole)
        return _whole(folder)


def _whole(folder: Path) -> Shelf:
    """Opens a store and checks products and index."""
    shelf = Shelf.open(folder)
    if len(shelf.index) != len(shelf):
        raise StoredDataError(
            folder, f"its index has {len(shelf.index)} products, not {len(shelf)}"
        )
    return shelf


def _is_whole(folder: Path) -> bool:
    with suppress(StoredDataError):
        return len(_whole(folder)) > 0
    return False


def _build(source: Source, draft: Path) -> None:
    with progress_bar() as report:
        with writing(draft / "products", _KIND, _VERSION) as writer:
            writer.facts["source"] = source.name
            entries = source.read(lambda done: report(f"Reading {source.name}", done, source.total))
            with writer.strings("records", "ends") as add:
                tables = _tables(entries, add)
            if not len(tables["asins"]):
                raise DataFileError(Path(source.name), "it holds no products")
            for name, table in tables.items():
                writer.add(name, table)
        shelf = Shelf.open(draft)
        places: list[Path] = []
        for batch in batched(_documents(shelf, source.name, report)):
            places.append(draft / "blocks" / f"{len(places):04}")
            Block.of(batch).save(places[-1])
        save_merged(draft / "index", places, shelf.asins())
        shutil.rmtree(draft / "blocks")


def _documents(shelf: Shelf, name: str, report: Report) -> Iterator[str]:
    for position in range(len(shelf)):
        yield document(shelf[position])
        report(f"Indexing {name}", position + 1, len(shelf))


def _tables(entries: Iterable[Entry], add: Callable[[bytes], object]) -> dict[str, NDArray[Any]]:
    """Encodes products in order, and returns their lookup tables.

    Args:
        entries: The products with their instructions by people.
        add: Stores the bytes of a product.

    Raises:
        ValueError: If two products have the same ASIN.
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
    encoded = as_bytes(human)
    digest.update(encoded)
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
        "human": np.frombuffer(encoded, np.uint8),
    }
