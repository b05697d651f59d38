"""Goals of a shopper: requested product, price bound and split.

For example::

    goals = make_goals(catalogue, "human", seed=0)
    train = split_of(goals, "by-product", "train")  # positions in goals
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import Final

from trca.common.shared import SharedTuple, named
from trca.envs.webshop.compat import quirks_of
from trca.envs.webshop.data.catalogue import Catalogue, Compat
from trca.envs.webshop.data.products import Product

KINDS: Final = ("human", "synthetic")
SHUFFLE_SEED: Final = 233
"""The order of the goals is the original's for every seed, so that seeds never mix the splits."""
NO_BOUND: Final = 1_000_000.0
_BOUNDS: Final = tuple(10.0 * step for step in range(1, 100))


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a task.

    Attributes:
        asin: The product that the goal was made from.
        category: Category of this product.
        query: Search phrase of this product.
        title: Title of this product.
        product_category: Path of categories of this product.
        instruction: The task in words, with the price bound.
        attributes: The requested attributes; at least one.
        price_upper: The price bound, in dollars.
        option_names: Groups of the options; for synthetic goals only.
        options: The requested option values.
        weight: Sampling weight of the original.
    """

    asin: str
    category: str
    query: str
    title: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    price_upper: float
    option_names: tuple[str, ...]
    options: tuple[str, ...]
    weight: float


@lru_cache(8)
def make_goals(
    catalogue: Catalogue, kind: str = "human", seed: int = 0, compat: Compat = "clean"
) -> SharedTuple[Goal]:
    """All goals of a catalogue in shuffled order, cached per process.

    Args:
        catalogue: The products.
        kind: ``human`` for the instructions of people, ``synthetic`` for one goal per choice of
            options.
        seed: Seed of the price bounds. With ``compat="original"``, the bounds continue the random
            stream of the catalogue's prices. With ``clean``, each bound depends on the seed, the
            product and the number of its instruction only.
        compat: ``clean`` or ``original``.

    Raises:
        ValueError: For an unknown name, or a catalogue without such goals.
    """
    quirks = quirks_of(compat)
    if kind not in KINDS:
        raise ValueError(f"unknown goals {kind!r}: choose {' or '.join(KINDS)}")
    draw = _one_stream(catalogue, seed) if quirks.prices_in_order else _by_product(seed)
    goals = list(_human(catalogue, draw) if kind == "human" else _synthetic(catalogue, draw))
    if not goals:
        available_kind = KINDS[kind == "human"]
        raise ValueError(f"the catalogue has no {kind} goals: choose goals={available_kind!r}")
    random.Random(SHUFFLE_SEED).shuffle(goals)
    return named(SharedTuple(goals), make_goals, catalogue, kind, seed, compat)


@lru_cache(8)
def goals_hash(goals: tuple[Goal, ...]) -> str:
    """Sixteen hex digits, equal for equal goals, price bounds and order."""
    digest = hashlib.sha256()
    for goal in goals:
        digest.update(json.dumps(astuple(goal), ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()[:16]


_Draw = Callable[[Product, int], float]
"""From a product and the number of its instruction to a price bound."""


def _one_stream(catalogue: Catalogue, seed: int) -> _Draw:
    """The original's draw: one stream, which starts with the prices of the catalogue."""
    rng = random.Random(seed)
    for _ in range(catalogue.ranged):
        rng.random()
    return lambda product, number: _price_upper(product.price, rng)


def _by_product(seed: int) -> _Draw:
    return lambda product, number: _price_upper(
        product.price, random.Random(f"{seed}/{product.asin}/{number}")
    )


def _price_upper(price: float, rng: random.Random) -> float:
    """The larger of two draws from the next four round prices; `NO_BOUND` for fewer than two."""
    above = [bound for bound in _BOUNDS if bound > price][:4]
    return max(rng.sample(above, 2)) if len(above) >= 2 else NO_BOUND


def _price_text(price_upper: float) -> str:
    if price_upper == NO_BOUND:
        return ""
    return f", and price lower than {price_upper:.2f} dollars"


def _goal(product: Product, attributes: tuple[str, ...], price_upper: float) -> Goal:
    return Goal(
        asin=product.asin,
        category=product.category,
        query=product.query,
        title=product.title,
        product_category=product.product_category,
        instruction="",
        attributes=attributes,
        price_upper=price_upper,
        option_names=(),
        options=(),
        weight=1.0,
    )


def _human(catalogue: Catalogue, draw: _Draw) -> Iterator[Goal]:
    for asin, instructions in catalogue.human_instructions.items():
        product = catalogue[catalogue.position(asin)]
        for number, human in enumerate(instructions):
            if human.attributes:
                price_upper = draw(product, number)
                yield replace(
                    _goal(product, human.attributes, price_upper),
                    instruction=human.instruction.strip(".") + _price_text(price_upper),
                    options=human.options,
                )


def _synthetic(catalogue: Catalogue, draw: _Draw) -> list[Goal]:
    goals = []
    for position in catalogue.instructed:
        product = catalogue[position]
        price_upper = draw(product, 0)
        goal = _goal(product, product.instruction_attributes, price_upper)
        names = tuple(sorted(product.options))
        for values in itertools.product(*(product.options[name] for name in names)):
            wishes = ", and ".join(f"{n}: {v}" for n, v in zip(names, values, strict=True))
            text = f"{product.instruction}{' with ' + wishes if wishes else ''}"
            text += _price_text(price_upper)
            goals.append(replace(goal, instruction=text, option_names=names, options=values))
    counts = Counter(attribute for goal in goals for attribute in goal.attributes)
    return [
        replace(goal, weight=sum(1.0 / counts[a] for a in goal.attributes) / len(goal.attributes))
        for goal in goals
    ]


def _thousandth(asin: str) -> int:
    return int.from_bytes(hashlib.sha256(asin.encode()).digest()[:8], "big") % 1000


def _by_index(first: int, last: int | None) -> Callable[[int, Goal], bool]:
    return lambda index, goal: first <= index and (last is None or index < last)


def _by_asin(first: int, last: int) -> Callable[[int, Goal], bool]:
    return lambda index, goal: first <= _thousandth(goal.asin) < last


SPLIT_RULES: Final = {
    "by-product": {
        "train": _by_asin(200, 1000),
        "validation": _by_asin(0, 100),
        "test": _by_asin(100, 200),
    },
    "original": {
        "train": _by_index(1500, None),
        "eval": _by_index(500, 1500),
        "test": _by_index(0, 500),
    },
    "verl-agent": {"train": _by_index(500, None), "validation": _by_index(0, 500)},
}
"""Split rule -> split -> whether the goal at an index is in the split.

``by-product`` puts all goals of a product into one split, which depends on its ASIN only.
Validation and test get a tenth each. The further rules use the index after the shuffle.
"""


def split_of(goals: Sequence[Goal], rule: str, split: str) -> tuple[int, ...]:
    """The indices of a split's goals, ascending.

    Raises:
        ValueError: For an unknown name or an empty split. The message names alternatives.
    """
    if rule not in SPLIT_RULES:
        raise ValueError(f"unknown split rule {rule!r}: choose {', '.join(SPLIT_RULES)}")
    splits = SPLIT_RULES[rule]
    if split not in splits:
        raise ValueError(
            f"unknown split {split!r} of split rule {rule!r}: choose {', '.join(splits)}"
        )
    indices = tuple(index for index, goal in enumerate(goals) if splits[split](index, goal))
    if not indices:
        alternative = "a larger catalogue" if rule == "by-product" else "split_rule 'by-product'"
        raise ValueError(
            f"split {split!r} of split rule {rule!r} is empty: there are {len(goals)} goals; "
            f"choose {alternative}"
        )
    return indices
