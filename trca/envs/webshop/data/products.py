"""A product as pages, goals and rewards see it, its search document and its bytes on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

NO_ATTRIBUTES: Final = ("DUMMY_ATTR",)
"""The attributes of a product that has none listed, as in the original."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product, normalised as the original WebShop does at load.

    Attributes:
        asin: Its key, at most 10 characters.
        title: Its name, as written.
        description: Its long description; may be empty.
        bullets: Its feature lines.
        price_label: The price its page shows: ``$26.0`` or ``$26.0 to $29.4``.
        price_range: The shown price, or the lowest and the highest, in dollars.
        price: What it costs, in dollars: drawn once per catalogue where a range is shown (until
            then the lowest).
        category: Its top category, one word.
        product_category: Its path of categories, joined by ``›``.
        query: The search phrase it was found by, lower case.
        options: Name of each group -> its values, in page order, all lower case.
        attributes: What it is, such as ``water resistant``.
        instruction: The sentence that synthetic goals start with, if it has one.
        instruction_attributes: The attributes which that sentence asks for.
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
    """One crowd-worker's instruction for a product.

    Attributes:
        instruction: The sentence, without a price.
        attributes: The attributes it asks for; those without any make no goal.
        options: The option values it asks for.
    """

    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


def document(product: Product) -> str:
    """What the search engine indexes: title, description, first bullet and options."""
    options = ", and ".join(
        f"{name}: {', '.join(values)}" for name, values in product.options.items()
    )
    first = product.bullets[0] if product.bullets else ""
    return " ".join((product.title, product.description, first, options)).lower()


_stored = attrgetter(*(name for name in Product.__slots__ if name != "price"))


def as_bytes(value: Any) -> bytes:
    """A value as JSON; half surrogate pairs, which files may hold, are kept."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def encode(product: Product) -> bytes:
    """The product without its drawn price; equal products have equal bytes."""
    return as_bytes(_stored(product))


def decode(data: bytes) -> Product:
    """The product of these bytes, its price being the lowest."""
    (
        asin,
        title,
        description,
        bullets,
        price_label,
        price_range,
        category,
        product_category,
        query,
        options,
        attributes,
        instruction,
        instruction_attributes,
    ) = json.loads(data)
    return Product(
        asin,
        title,
        description,
        tuple(bullets),
        price_label,
        tuple(price_range),
        price_range[0],
        category,
        product_category,
        query,
        {name: tuple(values) for name, values in options.items()},
        tuple(attributes),
        instruction,
        tuple(instruction_attributes),
    )
