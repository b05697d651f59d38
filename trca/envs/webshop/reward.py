r"""The score of a purchase, with all its parts.

For a product P bought at its price with options C, and a goal G:

    score = r_type (n_att + n_opt + [price <= price_upper]) / (|attributes| + |options| + 1)

- r_type is 1 if the queries are equal, two categories are shared, or the title score is above 0.2;
  else 0.5. r_type is 0.1 if the title score is below 0.1, and 0 if it is 0.
- title score: |N(P) & N(G)| / len(N(G)). N are the nouns of the title (`nouns`); the divisor counts
  repeats. 0.2 if the goal's title has no nouns.
- n_att: number of goal attributes that match (`fuzzy`) an attribute of P or occur in P's text.
- n_opt: number of goal options that match a chosen value, with colours reduced to their names.

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
    """The score of a purchase.

    Attributes:
        total: The score, from 0 to 1; 1 is success.
        r_type: Factor for the type of the product.
        r_att: Share of the goal's attributes that the product has.
        r_option: Share of the goal's options that are chosen; None for a goal without options.
        r_price: Whether the price is within the goal's bound.
        title_score: Share of the goal's title nouns in the product's title.
        query_match: Whether both products have the same search phrase.
        category_match: Whether both products share two categories.
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
        product: The bought product.
        options: Group -> chosen value.
        goal: The goal.
        nouns: The noun extractor.
        quirks: Whether goal options with a group name are compared as pairs.
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


def _title_score(title: str, goal_title: str, nouns: Nouns) -> float:
    goal_nouns = nouns(goal_title)
    if not goal_nouns:
        return 0.2
    return len({*nouns(title)} & {*goal_nouns}) / len(goal_nouns)


def _has(product: Product, attribute: str) -> bool:
    return (
        any(says_the_same(product_attribute, attribute) for product_attribute in product.attributes)
        or attribute in product.title.lower()
        or attribute in " ".join(product.bullets).lower()
        or attribute in product.description.lower()
    )


def _chosen(options: Mapping[str, str], goal: Goal, quirks: Quirks) -> int:
    """Number of the goal's options that match a chosen value of any group."""
    values = [colour_or_self(value) for value in options.values()]
    if quirks.options_as_pairs and goal.option_names:
        pairs = zip(goal.option_names, goal.options, strict=True)
        goal_options = [next((c for c in COLOURS if c in pair), str(pair)) for pair in pairs]
    else:
        goal_options = [colour_or_self(option) for option in goal.options]
    return sum(any(says_the_same(value, option) for value in values) for option in goal_options)
