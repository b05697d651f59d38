"""Draws the pages of a recorded WebShop episode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trca.envs.drawing import Cell, Turn, followed
from trca.envs.webshop.adapter import WebShopAdapter
from trca.envs.webshop.beliefs import Beliefs
from trca.envs.webshop.pages import BACK, BUY, NEXT, PREVIOUS, SUB_PAGES
from trca.envs.webshop.reading import SEARCH_OFFER

_BUTTON: Final = re.compile(r"\[(?:clicked )?button\] (.*) \[(?:clicked )?button_\]")
_GROUPS: Final = frozenset(
    "capacity,color,configuration,edition,fit type,flavor,flavor name,format,item shape,"
    "lens color,length,material,material type,number of items,pack,package quantity,pattern,"
    "pattern name,scent,scent name,shape,size,size name,special size,special size type,style,"
    "style name,team name,volume,wattage,width".split(",")
)
"""Usual names of option groups. The mode ``text`` does not mark the groups of a page."""


def draw_shop(instruction: str, turns: Sequence[Turn]) -> list[list[Cell]]:
    """The search box, the results, or the product with its options and the chosen values."""
    adapter = WebShopAdapter()
    return [_page(adapter.beliefs) for _ in followed(adapter, instruction, turns, _clickable)]


def _page(beliefs: Beliefs) -> list[Cell]:
    view, product = beliefs.view, beliefs.now.listing
    query = next(reversed(beliefs.queries), "")
    bought: Cell = {"name": product.title, "note": product.price, "wide": True, "mark": "here"}
    if view.page == "search":
        return [{"name": "search", "note": "no search yet" * (not query), "wide": True}]
    if view.page == "results":
        search: Cell = {
            "name": "search", "note": f"page {view.number}", "lines": [query], "wide": True,
        }  # fmt: skip
        return [
            search,
            *(
                Cell(
                    name=title,
                    note=f"{price}, seen" if asin in beliefs.opened else price,
                    items=[asin],
                    mark="faint" if asin in beliefs.opened else "",
                )
                for asin, title, price in view.listings
            ),
        ]
    if view.page == "detail":
        return [bought, {"name": "details", "lines": [view.text], "wide": True}]
    if view.page == "item":
        return [
            bought,
            *(
                Cell(
                    name=group,
                    items=values,
                    chosen=[v for v in values if v == beliefs.chosen.get(group)],
                )
                for group, values in view.groups.items()
            ),
        ]
    return [{**bought, "note": "bought", "items": [*beliefs.chosen.values()]}]


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
                    for before, part in zip(page, page[1:], strict=False)
                    if (before in starts or before.startswith("$")) and part not in starts
                ]
            elif BUY in page:
                prices = [k for k, part in enumerate(page) if part.startswith("Price: ")]
                options = page[2 : prices[-1] - 1] if prices else []
                names += [part for part in options if part.lower() not in _GROUPS]
    if names == ["Search"]:
        return [SEARCH_OFFER]
    return [f"click[{name.lower()}]" for name in names]
