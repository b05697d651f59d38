"""A sensible next action from what an agent could have observed: the warm start's demonstrator."""

from __future__ import annotations

from collections.abc import Sequence

from trca.envs.webshop.actions import clickable
from trca.envs.webshop.beliefs import Beliefs
from trca.envs.webshop.binding import query_words

_BACK, _NEXT, _PREVIOUS = "back to search", "next >", "< prev"


def demonstrated_action(beliefs: Beliefs, admissible: Sequence[str]) -> str:
    """Searches by the instruction, goes to what fits it best, chooses its options and buys it.

    A product is worth the words of the instruction that it has shown; its title may be all that
    was seen of it. Copes with whatever was done before.

    Args:
        beliefs: The episode as observed so far.
        admissible: The actions that would be accepted now; the answer is one of them, with a query
            in place of the search's blank.
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
    """The words of the instruction; where that was searched for, ever fewer of them."""
    words = query_words(beliefs.binding) or ("gift",)
    lengths = range(len(words), 0, -1)
    queries = [" ".join(words[:length]) for length in lengths]
    return next((query for query in queries if query not in beliefs.queries), queries[0])


def _results(beliefs: Beliefs) -> str:
    """The product to look at, or where to look for one."""
    here = [listing.asin for listing in beliefs.view.listings]
    worth = [(_worth(beliefs, asin), -place) for place, asin in enumerate(here)]
    if not worth or max(worth)[0] <= 0:
        return _NEXT
    return here[-max(worth)[1]]


def _item(beliefs: Beliefs) -> str:
    """Back to something better that is known, else the next option to choose, else the purchase."""
    asin = beliefs.product
    worth = _worth(beliefs, asin)
    if worth < 0 or any(_worth(beliefs, other) > worth for other in beliefs.listed):
        return _PREVIOUS
    for group in beliefs.missing:
        values = beliefs.now.wanted[group]
        return next(o.name for o in beliefs.view.options if o[:2] == (group, values[0]))
    return "buy now"


def _worth(beliefs: Beliefs, asin: str) -> int:
    """Words of the instruction that a product has shown; -1 where it is too dear."""
    opened = beliefs.opened.get(asin)
    listing = opened.listing if opened else beliefs.listed[asin]
    if not beliefs.affordable(listing):
        return -1
    return len(opened.words) if opened else beliefs.matches[asin]
