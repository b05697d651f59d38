"""The oracle of WebShop: reads the hidden goal and plans a short way to score 1."""

from __future__ import annotations

from functools import lru_cache

from trca.envs.webshop.binding import bind, query_words
from trca.envs.webshop.data.catalogue import Catalogue
from trca.envs.webshop.data.products import document
from trca.envs.webshop.goals import Goal
from trca.envs.webshop.pages import PAGE_SIZE
from trca.envs.webshop.simulator import DONE, HITS, ITEM, RESULTS, SEARCH, SUB, Simulator

_BACK, _NEXT, _PREVIOUS, _BUY = (
    f"click[{name}]" for name in ("back to search", "next >", "< prev", "buy now")
)


class OracleError(RuntimeError):
    """The oracle has no plan from the current state."""


def oracle_action(simulator: Simulator) -> str:
    """The next action of a short plan for score 1, from any page.

    The plan buys the product that the goal was made from.

    Raises:
        OracleError: If there is no plan: after a purchase, if no query finds the product, or if its
            options do not permit score 1.
    """
    if simulator.page == DONE:
        raise OracleError("no plan after a purchase: reset the environment")
    if simulator.product is not None and simulator.product.asin == simulator.goal.asin:
        return _finish(simulator) if simulator.page == ITEM else _PREVIOUS
    query, page = best_query(simulator.catalogue, simulator.goal)
    if simulator.page == SEARCH:
        return f"search[{query}]"
    turns = _turns(simulator)
    leaving = {RESULTS: 0, ITEM: 1, SUB: 2}[simulator.page]
    if leaving + abs(turns) >= 2 + page - 1:
        return _BACK
    if simulator.page != RESULTS:
        return _PREVIOUS
    if turns:
        return _NEXT if turns > 0 else _PREVIOUS
    return f"click[{simulator.goal.asin.lower()}]"


@lru_cache(maxsize=4096)
def best_query(catalogue: Catalogue, goal: Goal) -> tuple[str, int]:
    """A query that finds the goal's product, and the number of the results page with this product.

    Candidates are the words of the instruction, these words with the product's title, the title,
    and the indexed text. The first candidate with the product on page 1 is returned, else the
    candidate with the lowest page.

    Raises:
        OracleError: If no candidate finds the product.
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


def _turns(simulator: Simulator) -> int:
    """Number of pages from this results page to the product's; `HITS` if it is on no page."""
    position = simulator.catalogue.position(simulator.goal.asin)
    if position not in simulator.hits:
        return HITS
    return simulator.hits.index(position) // PAGE_SIZE + 1 - simulator.number


def _finish(simulator: Simulator) -> str:
    """On the product's page: the next option to choose, else the purchase."""
    chosen = dict(simulator.options)
    score = simulator.worth(chosen)
    if score.total == 1.0:
        return _BUY
    for name, (group, value) in simulator.choices.items():
        better = simulator.worth({**chosen, group: value})
        if (better.r_option or 0.0) > (score.r_option or 0.0):
            return f"click[{name}]"
    raise OracleError(f"product {simulator.goal.asin!r} has no options with score 1")
