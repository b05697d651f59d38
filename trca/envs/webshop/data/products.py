"""A product, its search document, and its bytes on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

NO_ATTRIBUTES: Final = ("DUMMY_ATTR",)
"""The attributes of a product without listed attributes, as in the original."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product, normalised like the original WebShop.

    Attributes:
        asin: Key of the product, at most 10 characters.
        bullets: Feature lines.
        price_label: Price on the product's page: ``$26.0`` or ``$26.0 to $29.4``.
        price_range: The price, or the lowest and the highest price, in dollars.
        price: Price for purchases, in dollars. For a range: drawn once per catalogue (before the
            draw, the lowest price).
        category: Top category, one word.
        product_category: Path of categories, joined by ``›``.
        query: Search phrase of the product, in lower case.
        options: Group -> values in page order, all in lower case.
        attributes: Attributes such as ``water resistant``.
        instruction: The first sentence of synthetic goals, or None.
        instruction_attributes: Attributes that this sentence requests.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    price_label: str
    price_range: tuple[float, ...]
    price: float
    category: str
    product_category: str
    query: str
    options: Mapping[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    instruction: str | None
    instruction_attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """One crowd-worker's sentence for a product, without a price, and its requests.

    An instruction without attributes makes no goal.
    """

    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


def document(product: Product) -> str:
    """The text in the search index: title, description, first bullet and options."""
    options = ", and ".join(
        f"{name}: {', '.join(values)}" for name, values in product.options.items()
    )
    first = product.bullets[0] if product.bullets else ""
    return " ".join((product.title, product.description, first, options)).lower()


_STORED: Final = tuple(name for name in Product.__slots__ if name != "price")
_stored = attrgetter(*_STORED)


def as_bytes(value: Any) -> bytes:
    """A value as JSON bytes. Unpaired surrogates, which files may contain, are kept."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def encode(product: Product) -> bytes:
    """The product without its drawn price as bytes; equal products have equal bytes."""
    return as_bytes(_stored(product))


def decode(data: bytes) -> Product:
    """The product of these bytes, with its lowest price."""
    values = [tuple(each) if isinstance(each, list) else each for each in json.loads(data)]
    fields: dict[str, Any] = dict(zip(_STORED, values, strict=True))
    fields["options"] = {name: tuple(each) for name, each in fields["options"].items()}
    return Product(**fields, price=fields["price_range"][0])
