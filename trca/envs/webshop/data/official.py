"""Reads the official files of WebShop into products and instructions, as the original does.

A folder contains products (``items_shuffle*.json``), their attributes (``items_ins_v2*.json``) and,
for human goals, instructions (``items_human_ins.json``). All files may be compressed (``.gz``). The
products file may have one product per line (``.jsonl``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from trca.common.files import sha256
from trca.common.strict_yaml import packaged
from trca.envs.webshop.data.jsonfile import DataFileError, Progress, members, values
from trca.envs.webshop.data.products import NO_ATTRIBUTES, HumanInstruction, Product

T = TypeVar("T")
_ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "items_shuffle_1000.json": ("items_ins_v2_1000.json", "items_ins_v2.json"),
    "items_shuffle.json": ("items_ins_v2.json",),
    "catalog_1000.jsonl": ("attributes.json",),
}
_ANY_ATTRIBUTES: Final = tuple(dict.fromkeys(chain(*_ATTRIBUTES.values())))
_HUMAN: Final = ("items_human_ins.json", "human_instructions.json")
LONGEST_ASIN: Final = 10
UNPRICED: Final = 100.0
"""Price of a product without a price, in dollars."""

_USED: Final = (
    *("asin", "name", "full_description", "small_description", "product_category", "category"),
    *("query", "customization_options"),
)
_OTHERS: Final = """
pricing images product_information brand brand_url list_price shipping_price availability_quantity
availability_status average_rating feature_bullets total_reviews total_answered_questions seller_id
seller_name fulfilled_by_amazon fast_track_message aplus_present small_description_old
"""
COLUMNS: Final = frozenset((*_USED, *_OTHERS.split()))
"""The permitted columns of a row: the columns of a product, and the ignored columns."""


@dataclass(frozen=True)
class Published:
    """A file of the release: its contents in words, address, size in bytes, and checksum in hex."""

    holds: str
    url: str
    size: int
    sha256: str


RELEASE: Final = {
    name: Published(**file) for name, file in packaged(__package__, "release.yaml").items()
}
"""Name -> file."""


def differs(path: Path) -> str | None:
    """The difference from the release's file of the same name; None if equal or unknown."""
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


class CatalogueFiles(NamedTuple):
    """The files of one catalogue: products, attributes by ASIN, and any instructions by people."""

    products: Path
    attributes: Path
    human: Path | None

    @classmethod
    def find(cls, path: str | Path) -> CatalogueFiles:
        """The files in a folder, or the files that belong to a products file."""
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


def read_products(files: CatalogueFiles, progress: Progress | None = None) -> Iterator[Product]:
    """Yields the products in order, with the lowest price of each range.

    As in the original, rows are left out if the ASIN is ``nan``, repeated or longer than 10
    characters. In files that differ from the release, an unknown column is an error.
    """
    listed = dict(_entries(files.attributes, listed_of))
    published = RELEASE.get(files.products.name)
    strict = published is None or files.products.stat().st_size != published.size
    seen: set[str] = set()
    for place, row in values(files.products, progress):
        try:
            product = product_of(row, listed, strict)
        except RowError as error:
            asin = row.get("asin") if isinstance(row, dict) else None
            raise DataFileError(files.products, f"{place} (asin {asin!r}): {error}") from None
        if product is not None and product.asin not in seen:
            seen.add(product.asin)
            yield product


def read_human_instructions(files: CatalogueFiles) -> dict[str, tuple[HumanInstruction, ...]]:
    """ASIN -> instructions by people; empty without this file."""
    return {} if files.human is None else dict(_entries(files.human, human_instructions_of))


def _entries(path: Path, read: Callable[[Any], T]) -> Iterator[tuple[str, T]]:
    for asin, entry in members(path):
        try:
            yield asin, read(entry)
        except RowError as error:
            raise DataFileError(path, f"entry {asin!r}: {error}") from None


def _first(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of these files in a folder, compressed or not."""
    for name in names:
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                return file
    return None


class Listed(NamedTuple):
    """The entry of a product in ``items_ins_v2.json``; `Product` describes the fields."""

    attributes: tuple[str, ...] = NO_ATTRIBUTES
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] = ()


class RowError(ValueError):
    """A row is invalid. The message names the column and the value."""


def product_of(row: Any, listed: Mapping[str, Listed], strict: bool = True) -> Product | None:
    """Parses a row of ``items_shuffle.json``; None for a row that the original skips.

    ``listed`` has the entries of ``items_ins_v2.json`` by ASIN. If ``strict``, a column outside
    `COLUMNS` is an error.
    """
    if not isinstance(row, dict):
        raise RowError(f"it is {_shown(row)}, expected an object with the columns {_USED}")
    if missing := [name for name in _USED if name not in row]:
        raise RowError(f"it has no column {', '.join(map(repr, missing))}")
    if strict and (unknown := sorted(row.keys() - COLUMNS)):
        raise RowError(
            f"unknown column {', '.join(map(repr, unknown))}: choose among"
            f" {', '.join(sorted(COLUMNS))}"
        )
    asin = _text(row, "asin")
    if asin == "nan" or len(asin) > LONGEST_ASIN:
        return None
    if not asin or not asin.isprintable():
        raise RowError(f"column 'asin' is {asin!r}, expected up to 10 printable characters")
    label, price_range = _price(row.get("pricing"))
    entry = listed.get(asin, Listed())
    return Product(
        asin=asin,
        title=_text(row, "name"),
        description=_text(row, "full_description"),
        bullets=_bullets(row["small_description"]),
        price_label=label,
        price_range=price_range,
        price=price_range[0],
        category=_text(row, "category"),
        product_category=_text(row, "product_category"),
        query=_text(row, "query").lower().strip(),
        options=_options(row["customization_options"]),
        attributes=entry.attributes,
        instruction=entry.instruction,
        instruction_attributes=entry.instruction_attributes,
    )


def listed_of(entry: Any) -> Listed:
    """Parses an entry of ``items_ins_v2.json``."""
    if not isinstance(entry, dict):
        raise RowError(f"it is {_shown(entry)}, expected an object with 'attributes'")
    return Listed(
        _texts(entry, "attributes") if "attributes" in entry else NO_ATTRIBUTES,
        None if entry.get("instruction") is None else _text(entry, "instruction"),
        _texts(entry, "instruction_attributes"),
    )


def human_instructions_of(entry: Any) -> tuple[HumanInstruction, ...]:
    """Parses an entry of ``items_human_ins.json``."""
    if not isinstance(entry, list):
        raise RowError(f"it is {_shown(entry)}, expected a list of instructions")
    for row in entry:
        if not isinstance(row, dict) or "instruction" not in row:
            raise RowError(f"it holds {_shown(row)}, expected an object with an 'instruction'")
    return tuple(
        HumanInstruction(
            instruction=_text(row, "instruction"),
            attributes=_texts(row, "instruction_attributes"),
            options=_texts(row, "instruction_options"),
        )
        for row in entry
    )


def _price(pricing: Any) -> tuple[str, tuple[float, ...]]:
    if not pricing:
        return f"${UNPRICED}", (UNPRICED,)
    if not isinstance(pricing, str):
        raise RowError(f"column 'pricing' is {_shown(pricing)}, expected text such as '$19.99'")
    try:
        prices = [float(Decimal(re.sub(r"[^\d.]", "", part))) for part in pricing.split("$")[1:]]
    except InvalidOperation:
        prices = []
    if not prices:
        raise RowError(f"column 'pricing' is {pricing!r}, expected '$19.99' or '$19.99 - $24.99'")
    if len(prices) == 1:
        return f"${prices[0]}", (prices[0],)
    return f"${prices[0]} to ${prices[1]}", (prices[0], prices[1])


def _bullets(value: Any) -> tuple[str, ...]:
    lines = [value] if isinstance(value, str) else [] if value is None else value
    if isinstance(lines, list) and all(isinstance(line, str) for line in lines):
        return tuple(lines)
    raise RowError(f"column 'small_description' is {_shown(value)}, expected text or a list of it")


def _options(value: Any) -> dict[str, tuple[str, ...]]:
    """Group -> values, all in lower case. Groups without a list of values are left out."""
    if not value:
        return {}
    if not isinstance(value, dict):
        raise RowError(
            f"column 'customization_options' is {_shown(value)}, expected an object of groups"
        )
    options = {}
    for name, contents in value.items():
        if contents is None:
            continue
        try:
            options[name.lower()] = tuple(
                content["value"].strip().replace("/", " | ").lower() for content in contents
            )
        except (TypeError, KeyError, AttributeError):
            raise RowError(
                f"option group {name!r} is {_shown(contents)}, expected a list of objects with a"
                " text 'value'"
            ) from None
    return options


def _text(row: Mapping[str, Any], column: str) -> str:
    value = row[column]
    if not isinstance(value, str):
        raise RowError(f"column {column!r} is {_shown(value)}, expected text")
    return value


def _texts(row: Mapping[str, Any], column: str) -> tuple[str, ...]:
    value: Sequence[Any] = row.get(column) or ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        raise RowError(f"column {column!r} is {_shown(value)}, expected a list of texts")
    return tuple(map(sys.intern, value))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
