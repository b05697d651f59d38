"""Sources of products: the generator or files."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType

from trca.common.files import versions
from trca.envs.webshop.data import generate, jsonfile, official, products, wording
from trca.envs.webshop.data import product_rows as rows
from trca.envs.webshop.data.jsonfile import DataFileError, Progress
from trca.envs.webshop.data.products import HumanInstruction, Product

Entry = tuple[Product, tuple[HumanInstruction, ...]]


class Source(ABC):
    """A source of products and their instructions by people.

    Attributes:
        name: Name of the source.
        total: Final value of the progress of `read`.
        in_memory: Whether the catalogue is small enough for each process to build its own copy.
    """

    name: str
    total: int
    in_memory: bool = False

    @property
    @abstractmethod
    def key(self) -> str:
        """Sixteen hex digits that change with the products and with the code that makes them."""

    @abstractmethod
    def read(self, progress: Progress | None = None) -> Iterator[Entry]:
        """Yields the products in order, with the lowest price of each range.

        Args:
            progress: Receives the progress, up to `total`.

        Raises:
            DataFileError: If a file is broken.
        """


class GeneratedSource(Source):
    """Products of `generate`."""

    def __init__(self, count: int, seed: int = 0) -> None:
        """Selects the first products of a seed.

        Args:
            count: Number of products, at least 1.
            seed: Each seed gives different products.

        Raises:
            ValueError: For a count below 1.
        """
        if count < 1:
            raise ValueError(f"count is {count}: a catalogue has at least 1 product")
        self.name = f"{count:,} generated products"
        self.total = count
        self.in_memory = count <= generate.SIZES["small"]
        self._seed = seed

    @cached_property
    def key(self) -> str:
        """Sixteen hex digits, from the arguments and the code."""
        return _key("generated", self.total, self._seed, code_hash(generate, wording, products))

    def read(self, progress: Progress | None = None) -> Iterator[Entry]:
        """Yields the products in order."""
        for number in range(self.total):
            yield generate.draw(number, self._seed)
            if progress is not None:
                progress(number + 1)


class FileSource(Source):
    """Products in the official files or in files of the same format."""

    def __init__(self, path: str | Path) -> None:
        """Locates the files.

        Args:
            path: Their folder, or the path of the products file.

        Raises:
            DataFileError: If files are missing.
        """
        self.files = official.CatalogueFiles.find(path)
        self.name = str(self.files.products)
        self.total = self.files.products.stat().st_size

    @cached_property
    def key(self) -> str:
        """Sixteen hex digits, from the files' paths, sizes and modification times, and the code."""
        files = [version for file in self.files.all for version in versions(file)]
        return _key(files, code_hash(jsonfile, official, rows, products))

    def read(self, progress: Progress | None = None) -> Iterator[Entry]:
        """Yields the products in order."""
        human = official.read_human_instructions(self.files)
        for product in official.read_products(self.files, progress):
            yield product, human.get(product.asin, ())


class CatalogueMissingError(DataFileError, FileNotFoundError):
    """The path of a catalogue does not exist."""


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
        return GeneratedSource(generate.SIZES[size], int(seed or 0))
    if not Path(name).expanduser().exists():
        given_path = "/" in str(name) or isinstance(name, Path)
        raise (CatalogueMissingError if given_path else DataFileError)(
            Path(name),
            f"there is no such catalogue: choose {', '.join(generate.SIZES)}, a size with a"
            " seed such as small-7, or the path of a folder or products file; `trca data webshop`"
            " lists the official files",
        )
    return FileSource(name)


def code_hash(*modules: ModuleType) -> str:
    """Sixteen hex digits: the hash of the modules' source code."""
    return _key([Path(str(module.__file__)).read_bytes() for module in modules])


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
