"""The structural context key s~ and the memory line of WebShop, both from observations.

The key has the fields of the paper's table of context information: page type, product identity,
selected options, product attributes and navigation stage. The key is coarse on purpose, because a
context group has few rollouts of one task. Therefore a results page enters by its best match for
the instruction, not by its query.
"""

from __future__ import annotations

from math import ceil

from trca.common.cache import remembered
from trca.envs.adapter import memory_line_of, quoted
from trca.envs.webshop.beliefs import Beliefs
from trca.envs.webshop.binding import singular, words_of
from trca.envs.webshop.reading import Listing, amounts_in


def context_key(beliefs: Beliefs) -> str:
    """The key of the current state, such as ``item|ka-tomi-03|options 1/2+0|words 5|opened``.

    Fields:
        page: ``search``, ``results``, ``item``, ``detail`` or ``done``.
        product: The product on the page. On a results page, the affordable product with the most
            words of the instruction in its title. Else ``none``.
        options: Number of groups with a requested value chosen / number of groups with a requested
            value + number of further chosen options.
        words: Number of the instruction's words that this product has shown.
        stage: ``start`` before a search, ``listed`` before a product is opened, then ``opened``.
    """
    view = beliefs.view
    product, words = beliefs.product, len(beliefs.now.words)
    if view.page == "results":
        product, words = _best(beliefs)
    asked = len(beliefs.now.wanted)
    right = asked - len(beliefs.missing)
    other = len(beliefs.chosen) - right
    stage = "opened" if beliefs.opened else "listed" if beliefs.queries else "start"
    return f"{view.page}|{product or 'none'}|options {right}/{asked}+{other}|words {words}|{stage}"


def memory_line(beliefs: Beliefs) -> str:
    """One line for a reader without memory: the current page and the way to it.

    A title is shortened to the words that it shares with the instruction. A results page is
    shortened to its affordable products. Brackets mark clickable names. Prices are whole dollars,
    rounded up. Examples: ``Page 1 for wool hat: wool hat [mun94per59], hat [val18lon24] seen.`` and
    ``At wool hat $84-104. size: [small] [large]. Chosen small.``
    """
    view, asked = beliefs.view, beliefs.words
    query = quoted(next(reversed(beliefs.queries), ""))
    if view.page == "search":
        parts = [f"Searched {query}." if query else "Nothing searched."]
    elif view.page == "results":
        listed = ", ".join(
            f"{_relevant(each.title, asked)} [{each.asin}]{' seen' * (each.asin in beliefs.opened)}"
            for each in view.listings
            if each.asin in beliefs.affordable_matches
        )
        parts = [f"Page {view.number} for {query}: {listed or 'nothing'}."]
    elif view.page == "item":
        groups: dict[str, list[str]] = {}
        for option in view.options:
            groups.setdefault(option.group, []).append(f"[{option.name}]")
        parts = [f"At {_brief(beliefs.now.listing, asked)}."]
        parts += [f"{group}: {' '.join(names)}." for group, names in groups.items()]
        parts.append(f"Chosen {', '.join(beliefs.chosen.values()) or 'nothing'}.")
    elif view.page == "detail":
        parts = [f"Of {_brief(beliefs.now.listing, asked)}: {view.text}."]
    else:
        parts = ["Bought."]
    return memory_line_of(parts)


def _best(beliefs: Beliefs) -> tuple[str, int]:
    """The affordable product on the page with the most words in its title, and this number."""
    fits = beliefs.affordable_matches
    listed = [listing.asin for listing in beliefs.view.listings if listing.asin in fits]
    best = max(listed, key=fits.__getitem__, default="")
    return best, fits.get(best, 0)


def _relevant(title: str, asked: frozenset[str]) -> str:
    """The words that a title shares with the instruction."""
    return " ".join([word for word, stem in _stemmed(title) if stem in asked]) or "other"


@remembered(entries=16384, longest=500)
def _stemmed(title: str) -> tuple[tuple[str, str], ...]:
    return tuple((word, singular(word)) for word in words_of(title))


def _brief(listing: Listing, asked: frozenset[str]) -> str:
    amounts = "-".join(str(ceil(float(amount))) for amount in amounts_in(listing.price))
    return f"{_relevant(listing.title, asked)}{f' ${amounts}' if amounts else ''}"
