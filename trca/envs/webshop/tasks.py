"""Tasks of WebShop: goals of a shopper, their splits, and ids that contain a hash of the goals."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import Final

from trca.common.names import unknown
from trca.common.shared import SharedTuple, named
from trca.envs.panel import Tasks
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
        asin: The product that the goal was made from, which also gives the next four fields.
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
    weight: float = 1.0


@lru_cache(8)
def make_goals(
    catalogue: Catalogue, kind: str = "human", seed: int = 0, compat: Compat = "clean"
) -> SharedTuple[Goal]:
    """All goals of a catalogue in shuffled order, cached per process.

    Goals are ``human``, the instructions of people, or ``synthetic``, one goal per choice of
    options. With ``compat="original"``, the price bounds continue the random stream of the
    catalogue's prices. With ``clean``, each bound depends on the seed, the product and the number
    of its instruction only.
    """
    in_order = quirks_of(compat).prices_in_order
    if kind not in KINDS:
        raise unknown("goals", kind, KINDS)
    stream = random.Random(seed)
    for _ in range(catalogue.ranged if in_order else 0):
        stream.random()  # the original's only stream starts with the prices of the catalogue

    def draw(product: Product, number: int) -> float:
        """The larger of two draws from the next four round prices, if there are two."""
        rng = stream if in_order else random.Random(f"{seed}/{product.asin}/{number}")
        above = [bound for bound in _BOUNDS if bound > product.price][:4]
        return max(rng.sample(above, 2)) if len(above) >= 2 else NO_BOUND

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


def _goal(
    product: Product,
    instruction: str,
    attributes: tuple[str, ...],
    price_upper: float,
    names: tuple[str, ...],
    options: tuple[str, ...],
) -> Goal:
    """The goal of a product, with the price bound in the instruction."""
    if price_upper != NO_BOUND:
        instruction += f", and price lower than {price_upper:.2f} dollars"
    about = (product.asin, product.category, product.query, product.title, product.product_category)
    return Goal(*about, instruction, attributes, price_upper, names, options)


def _human(catalogue: Catalogue, draw: _Draw) -> Iterator[Goal]:
    for asin, instructions in catalogue.human_instructions.items():
        product = catalogue[catalogue.position(asin)]
        for number, human in enumerate(instructions):
            if human.attributes:
                text, attributes = human.instruction.strip("."), human.attributes
                yield _goal(product, text, attributes, draw(product, number), (), human.options)


def _synthetic(catalogue: Catalogue, draw: _Draw) -> list[Goal]:
    goals = []
    for position in catalogue.instructed:
        product = catalogue[position]
        price_upper = draw(product, 0)
        attributes = product.instruction_attributes
        names = tuple(sorted(product.options))
        for values in itertools.product(*(product.options[name] for name in names)):
            wishes = ", and ".join(f"{n}: {v}" for n, v in zip(names, values, strict=True))
            text = f"{product.instruction}{' with ' + wishes if wishes else ''}"
            goals.append(_goal(product, text, attributes, price_upper, names, values))
    counts = Counter(attribute for goal in goals for attribute in goal.attributes)
    weighted = []
    for goal in goals:
        rarity = 0.0  # a loop: sum() rounds otherwise from Python 3.12 on
        for attribute in goal.attributes:
            rarity += 1.0 / counts[attribute]
        weighted.append(replace(goal, weight=rarity / len(goal.attributes)))
    return weighted


SPLIT_RULES: Final = {
    "by-product": {"train": range(200, 1000), "validation": range(100), "test": range(100, 200)},
    "original": {"train": range(1500, sys.maxsize), "eval": range(500, 1500), "test": range(500)},
    "verl-agent": {"train": range(500, sys.maxsize), "validation": range(500)},
}
"""Split rule -> split -> numbers of its goals.

With ``by-product``, the number is a hash of the ASIN modulo 1000, which puts all goals of a product
into one split. With the further rules, the number is the index after the shuffle.
"""


def split_of(goals: Sequence[Goal], rule: str, split: str) -> tuple[int, ...]:
    """The indices of a split's goals, ascending; a ValueError if unknown or empty."""
    if rule not in SPLIT_RULES:
        raise unknown("split rule", rule, SPLIT_RULES)
    splits = SPLIT_RULES[rule]
    if split not in splits:
        raise unknown(f"split of split rule {rule!r}", split, splits)
    indices = tuple(
        index
        for index, goal in enumerate(goals)
        if (_thousandth(goal.asin) if rule == "by-product" else index) in splits[split]
    )
    if not indices:
        alternative = "a larger catalogue" if rule == "by-product" else "split_rule 'by-product'"
        raise ValueError(
            f"split {split!r} of split rule {rule!r} is empty: there are {len(goals)} goals; "
            f"choose {alternative}"
        )
    return indices


def _thousandth(asin: str) -> int:
    return int.from_bytes(hashlib.sha256(asin.encode()).digest()[:8], "big") % 1000


@lru_cache(16)
def tasks_of(
    catalogue: Catalogue, kind: str, seed: int, compat: Compat, rule: str, split: str
) -> Tasks[int]:
    """The indices of a split's goals by task id, cached per process.

    An id such as ``human-90225d4f/train/00012`` has the kind of goals, a hash of the catalogue with
    its prices and goals, the split, and the index of the goal in `make_goals`. Therefore equal ids
    mean equal tasks, and the hash of a panel covers everything that its tasks depend on.
    """
    goals = make_goals(catalogue, kind, seed, compat)
    content = hashlib.sha256(f"{catalogue.hash}/{goals_hash(goals)}".encode()).hexdigest()[:8]
    indices = {f"{kind}-{content}/{split}/{i:05d}": i for i in split_of(goals, rule, split)}
    return named(Tasks(split, indices), tasks_of, catalogue, kind, seed, compat, rule, split)
