"""A catalogue on disk: built once, checked on opening, and memory-mapped by every process.

For example::

    shelf = open_store(GeneratedSource(100_000))  # the first call builds the store

The folder contains ``products`` (encoded products and their lookup tables) and ``index`` (BM25),
both with checksums. Stores are in ``$TRCA_CACHE/webshop``, or else in the user's cache folder. A
store appears in one step when complete. A damaged store is built again.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from array import array
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trca.common.cache import build_once, cache_folder
from trca.common.progress import Report, progress_bar
from trca.envs.retrieval import analysis, blocks, bm25, lengths, porter, postings, words
from trca.envs.retrieval.blocks import Block, batched
from trca.envs.retrieval.bm25 import BM25, save_merged
from trca.envs.retrieval.storage import StoredDataError, read_arrays, writing
from trca.envs.webshop.data import shelf
from trca.envs.webshop.data.jsonfile import DataFileError
from trca.envs.webshop.data.products import HumanInstruction, Product, decode, document, encode
from trca.envs.webshop.data.shelf import decode_instructions, encode_instructions
from trca.envs.webshop.data.sources import Source, code_hash

_KIND: Final = "WebShop catalogue"
_VERSION: Final = 1
_MADE_BY: Final = (analysis, blocks, bm25, lengths, porter, postings, words)


class StoredShelf:
    """A shelf on disk. Products are decoded on access and not cached."""

    def __init__(self, folder: Path) -> None:
        """Opens the products of a store; the index is opened at the first search.

        Raises:
            StoredDataError: If the products are incomplete or damaged.
        """
        arrays, _ = read_arrays(folder / "products", _KIND, _VERSION)
        self._folder = folder
        self._records: NDArray[np.uint8] = arrays["records"]
        self._ends: NDArray[np.int64] = arrays["ends"]
        self._asins: NDArray[np.bytes_] = arrays["asins"]
        self._places: NDArray[np.int32] = arrays["places"]
        self._ranged: NDArray[np.int32] = arrays["ranged"]
        self._prices: NDArray[np.float64] = arrays["prices"]
        self._human: NDArray[np.uint8] = arrays["human"]
        self.instructed: list[int] = arrays["instructed"].tolist()
        self.hash = arrays["hash"].tobytes().hex()

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, position: int) -> Product:
        return decode(self.record(position))

    def record(self, position: int) -> bytes:
        """The encoded product at a position."""
        start = self._ends[position - 1] if position else 0
        return self._records[start : self._ends[position]].tobytes()

    def asins(self) -> list[str]:
        """The ASINs in the order of the products."""
        names = np.empty_like(self._asins)
        names[self._places] = self._asins
        return [name.decode() for name in names.tolist()]

    def position(self, asin: str) -> int:
        """The position of the product with an ASIN; raises KeyError for an unknown ASIN."""
        key = asin.encode("utf-8", "surrogatepass")
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
        return decode_instructions(self._human.tobytes())

    @cached_property
    def index(self) -> BM25:
        """The search index over `products.document`."""
        return BM25.load(self._folder / "index")


def open_store(source: Source, folder: Path | None = None) -> StoredShelf:
    """Opens the store of a source; builds a missing or damaged store.

    Args:
        source: Source of the products.
        folder: Folder of all stores; None for ``webshop`` in the cache folder.

    Raises:
        DataFileError: If a file of the source is broken.
        OSError: If the folder is read-only or full.
    """
    folder = (folder or cache_folder() / "webshop") / f"{source.key}-{_code()}"
    build_once(folder, partial(_build, source))
    try:
        return _whole(folder)
    except StoredDataError as error:
        print(f"{error}. Building the catalogue again.", file=sys.stderr)
        build_once(folder, partial(_build, source), _is_whole)
        return _whole(folder)


@cache
def _code() -> str:
    """A hash of the code that encodes and indexes; part of the name of a store's folder."""
    return code_hash(*_MADE_BY, shelf, sys.modules[__name__])[:8]


def _whole(folder: Path) -> StoredShelf:
    """Opens a store and checks products and index."""
    stored = StoredShelf(folder)
    if len(stored.index) != len(stored):
        raise StoredDataError(
            folder, f"its index has {len(stored.index)} products, not {len(stored)}"
        )
    return stored


def _is_whole(folder: Path) -> bool:
    try:
        _whole(folder)
    except StoredDataError:
        return False
    return True


def _build(source: Source, draft: Path) -> None:
    with progress_bar() as report:
        _write_products(source, draft, report)
        stored = StoredShelf(draft)
        places: list[Path] = []
        for batch in batched(_documents(stored, source.name, report)):
            places.append(draft / "blocks" / f"{len(places):04}")
            Block.of(batch).save(places[-1])
        save_merged(draft / "index", [partial(Block.load, p) for p in places], stored.asins())
        shutil.rmtree(draft / "blocks")


def _documents(stored: StoredShelf, name: str, report: Report) -> Iterator[str]:
    for position in range(len(stored)):
        yield document(stored[position])
        report(f"Indexing {name}", position + 1, len(stored))


def _write_products(source: Source, draft: Path, report: Report) -> None:
    """Writes the products in order, and their lookup tables."""
    ends, ranged, prices, instructed = array("q"), array("i"), array("d"), array("i")
    asins: list[bytes] = []
    human: dict[str, tuple[HumanInstruction, ...]] = {}
    digest = hashlib.sha256()
    end = 0
    records = draft / "records"
    with records.open("wb") as file:
        for position, (product, instructions) in enumerate(
            source.read(lambda done: report(f"Reading {source.name}", done, source.total))
        ):
            record = encode(product)
            digest.update(record + b"\n")
            end += file.write(record)
            ends.append(end)
            asins.append(product.asin.encode())
            if instructions:
                human[product.asin] = instructions
            if len(product.price_range) == 2:
                ranged.append(position)
                prices.extend(product.price_range)
            if product.instruction is not None:
                instructed.append(position)
    if not asins:
        raise DataFileError(Path(source.name), "it holds no products")
    encoded = encode_instructions(human)
    digest.update(encoded)
    order = np.argsort(np.array(asins))
    with writing(draft / "products", _KIND, _VERSION) as writer:
        writer.facts["source"] = source.name
        writer.add("hash", np.frombuffer(digest.digest(), np.uint8))
        writer.add("records", np.memmap(records, np.uint8, "r"))
        writer.add("ends", np.array(ends))
        writer.add("asins", np.array(asins)[order])
        writer.add("places", order.astype(np.int32))
        writer.add("ranged", np.array(ranged))
        writer.add("prices", np.array(prices).reshape(-1, 2))
        writer.add("instructed", np.array(instructed))
        writer.add("human", np.frombuffer(encoded, np.uint8))
    records.unlink()
