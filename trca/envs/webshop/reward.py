r"""The score of a purchase, with all its parts.

For a product P bought at its price with options C, and a goal G:

    score = r_type (n_att + n_opt + [price <= price_upper]) / (|attributes| + |options| + 1)

- r_type is 1; 0.5 unless the queries are equal, two categories are shared, or the title score is
  above 0.2; 0.1 when the title score is below 0.1; 0 when it is 0.
- title score: |N(P) & N(G)| / len(N(G)), N the nouns of the title (`nouns`), where the divisor
  counts repeats; 0.2 when the goal's title has none.
- n_att: goal attributes that say the same (`fuzzy`) as one of P's, or that occur in P's text.
- n_opt: goal options that say the same as a chosen value, colours reduced to their names.

Source: ``web_agent_site/engine/goal.py`` of princeton-nlp/WebShop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from trca.envs.webshop.compat import Quirks
from trca.envs.webshop.data.nouns import Nouns
from trca.envs.webshop.data.products import Product
from trca.envs.webshop.fuzzy import COLOURS, colour_or_self, says_the_same
from trca.envs.webshop.goals import Goal


@dataclass(frozen=True, slots=True)
class Score:
    """What a purchase is worth.

    Attributes:
        total: The score, from 0 to 1; 1 is success.
        r_type: Factor for the kind of product.
        r_att: Share of the goal's attributes that the product has.
        r_option: Share of the goal's options that were chosen; None when it asks for none.
        r_price: Whether the price is within the goal's bound.
        title_score: Share of the goal's title nouns in the product's title.
        query_match: Whether both products belong to the same search phrase.
        category_match: Whether they share two categories.
    """

    total: float
    r_type: float
    r_att: float
    r_option: float | None
    r_price: bool
    title_score: float
    query_match: bool
    category_match: bool


def score_purchase(
    product: Product, options: Mapping[str, str], goal: Goal, nouns: Nouns, quirks: Quirks
) -> Score:
    """Scores a purchase.

    Args:
        product: What was bought.
        options: Group -> the chosen value.
        goal: What was asked for.
        nouns: The noun extractor.
        quirks: How goal options with a group name are compared.
    """
    query_match = product.query == goal.query
    category_match = len(_parts(product.product_category) & _parts(goal.product_category)) >= 2
    title_score = _title_score(product.title, goal.title, nouns)
    matches = query_match or category_match or title_score > 0.2
    r_type = 1.0 if matches else 0.5
    if title_score < 0.1:
        r_type = 0.1 if title_score else 0.0

    attributes = sum(_has(product, attribute) for attribute in goal.attributes)
    chosen = _chosen(options, goal, quirks)
    r_price = product.price <= goal.price_upper
    parts = len(goal.attributes) + len(goal.options) + 1
    return Score(
        total=(attributes + chosen + r_price) / parts * r_type,
        r_type=r_type,
        r_att=attributes / len(goal.attributes),
        r_option=chosen / len(goal.options) if goal.options else None,
        r_price=r_price,
        title_score=title_score,
        query_match=query_match,
        category_match=category_match,
    )


@lru_cache(4096)
def _parts(product_category: str) -> frozenset[str]:
    return frozenset(part.strip() for part in product_category.split("›"))


def _title_score(title: str, wanted: str, nouns: Nouns) -> float:
    wanted_nouns = nouns(wanted)
    if not wanted_nouns:
        return 0.2
    return len({*nouns(title)} & {*wanted_nouns}) / len(wanted_nouns)


def _has(product: Product, attribute: str) -> bool:
    return (
        any(says_the_same(own, attribute) for own in product.attributes)
        or attribute in product.title.lower()
        or attribute in " ".join(product.bullets).lower()
        or attribute in product.description.lower()
    )


def _chosen(options: Mapping[str, str], goal: Goal, quirks: Quirks) -> int:
    """How many of the goal's options a chosen value matches, whatever its group."""
    values = [colour_or_self(value) for value in options.values()]
    if quirks.options_as_pairs and goal.option_names:
        pairs = zip(goal.option_names, goal.options, strict=True)
        wanted = [next((c for c in COLOURS if c in pair), str(pair)) for pair in pairs]
    else:
        wanted = [colour_or_self(option) for option in goal.options]
    return sum(any(says_the_same(value, option) for value in values) for option in wanted)
