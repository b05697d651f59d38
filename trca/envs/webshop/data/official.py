"""Reads the official files of WebShop.

A folder contains products (``items_shuffle*.json``), their attributes (``items_ins_v2*.json``) and,
for human goals, instructions (``items_human_ins.json``). All files may be compressed (``.gz``). The
products file may have one product per line (``.jsonl``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from trca.common.files import sha256
from trca.common.strict_yaml import packaged
from trca.envs.webshop.data import product_rows as rows
from trca.envs.webshop.data.jsonfile import DataFileError, Progress, members, values
from trca.envs.webshop.data.products import HumanInstruction, Product

T = TypeVar("T")
_ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "items_shuffle_1000.json": ("items_ins_v2_1000.json", "items_ins_v2.json"),
    "items_shuffle.json": ("items_ins_v2.json",),
    "catalog_1000.jsonl": ("attributes.json",),
}
_ANY_ATTRIBUTES: Final = tuple(dict.fromkeys(chain(*_ATTRIBUTES.values())))
_HUMAN: Final = ("items_human_ins.json", "human_instructions.json")


@dataclass(frozen=True)
class Published:
    """A file of the release.

    Attributes:
        holds: Contents in words.
        url: Address.
        size: Size in bytes.
        sha256: Checksum in hex.
    """

    holds: str
    url: str
    size: int
    sha256: str


RELEASE: Final = {
    name: Published(**file) for name, file in packaged(__package__, "release.yaml").items()
}
"""Name -> file."""


def differs(path: Path) -> str | None:
    """The difference between a file and the release's file of this name; None if equal or unknown.

    Raises:
        OSError: If the file cannot be read.
    """
    published = RELEASE.get(path.name)
    if published is None:
        return None
    size = path.stat().st_size
    if size != published.size:
        return f"it has {size:,} bytes, the release's {published.size:,}"
    checksum = sha256(path)
    if checksum != published.sha256:
        return f"its SHA-256 is {checksum}, the release's {published.sha256}"
    return None


@dataclass(frozen=True)
class CatalogueFiles:
    """The files of one catalogue.

    Attributes:
        products: One row per product.
        attributes: ASIN -> attributes and instruction.
        human: ASIN -> instructions by people; None without this file.
    """

    products: Path
    attributes: Path
    human: Path | None

    @classmethod
    def find(cls, path: str | Path) -> CatalogueFiles:
        """The files in a folder, or the files that belong to a products file.

        Raises:
            DataFileError: If a file is missing, or the folder contains two catalogues.
        """
        path = Path(path).expanduser().resolve()
        if path.is_dir():
            candidates = [
                file for name in _ATTRIBUTES if (file := _first(path, (name,))) is not None
            ]
            if not candidates:
                raise DataFileError(
                    path, f"the folder holds no {' or '.join(_ATTRIBUTES)}, plain or .gz"
                )
            if len(candidates) > 1:
                names = " and ".join(file.name for file in candidates)
                raise DataFileError(path, f"there are {names} here: give the path of one of them")
            path = candidates[0]
        elif not path.is_file():
            raise DataFileError(path, "there is no such file or folder")
        attribute_names = _ATTRIBUTES.get(path.name.removesuffix(".gz"), _ANY_ATTRIBUTES)
        attributes = _first(path.parent, attribute_names)
        if attributes is None:
            raise DataFileError(
                path, f"its folder has no {' or '.join(attribute_names)}, plain or .gz"
            )
        return cls(path, attributes, _first(path.parent, _HUMAN))

    @property
    def all(self) -> tuple[Path, ...]:
        """The existing files."""
        return tuple(f for f in (self.products, self.attributes, self.human) if f is not None)


def read_products(files: CatalogueFiles, progress: Progress | None = None) -> Iterator[Product]:
    """Yields the products in order, with the lowest price of each range.

    As in the original, rows are left out if the ASIN is ``nan``, repeated or longer than 10
    characters. In files that differ from the release, an unknown column is an error.

    Raises:
        DataFileError: If a file is broken or a row is invalid.
    """
    listed = dict(_entries(files.attributes, rows.listed))
    published = RELEASE.get(files.products.name)
    strict = published is None or files.products.stat().st_size != published.size
    seen: set[str] = set()
    for place, row in values(files.products, progress):
        try:
            product = rows.product(row, listed, strict)
        except rows.RowError as error:
            asin = row.get("asin") if isinstance(row, dict) else None
            raise DataFileError(files.products, f"{place} (asin {asin!r}): {error}") from None
        if product is not None and product.asin not in seen:
            seen.add(product.asin)
            yield product


def read_human_instructions(files: CatalogueFiles) -> dict[str, tuple[HumanInstruction, ...]]:
    """ASIN -> instructions by people; empty without this file.

    Raises:
        DataFileError: If the file is broken or an entry is invalid.
    """
    return {} if files.human is None else dict(_entries(files.human, rows.human_instructions))


def _entries(path: Path, read: Callable[[Any], T]) -> Iterator[tuple[str, T]]:
    """Yields ASIN and parsed entry of a file."""
    for asin, entry in members(path):
        try:
            yield asin, read(entry)
        except rows.RowError as error:
            raise DataFileError(path, f"entry {asin!r}: {error}") from None


def _first(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of these files in a folder, compressed or not."""
    for name in names:
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                return file
    return None
