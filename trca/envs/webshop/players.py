"""The players of WebShop: an oracle that reads the hidden goal, a demonstrator that does not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from trca.envs.text_env import OracleError
from trca.envs.webshop.beliefs import Beliefs
from trca.envs.webshop.binding import bind, query_words
from trca.envs.webshop.data.catalogue import Catalogue
from trca.envs.webshop.data.products import document
from trca.envs.webshop.pages import PAGE_SIZE
from trca.envs.webshop.reading import clickable
from trca.envs.webshop.simulator import DONE, HITS, ITEM, RESULTS, SEARCH, SUB, Simulator
from trca.envs.webshop.tasks import Goal


def oracle_action(simulator: Simulator) -> str:
    """The next action of a short plan for score 1, from any page.

    The plan buys the product that the goal was made from. There is no plan after a purchase, if no
    query finds the product, or if its options do not permit score 1.
    """
    if simulator.page == DONE:
        raise OracleError("no plan after a purchase: reset the environment")
    if simulator.product is not None and simulator.product.asin == simulator.goal.asin:
        return _finish(simulator) if simulator.page == ITEM else "click[< prev]"
    query, page = best_query(simulator.catalogue, simulator.goal)
    if simulator.page == SEARCH:
        return f"search[{query}]"
    # Pages from this results page to the product's; `HITS` if the product is on no page.
    position, turns = simulator.catalogue.position(simulator.goal.asin), HITS
    if position in simulator.hits:
        turns = simulator.hits.index(position) // PAGE_SIZE + 1 - simulator.number
    leaving = {RESULTS: 0, ITEM: 1, SUB: 2}[simulator.page]
    if leaving + abs(turns) >= 2 + page - 1:
        return "click[back to search]"
    if simulator.page != RESULTS:
        return "click[< prev]"
    if turns:
        return f"click[{'next >' if turns > 0 else '< prev'}]"
    return f"click[{simulator.goal.asin.lower()}]"


@lru_cache(maxsize=4096)
def best_query(catalogue: Catalogue, goal: Goal) -> tuple[str, int]:
    """A query that finds the goal's product, and the number of the results page with this product.

    The first of a few candidates with the product on page 1, else the one with the lowest page.
    """
    position = catalogue.position(goal.asin)
    product = catalogue[position]
    words = " ".join(query_words(bind(goal.instruction)))
    best = ("", HITS)
    for query in (words, f"{words} {product.title}", product.title, document(product)):
        hits = catalogue.search(query.lower(), HITS)
        if position in hits:
            page = hits.index(position) // PAGE_SIZE + 1
            best = min(best, (query.lower(), page), key=lambda candidate: candidate[1])
        if best[1] == 1:
            break
    if not best[0]:
        raise OracleError(f"no query finds product {goal.asin!r}")
    return best


def _finish(simulator: Simulator) -> str:
    """On the product's page: the next option to choose, else the purchase."""
    chosen = dict(simulator.options)
    score = simulator.worth(chosen)
    if score.total == 1.0:
        return "click[buy now]"
    for name, (group, value) in simulator.choices.items():
        better = simulator.worth({**chosen, group: value})
        if (better.r_option or 0.0) > (score.r_option or 0.0):
            return f"click[{name}]"
    raise OracleError(f"product {simulator.goal.asin!r} has no options with score 1")


def demonstrated_action(beliefs: Beliefs, admissible: Sequence[str]) -> str:
    """Searches for the instruction, opens the best match, chooses its options and buys it.

    The value of a product is the number of the instruction's words that it has shown, if only in
    its title. Works after any sequence of actions.
    """
    match beliefs.view.page:
        case "search":
            return f"search[{_query(beliefs)}]"
        case "results":
            choice = _results(beliefs)
        case "item":
            choice = _item(beliefs)
        case "detail":
            choice = "< prev"
        case "done":
            choice = ""
    clicks = clickable(admissible)
    if choice not in clicks:
        choice = "back to search"
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
        return "next >"
    return here[-max(worth)[1]]


def _item(beliefs: Beliefs) -> str:
    """Leaves for a better known product, or chooses the next option, or buys."""
    asin = beliefs.product
    worth = _worth(beliefs, asin)
    if worth < 0 or any(_worth(beliefs, rival) > worth for rival in beliefs.listed):
        return "< prev"
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
