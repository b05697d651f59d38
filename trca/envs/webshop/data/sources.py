"""Where the products of a catalogue come from: drawn by the generator, or read from files."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType

from trca.envs.webshop.data import generate, jsonfile, official, products
from trca.envs.webshop.data import product_rows as rows
from trca.envs.webshop.data import wording as words
from trca.envs.webshop.data.jsonfile import DataFileError, Progress
from trca.envs.webshop.data.products import HumanInstruction, Product

Entry = tuple[Product, tuple[HumanInstruction, ...]]


class Source(ABC):
    """A supply of products, each with the instructions by people for it.

    Attributes:
        name: What it is called.
        total: How far `read` counts.
        in_memory: Whether each process makes its catalogue, because it is small.
    """

    name: str
    total: int
    in_memory: bool = False

    @property
    @abstractmethod
    def key(self) -> str:
        """Sixteen hex digits; other ones when its products, or the code that makes them, change."""

    @abstractmethod
    def read(self, progress: Progress | None = None) -> Iterator[Entry]:
        """The products in order, priced at the lowest of their range.

        Args:
            progress: Receives how much is read so far, up to `total`.

        Raises:
            DataFileError: When a file is broken.
        """


class GeneratedSource(Source):
    """Products drawn by `generate`."""

    def __init__(self, count: int, seed: int = 0) -> None:
        """Takes the first products of a seed.

        Args:
            count: Number of products, at least 1.
            seed: Another seed gives other products.
        """
        if count < 1:
            raise ValueError(f"count is {count}: a catalogue has at least 1 product")
        self.name = f"{count:,} generated products"
        self.total = count
        self.in_memory = count <= generate.SIZES["small"]
        self._seed = seed

    @cached_property
    def key(self) -> str:
        """Sixteen hex digits."""
        return _key("generated", self.total, self._seed, code_hash(generate, words, products))

    def read(self, progress: Progress | None = None) -> Iterator[Entry]:
        """The products in order."""
        for number in range(self.total):
            yield generate.draw(number, self._seed)
            if progress is not None:
                progress(number + 1)


class FileSource(Source):
    """Products read from the official files, or from others in their form."""

    def __init__(self, path: str | Path) -> None:
        """Finds the files.

        Args:
            path: Their folder, or the path of the products file.

        Raises:
            DataFileError: When there are none.
        """
        self.files = official.CatalogueFiles.find(path)
        self.name = str(self.files.products)
        self.total = self.files.products.stat().st_size

    @cached_property
    def key(self) -> str:
        """Sixteen hex digits, of the files' places, sizes and times of change."""
        stats = [(str(file), file.stat()) for file in self.files.all]
        return _key(
            [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats],
            code_hash(jsonfile, official, rows, products),
        )

    def read(self, progress: Progress | None = None) -> Iterator[Entry]:
        """The products in order."""
        human = official.read_human_instructions(self.files)
        for product in official.read_products(self.files, progress):
            yield product, human.get(product.asin, ())


class CatalogueMissingError(DataFileError, FileNotFoundError):
    """There is nothing at the path of a catalogue."""


def source_of(name: str | Path) -> Source:
    """The source of a name.

    Args:
        name: One of `generate.SIZES`, with a seed behind it for other products (``small-7``); a
            folder of files, or a products file.

    Raises:
        DataFileError: When it is none of them.
    """
    size, _, seed = str(name).partition("-")
    if size in generate.SIZES and (seed.isdecimal() or str(name) == size):
        return GeneratedSource(generate.SIZES[size], int(seed or 0))
    if not Path(name).expanduser().exists():
        given_path = "/" in str(name) or isinstance(name, Path)
        raise (CatalogueMissingError if given_path else DataFileError)(
            Path(name),
            f"there is no such catalogue: choose {', '.join(generate.SIZES)}, one of them with a"
            " seed such as small-7, or the path of a folder or products file; `trca data webshop`"
            " says where the official ones come from",
        )
    return FileSource(name)


def code_hash(*modules: ModuleType) -> str:
    """Sixteen hex digits of the code of modules."""
    return _key([Path(str(module.__file__)).read_bytes() for module in modules])


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
