"""Sources of products: the generator or files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from trca.common.files import versions
from trca.envs.webshop.data import generate, jsonfile, official, product_rows, products, wording
from trca.envs.webshop.data.jsonfile import DataFileError, Progress
from trca.envs.webshop.data.products import HumanInstruction, Product

Entry = tuple[Product, tuple[HumanInstruction, ...]]


class CatalogueMissingError(DataFileError, FileNotFoundError):
    """The path of a catalogue does not exist."""


@dataclass(frozen=True)
class Source:
    """A source of products and their instructions by people.

    Attributes:
        name: Name of the source.
        key: Sixteen hex digits that change with the products and with the code that makes them.
        total: Final value of the progress of `read`.
        read: Yields the products in order, with the lowest price of each range. Its argument
            receives the progress, up to `total`. Raises DataFileError if a file is broken.
        in_memory: Whether the catalogue is small enough for each process to build its own copy.
        path: The products file; None for generated products.
    """

    name: str
    key: str
    total: int
    read: Callable[[Progress], Iterator[Entry]]
    in_memory: bool = False
    path: Path | None = None


def generated_source(count: int, seed: int = 0) -> Source:
    """The first products of a seed.

    Args:
        count: Number of products, at least 1.
        seed: Each seed gives different products.

    Raises:
        ValueError: For a count below 1.
    """
    if count < 1:
        raise ValueError(f"count is {count}: a catalogue has at least 1 product")

    def read(progress: Progress) -> Iterator[Entry]:
        for number in range(count):
            yield generate.draw(number, seed)
            progress(number + 1)

    key = _key("generated", count, seed, code_hash(generate, wording, products))
    in_memory = count <= generate.SIZES["small"]
    return Source(f"{count:,} generated products", key, count, read, in_memory)


def file_source(path: str | Path) -> Source:
    """The products in the official files, or in files of the same format.

    Args:
        path: Their folder, or the path of the products file.

    Raises:
        DataFileError: If files are missing.
    """
    files = official.CatalogueFiles.find(path)

    def read(progress: Progress) -> Iterator[Entry]:
        human = official.read_human_instructions(files)
        for product in official.read_products(files, progress):
            yield product, human.get(product.asin, ())

    file_versions = [version for file in files.all for version in versions(file)]
    key = _key(file_versions, code_hash(jsonfile, official, product_rows, products))
    size = files.products.stat().st_size
    return Source(str(files.products), key, size, read, path=files.products)


def source_of(name: str | Path) -> Source:
    """The source with this name.

    Args:
        name: One of `generate.SIZES`, or a size with a seed (``small-7``). Else the path of a
            folder of files, or of a products file.

    Raises:
        DataFileError: For an unknown name or a missing path.
    """
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


@cache
def code_hash(*modules: ModuleType) -> str:
    """Sixteen hex digits: the hash of the modules' source code and of their YAML files."""
    paths = [Path(str(module.__file__)) for module in modules]
    files = [each for path in paths for each in (path, path.with_suffix(".yaml")) if each.exists()]
    return _key([file.read_bytes() for file in files])


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
