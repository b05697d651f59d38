"""Generates products. Seed and number determine a product and its instructions.

Therefore a small catalogue is the beginning of a larger one. Products come in lines of four. A line
has one brand and one kind of product, and most of its attributes are shared; options and prices
differ. A search therefore returns near misses together with the requested product. Titles name all
attributes of a product except one. ``generate.yaml`` has the vocabulary.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from trca.common.strict_yaml import packaged
from trca.envs.webshop.data.products import HumanInstruction, Product

SIZES: Final = {"small": 1_000, "medium": 10_000, "large": 100_000}
"""Name of a generated catalogue -> its number of products."""

INSTRUCTED: Final = 5_000
"""Number of products with instructions. As in the official data, only a part of the products has
instructions."""

LINE: Final = 4
"""Number of products in a line."""

_PER_PRODUCT: Final = 2
_GROUPS: Final = (1, 3, 6, 4)
"""Weights of zero, one, two and three option groups."""
_RANGED: Final = 0.25
_ASIN_LEVELS: Final = ((16, 0, 1 << 14), (32, 1 << 14, 1 << 18), (64, 1 << 18, 1 << 23))
"""Per level: number of syllables, first product number, and first number of the next level."""
_CONSONANTS: Final = "BDKLMNPRSTVZ"

WORDS: Final[Mapping[str, Any]] = packaged(__package__, "generate.yaml")
"""The vocabulary; the file explains its keys."""


def draw(number: int, seed: int = 0) -> tuple[Product, tuple[HumanInstruction, ...]]:
    """One product and its instructions."""
    line = _line(number // LINE, seed)
    rng = random.Random(f"webshop/{seed}/{number}")
    family, query = line.family, line.family["query"]
    noun = " ".join((line.kind, family["noun"]))
    attributes = tuple(rng.sample(line.attributes, rng.randint(2, 3)))
    named, unnamed = attributes[:-1], attributes[-1]
    filled = {
        "brand": line.brand,
        "product": noun,
        "noun": family["noun"],
        "use": rng.choice(family["uses"]),
        "first": named[0],
        "second": named[-1],
        "told": unnamed,
    }
    titles = WORDS["titles_with_one"] if len(named) == 1 else WORDS["titles_with_two"]
    title = rng.choice(titles).format(**filled)
    description, bullets = _texts(rng, filled)
    label, price_range = _price(rng, family)
    asked = tuple(rng.sample(attributes, rng.randint(1, 2))) if number < INSTRUCTED else ()
    options = {}
    for name in line.groups:
        values = WORDS["options"][name]  # in page order
        options[name] = tuple(sorted(rng.sample(values, rng.randint(2, 4)), key=values.index))
    product = Product(
        asin=asin(number),
        title=" ".join(w if w == "and" else w[0].upper() + w[1:] for w in title.split(" ")),
        description=description,
        bullets=bullets,
        price_label=label,
        price_range=price_range,
        price=price_range[0],
        category=family["category"],
        product_category=" › ".join(
            (WORDS["departments"][family["category"]], query.title(), noun.title())
        ),
        query=query,
        options=options,
        attributes=attributes,
        instruction=f"Find me {', '.join(asked)} {query}" if asked else None,
        instruction_attributes=asked,
    )
    return product, _instructions(rng, product, noun) if asked else ()


@dataclass(frozen=True)
class _Line:
    """The common properties of the products of a line."""

    family: Mapping[str, Any]
    kind: str
    brand: str
    attributes: tuple[str, ...]
    groups: tuple[str, ...]


@lru_cache(maxsize=64)
def _line(number: int, seed: int) -> _Line:
    rng = random.Random(f"webshop/{seed}/line/{number}")
    family = rng.choice(WORDS["families"])
    most = len(family["groups"])
    groups = rng.sample(family["groups"], rng.choices(range(most + 1), _GROUPS[: most + 1])[0])
    pool = (*WORDS["common_attributes"][family["category"]], *family["attributes"])
    return _Line(
        family=family,
        kind=rng.choice(family["kinds"]),
        brand=rng.choice(WORDS["brands"]),
        attributes=tuple(rng.sample(pool, 4)),
        groups=tuple(sorted(groups, key=family["groups"].index)),
    )


def asin(number: int) -> str:
    """The key of a product: two syllables and two numbers, such as ``KAN42RUL17``.

    Keys are unique for all numbers below 8 million. The first 16,384 keys use 16 syllables and 16
    numbers, so an agent that reads keys syllable by syllable has few symbols to learn.
    """
    base, below = next((base, below) for base, below, above in _ASIN_LEVELS if number < above)
    lead = base // 2 if below else base
    capacity = lead * base**3
    code = (number - below) * (int(capacity * 0.618) | 1) % capacity
    digits = []
    for _ in range(3):
        code, digit = divmod(code, base)
        digits.append(digit)
    digits.append(code + base - lead)
    a, b, c, d = reversed(digits)
    return f"{_syllable(a)}{_pair(b)}{_syllable(c)}{_pair(d)}"


def _syllable(digit: int) -> str:
    return (
        _CONSONANTS[digit % 12]
        + "AEIOU"[(digit + digit // 12) % 5]
        + "NRLM"[(digit // 5 + digit // 12) % 4]
    )


def _pair(digit: int) -> int:
    return 10 + digit * 7 % 90


def _texts(rng: random.Random, filled: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    """Description and bullets. One of them names the attribute that the title omits.

    The search engine reads the description and the first bullet only. Therefore one in three of
    these attributes is visible only on the product's features page.
    """
    bullets = rng.sample(WORDS["bullets"], 2)
    place = rng.randrange(3)
    if place < 2:
        bullets.insert(place, WORDS["telling_bullet"].format(**filled))
    descriptions = WORDS["telling_descriptions"] if place == 2 else WORDS["descriptions"]
    return rng.choice(descriptions).format(**filled), tuple(bullets)


def _price(rng: random.Random, family: Mapping[str, Any]) -> tuple[str, tuple[float, ...]]:
    price = round(rng.uniform(*family["price"]), 2)
    if rng.random() >= _RANGED:
        return f"${price}", (price,)
    upper = round(price * rng.uniform(1.2, 1.6), 2)
    return f"${price} to ${upper}", (price, upper)


def _instructions(rng: random.Random, product: Product, noun: str) -> tuple[HumanInstruction, ...]:
    """Instructions for a product; no two request the same attributes and options."""
    drawn: dict[tuple[tuple[str, ...], tuple[str, ...]], HumanInstruction] = {}
    while len(drawn) < _PER_PRODUCT:
        attributes = tuple(rng.sample(product.attributes, rng.randint(1, 2)))
        groups = list(product.options)
        asked = rng.choice((groups, rng.sample(groups, min(len(groups), 1))))
        names = [name for name in groups if name in asked]
        values = tuple(rng.choice(product.options[name]) for name in names)
        wordings = [
            WORDS["option_wordings"][name].format(value)
            for name, value in zip(names, values, strict=True)
        ]
        text = rng.choice(WORDS["instructions"]).format(
            a="{a}", product=noun, attributes=" and ".join(attributes), options=" ".join(wordings)
        )
        sentence = _tidy(text)
        drawn.setdefault(
            (tuple(sorted(attributes)), values), HumanInstruction(sentence, attributes, values)
        )
    return tuple(drawn.values())


def _tidy(text: str) -> str:
    """Sets the article and removes the gaps of missing options."""
    text = " ".join(text.split()).replace(" ,", ",").replace(" ?", "?").rstrip(", ")
    before, _, after = text.partition("{a} ")
    article = "an" if after[0] in "aeiou" else "a"
    return f"{before}{article} {after}"
