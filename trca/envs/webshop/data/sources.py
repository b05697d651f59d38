"""Opens catalogues: sources of products, and their stores on disk.

A source is the generator or official files. A small generated catalogue is in memory. Any other
catalogue is a store on disk: built once per machine, checked on opening, and memory-mapped by every
process. The folder of a store contains ``products`` (encoded products and their lookup tables) and
``index`` (BM25), both with checksums. Stores are in ``$TRCA_CACHE/webshop``, or else in the user's
cache folder. A store appears in one step when complete. A damaged store is built again.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Final

from trca.common.cache import build_once, cache_folder
from trca.common.files import versions
from trca.common.progress import progress_bar
from trca.common.shared import named
from trca.envs.retrieval import analysis, bm25, porter, postings, storage
from trca.envs.retrieval.bm25 import save_merged
from trca.envs.retrieval.postings import Block, batched
from trca.envs.retrieval.storage import ByteStrings, StoredDataError, read_arrays, writing
from trca.envs.webshop.compat import quirks_of
from trca.envs.webshop.data import catalogue as catalogues
from trca.envs.webshop.data import generate, jsonfile, official, products
from trca.envs.webshop.data.catalogue import Catalogue, Compat, Entry, tables_of
from trca.envs.webshop.data.jsonfile import DataFileError, Progress
from trca.envs.webshop.data.products import document

_KIND: Final = "WebShop catalogue"
_VERSION: Final = 1
_LOCK: Final = threading.Lock()


class CatalogueMissingError(DataFileError, FileNotFoundError):
    """The path of a catalogue does not exist."""


@dataclass(frozen=True)
class Source:
    """A source of products and their instructions by people.

    Attributes:
        key: Sixteen hex digits that change with the products and with the code that makes them.
        total: Final value of the progress of `read`.
        read: Yields the products in order, with the lowest price of each range. Its argument
            receives the progress, up to `total`.
        in_memory: Whether the catalogue is small enough for each process to build its own copy.
        path: The products file; None for generated products.
    """

    key: str
    name: str = field(compare=False)
    total: int = field(compare=False)
    read: Callable[[Progress], Iterator[Entry]] = field(compare=False)
    in_memory: bool = field(default=False, compare=False)
    path: Path | None = field(default=None, compare=False)


def generated_source(count: int, seed: int = 0) -> Source:
    """The first products of a seed; each seed gives different products."""
    if count < 1:
        raise ValueError(f"count is {count}: a catalogue has at least 1 product")

    def read(progress: Progress) -> Iterator[Entry]:
        for number in range(count):
            yield generate.draw(number, seed)
            progress(number + 1)

    key = _key("generated", count, seed, code_hash(generate, products))
    in_memory = count <= generate.SIZES["small"]
    return Source(key, f"{count:,} generated products", count, read, in_memory)


def file_source(path: str | Path) -> Source:
    """The products in a folder of official files, or of one such file; see `official`."""
    files = official.CatalogueFiles.find(path)

    def read(progress: Progress) -> Iterator[Entry]:
        human = official.read_human_instructions(files)
        for product in official.read_products(files, progress):
            yield product, human.get(product.asin, ())

    file_versions = [version for file in filter(None, files) for version in versions(file)]
    key = _key(file_versions, code_hash(jsonfile, official, products))
    size = files.products.stat().st_size
    return Source(key, str(files.products), size, read, path=files.products)


def source_of(name: str | Path) -> Source:
    """The source with this name; see `open_catalogue`."""
    size, _, seed = str(name).partition("-")
    if size in generate.SIZES and (seed.isdecimal() or str(name) == size):
        return generated_source(generate.SIZES[size], int(seed or 0))
    if not Path(name).expanduser().exists():
        given_path = "/" in str(name) or isinstance(name, Path)
        raise (CatalogueMissingError if given_path else DataFileError)(
            Path(name),
            f"there is no such catalogue: choose {', '.join(generate.SIZES)}, a size with a"
            " seed such as small-7, or the path of a folder or products file; `trca data webshop`"
            " lists the official files",
        )
    return file_source(name)


def open_catalogue(
    name: str | Path = "small", seed: int = 0, compat: Compat = "clean"
) -> Catalogue:
    """The catalogue with this name. All callers in a process share one object.

    The name is one of `generate.SIZES`, also with a seed (``small-7``), or the path of a folder of
    official files or of a products file. ``seed`` and ``compat`` determine the prices.
    """
    quirks_of(compat)
    source = source_of(name)
    with _LOCK:
        return named(
            _opened(source, seed, compat), open_catalogue, source.path or name, seed, compat
        )


@lru_cache(4)
def _opened(source: Source, seed: int, compat: Compat) -> Catalogue:
    if source.in_memory:
        return Catalogue.of(source.read(lambda _: None), seed, compat)
    return open_store(source, seed=seed, compat=compat)


def open_store(
    source: Source, folder: Path | None = None, seed: int = 0, compat: Compat = "clean"
) -> Catalogue:
    """Opens the store of a source in ``folder``; builds a missing or damaged store."""
    made_by = (analysis, bm25, porter, postings, storage, catalogues, sys.modules[__name__])
    stores = folder or cache_folder() / "webshop"
    folder, build = stores / f"{source.key}-{code_hash(*made_by)[:8]}", partial(_build, source)
    build_once(folder, build)
    try:
        return _stored(folder, seed, compat)
    except StoredDataError as error:
        print(f"{error}. Building the catalogue again.", file=sys.stderr)
        build_once(folder, build, _is_whole)
        return _stored(folder, seed, compat)


def _stored(folder: Path, seed: int = 0, compat: Compat = "clean") -> Catalogue:
    """Opens a store and checks products and index."""
    catalogue = _products(folder, seed, compat)
    count, indexed = len(catalogue), len(catalogue.index)
    if indexed != count:
        raise StoredDataError(folder, f"its index has {indexed} products, not {count}")
    return catalogue


def _is_whole(folder: Path) -> bool:
    with suppress(StoredDataError):
        return len(_stored(folder)) > 0
    return False


def _products(folder: Path, seed: int = 0, compat: Compat = "clean") -> Catalogue:
    """Opens a store without its index, which the first search opens."""
    tables, _ = read_arrays(folder / "products", _KIND, _VERSION)
    records = ByteStrings(tables.pop("records"), tables.pop("ends"))
    return Catalogue(records, tables, folder / "index", seed, compat)


def _build(source: Source, draft: Path) -> None:
    with progress_bar() as report:
        with writing(draft / "products", _KIND, _VERSION) as writer:
            writer.facts["source"] = source.name
            entries = source.read(lambda done: report(f"Reading {source.name}", done, source.total))
            with writer.strings("records", "ends") as add:
                tables = tables_of(entries, add)
            if not len(tables["asins"]):
                raise DataFileError(Path(source.name), "it holds no products")
            for name, table in tables.items():
                writer.add(name, table)
        catalogue = _products(draft)

        def documents() -> Iterator[str]:
            for position in range(len(catalogue)):
                yield document(catalogue[position])
                report(f"Indexing {source.name}", position + 1, len(catalogue))

        places: list[Path] = []
        for batch in batched(documents()):
            places.append(draft / "blocks" / f"{len(places):04}")
            Block.of(batch).save(places[-1])
        save_merged(draft / "index", places, catalogue.asins())
        shutil.rmtree(draft / "blocks")


@cache
def code_hash(*modules: ModuleType) -> str:
    """Sixteen hex digits: the hash of the modules' source code and of their YAML files."""
    paths = [Path(str(module.__file__)) for module in modules]
    files = [each for path in paths for each in (path, path.with_suffix(".yaml")) if each.exists()]
    return _key([file.read_bytes() for file in files])


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
