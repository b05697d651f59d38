"""Draws the pages of a recorded WebShop episode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from trca.envs.drawing import Cell, Turn, followed
from trca.envs.webshop.adapter import WebShopAdapter
from trca.envs.webshop.beliefs import Beliefs
from trca.envs.webshop.pages import BACK, BUY, NEXT, PREVIOUS, SUB_PAGES
from trca.envs.webshop.reading import SEARCH_OFFER, Listing

_BUTTON: Final = re.compile(r"\[(?:clicked )?button\] (.*) \[(?:clicked )?button_\]")
_GROUP: Final = re.compile(
    "capacity|color|edition|flavor|format|item shape|length|material|pack|pattern|scent|shape|size"
    "|style|volume|width|.* (?:name|quantity|type)"
)
"""Usual names of option groups. The mode ``text`` does not mark the groups of a page."""


def draw_shop(instruction: str, turns: Sequence[Turn]) -> list[list[Cell]]:
    """The search box, the results, or the product with its options and the chosen values."""
    adapter = WebShopAdapter()
    return [_page(adapter.beliefs) for _ in followed(adapter, instruction, turns, _clickable)]


def _page(beliefs: Beliefs) -> list[Cell]:
    view, (_, title, price) = beliefs.view, beliefs.now.listing
    product: Cell = {"name": title, "note": price, "wide": True, "mark": "here"}
    match view.page:
        case "search":
            return [{"name": "search", "note": "the search box", "wide": True}]
        case "results":
            query = next(reversed(beliefs.queries), "")
            box: Cell = {"name": "search", "note": f"page {view.number}", "lines": [query]}
            return [{**box, "wide": True}, *(_listed(beliefs, each) for each in view.listings)]
        case "item":
            return [product, *(_group(beliefs, *each) for each in view.groups.items())]
        case "detail":
            return [product, {"name": "details", "lines": [view.text], "wide": True}]
        case "done":
            return [{**product, "note": "bought", "items": [*beliefs.chosen.values()]}]


def _listed(beliefs: Beliefs, listing: Listing) -> Cell:
    seen = listing.asin in beliefs.opened
    note = f"{listing.price}, seen" if seen else listing.price
    cell: Cell = {"name": listing.title, "note": note, "items": [listing.asin]}
    return {**cell, "mark": "faint"} if seen else cell


def _group(beliefs: Beliefs, name: str, values: Sequence[str]) -> Cell:
    chosen = [value for value in values if value == beliefs.chosen.get(name)]
    return {"name": name, "items": values, "chosen": chosen}


def _clickable(observation: str) -> list[str]:
    """The admissible actions of a page, as far as its text shows them."""
    names = _BUTTON.findall(observation)
    if not names:
        parts = [part.strip() for part in observation.split(" [SEP] ")]
        if parts[0] == "WebShop":
            names = ["Search"]
        elif BACK in parts:
            page = parts[parts.index(BACK) + 1 :]
            names = [BACK, *(part for part in page if part in (PREVIOUS, NEXT, BUY, *SUB_PAGES))]
            if page and page[0].startswith("Page "):
                # A product is its key, its title and its price.
                starts = (PREVIOUS, NEXT, page[0])
                names += [
                    part
                    for before, part in pairwise(page)
                    if (before in starts or before.startswith("$")) and part not in starts
                ]
            elif BUY in page:
                prices = [k for k, part in enumerate(page) if part.startswith("Price: ")]
                options = page[2 : prices[-1] - 1] if prices else []
                names += [part for part in options if not _GROUP.fullmatch(part.lower())]
    if names == ["Search"]:
        return [SEARCH_OFFER]
    return [f"click[{name.lower()}]" for name in names]
