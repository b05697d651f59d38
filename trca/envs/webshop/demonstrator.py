"""The demonstrator of WebShop: sensible actions for the warm start, from observations only."""

from __future__ import annotations

from collections.abc import Sequence

from trca.envs.webshop.beliefs import Beliefs
from trca.envs.webshop.binding import query_words
from trca.envs.webshop.reading import clickable

_BACK, _NEXT, _PREVIOUS = "back to search", "next >", "< prev"


def demonstrated_action(beliefs: Beliefs, admissible: Sequence[str]) -> str:
    """Searches for the instruction, opens the best match, chooses its options and buys it.

    The value of a product is the number of the instruction's words that it has shown, if only in
    its title. Works after any sequence of actions.

    Args:
        beliefs: The episode as observed so far.
        admissible: The admissible actions. The result is one of them, with a query in place of the
            placeholder in a search.
    """
    match beliefs.view.page:
        case "search":
            return f"search[{_query(beliefs)}]"
        case "results":
            choice = _results(beliefs)
        case "item":
            choice = _item(beliefs)
        case "detail":
            choice = _PREVIOUS
        case "done":
            choice = ""
    clicks = clickable(admissible)
    if choice not in clicks:
        choice = _BACK
    return f"click[{choice}]" if choice in clicks else admissible[0] if admissible else ""


def _query(beliefs: Beliefs) -> str:
    """The words of the instruction; after each search, one word fewer."""
    words = query_words(beliefs.binding) or ("gift",)
    lengths = range(len(words), 0, -1)
    queries = [" ".join(words[:length]) for length in lengths]
    return next((query for query in queries if query not in beliefs.queries), queries[0])


def _results(beliefs: Beliefs) -> str:
    """The product to open, or a button that leads to further products."""
    here = [listing.asin for listing in beliefs.view.listings]
    worth = [(_worth(beliefs, asin), -place) for place, asin in enumerate(here)]
    if not worth or max(worth)[0] <= 0:
        return _NEXT
    return here[-max(worth)[1]]


def _item(beliefs: Beliefs) -> str:
    """Leaves for a better known product, or chooses the next option, or buys."""
    asin = beliefs.product
    worth = _worth(beliefs, asin)
    if worth < 0 or any(_worth(beliefs, rival) > worth for rival in beliefs.listed):
        return _PREVIOUS
    for group in beliefs.missing:
        values = beliefs.now.wanted[group]
        return next(o.name for o in beliefs.view.options if o[:2] == (group, values[0]))
    return "buy now"


def _worth(beliefs: Beliefs, asin: str) -> int:
    """Number of the instruction's words that a product has shown; -1 if too expensive."""
    opened = beliefs.opened.get(asin)
    listing = opened.listing if opened else beliefs.listed[asin]
    if not beliefs.affordable(listing):
        return -1
    return len(opened.words) if opened else beliefs.matches[asin]
