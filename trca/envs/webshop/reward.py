r"""The score of a purchase, with all its parts.

For a product P bought at its price with options C, and a goal G:

    score = r_type (n_att + n_opt + [price <= price_upper]) / (|attributes| + |options| + 1)

- r_type is 1 if the queries are equal, two categories are shared, or the title score is above 0.2;
  else 0.5. r_type is 0.1 if the title score is below 0.1, and 0 if it is 0.
- title score: |N(P) & N(G)| / len(N(G)). N are the nouns of the title (`noun_extractor`); the
  divisor counts repeats. 0.2 if the goal's title has no nouns.
- n_att: number of goal attributes that match (`says_the_same`) an attribute of P or occur in P's
  text.
- n_opt: number of goal options that match a chosen value, with colours reduced to their names.

Noun extractors, the configurable part of the score:

- ``simple`` (default): word lists and suffixes for product titles; no dependencies;
- ``recorded``: every token that starts with a letter, as in the reference recordings;
- ``spacy`` or ``spacy:<model>``: the original's extractor; default model ``en_core_web_lg``.

Scores with different extractors are not comparable, so results record the extractor.

Source: ``web_agent_site/engine/goal.py`` of princeton-nlp/WebShop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import Any, Final

from trca.common.names import unknown
from trca.common.strict_yaml import packaged
from trca.envs.webshop.compat import Quirks
from trca.envs.webshop.data.products import Product
from trca.envs.webshop.tasks import Goal

Nouns = Callable[[str], tuple[str, ...]]
"""From a title to its nouns, in lower case, in order, with repeats."""

NOUNS: Final = ("simple", "recorded", "spacy")
_TITLES: Final = 8192

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
_WORD: Final = re.compile(r"[^\W\d_]\w*")
_ENDINGS: Final = ("able", "ed", "ful", "ible", "ish", "less", "ly", "like", "most", "ous", "proof")
"""Endings of adjectives, participles and adverbs; ``nouns.yaml`` has nouns with these endings."""

_DELETED: Final = dict.fromkeys(range(128, 256))
_NOT_WORD: Final = re.compile(r"\W")
_PAIRS: Final = 2**15

_WORDS: Final = packaged(__package__, "nouns.yaml")
_FUNCTION, _ADJECTIVES, _NOUNS = (
    frozenset(_WORDS[kind]) for kind in ("function", "adjectives", "nouns")
)
COLOURS: Final = tuple(_WORDS["colours"])
"""Colour names that replace option values, in the order of the search (``COLOR_SET`` of
princeton-nlp/WebShop, MIT)."""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a purchase; the equation of the module has its parts.

    ``r_option`` is None for a goal without options.
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
    """Scores the purchase of a product with a chosen value by option group."""
    query_match = product.query == goal.query
    category_match = len(_parts(product.product_category) & _parts(goal.product_category)) >= 2
    goal_nouns, title_score = nouns(goal.title), 0.2
    if goal_nouns:
        title_score = len({*nouns(product.title)} & {*goal_nouns}) / len(goal_nouns)
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


def recorded_nouns(title: str) -> tuple[str, ...]:
    """Every token that starts with a letter."""
    return tuple(t.lower() for t in _TOKEN.findall(title) if t[0].isalpha())


def simple_nouns(title: str) -> tuple[str, ...]:
    """The words of a title without function words, adjectives, adverbs and participles.

    If no word remains, the last content word, since an English phrase ends with its head.
    """
    words = [word.lower() for word in _WORD.findall(title)]
    content = [word for word in words if word not in _FUNCTION and len(word) > 1]
    nouns = tuple(
        word
        for word in content
        if word not in _ADJECTIVES
        and (len(word) <= 4 or not word.endswith(_ENDINGS) or word in _NOUNS)
    )
    return nouns or tuple(content[-1:])


@cache
def noun_extractor(name: str = "simple") -> Nouns:
    """The extractor with this name, which caches recent titles.

    Raises:
        ValueError: For an unknown name.
        ModuleNotFoundError: If spaCy or its model is missing. The message has the install command.
    """
    kind, _, model = name.partition(":")
    if name in ("simple", "recorded"):
        return lru_cache(_TITLES)(simple_nouns if name == "simple" else recorded_nouns)
    if kind == "spacy":
        return lru_cache(_TITLES)(_spacy_nouns(model or "en_core_web_lg"))
    raise unknown("nouns", name, (*NOUNS, "spacy:<model>"))


def _spacy_nouns(model: str) -> Nouns:
    try:
        import spacy

        parse: Any = spacy.load(model)
    except (ImportError, OSError) as error:
        raise ModuleNotFoundError(
            f"nouns 'spacy' need spaCy and its model {model!r}: pip install spacy, then python "
            f"-m spacy download {model}; or choose nouns 'simple'"
        ) from error
    tags = ("PNOUN", "NOUN", "PROPN")
    return lambda title: tuple(word.text.lower() for word in parse(title) if word.pos_ in tags)


@lru_cache(_PAIRS)
def colour_or_self(value: str) -> str:
    """The first of `COLOURS` that is a substring of the value, else the value."""
    return next((colour for colour in COLOURS if colour in value), value)


@lru_cache(_PAIRS)
def says_the_same(first: str, second: str) -> bool:
    """Whether ``token_set_ratio(first, second)`` of thefuzz 0.19 is above 85.

    thefuzz uses `difflib`, which is slow and differs from faster libraries in some cases. This
    function gives the same answer and runs `difflib` only if cheaper bounds do not decide.
    """
    tokens1, tokens2 = _tokens(first), _tokens(second)
    if not tokens1 or not tokens2:
        return False
    shared = tokens1 & tokens2
    if shared and (tokens1 == shared or tokens2 == shared):
        return True
    common = " ".join(sorted(shared))
    full1 = f"{common} {' '.join(sorted(tokens1 - shared))}".strip()
    full2 = f"{common} {' '.join(sorted(tokens2 - shared))}".strip()
    if common and (_close(common, full1) or _close(common, full2)):
        return True
    return _close(full1, full2)


@lru_cache(_PAIRS)
def _tokens(phrase: str) -> frozenset[str]:
    return frozenset(_NOT_WORD.sub(" ", phrase.translate(_DELETED)).lower().split())


def _close(first: str, second: str) -> bool:
    """Whether difflib's ratio in percent, rounded half to even, is above 85."""
    matcher = SequenceMatcher(None, first, second)
    return all(
        round(100 * ratio()) > 85
        for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
    )
