"""Writes pages: every page is a list of nodes, written in one of two modes.

``text`` joins the visible texts with `` [SEP] ``. ``text_rich`` writes one node per line, marks
buttons with brackets and names the clicked options.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final

from trca.envs.webshop.data.products import Product

BACK: Final = "Back to Search"
NEXT: Final = "Next >"
PREVIOUS: Final = "< Prev"
BUY: Final = "Buy Now"
SUB_PAGES: Final = ("Description", "Features", "Reviews", "Attributes")
"""Names of the sub-pages of a product; no page links to the last of them."""
PAGE_SIZE: Final = 10
"""Products on a results page."""


class Kind(IntEnum):
    """The kind of a node."""

    PLAIN = 0
    BUTTON = 1
    OPTION = 2
    CHOSEN = 3
    PRODUCT = 4
    VISITED = 5


Node = tuple[Kind, str]
_RICH: Final = {
    Kind.PLAIN: "{}\n",
    Kind.BUTTON: "[button] {} [button_]\n",
    Kind.OPTION: "  [button] {} [button_]\n",
    Kind.CHOSEN: "  [clicked button] {} [clicked button_]\n",
    Kind.PRODUCT: "\n[button] {} [button_]\n",
    Kind.VISITED: "\n[clicked button] {} [clicked button_]\n",
}
_BACK: Final[Node] = (Kind.BUTTON, BACK)
_PREVIOUS: Final[Node] = (Kind.BUTTON, PREVIOUS)
_NEXT: Final[Node] = (Kind.BUTTON, NEXT)
_BUTTONS: Final[list[Node]] = [
    *((Kind.PLAIN, "Rating: N.A."), (Kind.BUTTON, "Description"), (Kind.BUTTON, "Features")),
    *((Kind.BUTTON, "Reviews"), (Kind.BUTTON, BUY)),
]


def plain(nodes: Iterable[Node]) -> str:
    """The page in mode ``text``."""
    return " [SEP] ".join([text.strip() for _, text in nodes if text not in ("", "\n")])


def rich(nodes: Sequence[Node]) -> str:
    """The page in mode ``text_rich``; clicked options come first, in reverse page order."""
    clicked = [f"You have clicked {text}.\n" for kind, text in nodes if kind is Kind.CHOSEN]
    lines = [_RICH[kind].format(text) for kind, text in nodes if text not in ("", "\n")]
    return "".join([*reversed(clicked), *lines])


WRITERS: Final[Mapping[str, Callable[[list[Node]], str]]] = {"text": plain, "text_rich": rich}
"""Observation mode -> function that writes a page."""


def search_page(instruction: str) -> list[Node]:
    """The page with the search bar."""
    return [
        *((Kind.PLAIN, "WebShop"), (Kind.PLAIN, "Instruction: "), (Kind.PLAIN, instruction)),
        (Kind.BUTTON, "Search"),
    ]


def _header(instruction: str) -> list[Node]:
    return [(Kind.PLAIN, "Instruction:"), (Kind.PLAIN, instruction), _BACK]


def results_page(
    instruction: str,
    products: Iterable[Product],
    number: int,
    total: int,
    more: bool,
    visited: Collection[str],
) -> list[Node]:
    """A results page."""
    nodes = _header(instruction)
    nodes.append((Kind.PLAIN, f"Page {number} (Total results: {total})"))
    nodes += [*[_PREVIOUS] * (number > 1), *[_NEXT] * more]
    for product in products:
        nodes.append((Kind.VISITED if product.asin in visited else Kind.PRODUCT, product.asin))
        nodes += [(Kind.PLAIN, product.title), (Kind.PLAIN, product.price_label)]
    return nodes


def item_page(
    instruction: str,
    product: Product,
    chosen: Callable[[str, str], bool],
    names: Mapping[tuple[str, str], str],
) -> list[Node]:
    """The page of a product.

    ``chosen`` tells whether the page marks a value of a group as chosen. ``names`` has the names of
    options by (group, value); the default is the value.
    """
    nodes = [*_header(instruction), _PREVIOUS]
    for group, values in product.options.items():
        nodes.append((Kind.PLAIN, group))
        for value in values:
            kind = Kind.CHOSEN if chosen(group, value) else Kind.OPTION
            nodes.append((kind, names.get((group, value), value)))
    price = (Kind.PLAIN, f"Price: {product.price_label}")
    return [*nodes, (Kind.PLAIN, product.title), price, *_BUTTONS]


def sub_page(instruction: str, product: Product, name: str) -> list[Node]:
    """One of `SUB_PAGES`; the page of reviews is empty."""
    nodes = [*_header(instruction), _PREVIOUS]
    if name == "Description":
        nodes.append((Kind.PLAIN, product.description))
    elif name == "Features":
        nodes += [(Kind.PLAIN, f" {bullet}") for bullet in product.bullets]
    elif name == "Attributes":
        nodes += [(Kind.PLAIN, f" {attribute}") for attribute in product.attributes]
        texts = (product.category, product.query, product.product_category)
        nodes += [(Kind.PLAIN, text) for text in texts]
    return nodes


def done_page(product: Product, options: Mapping[str, str], score: float | None) -> list[Node]:
    """The page after a purchase; with a score, the original's crowd-worker page, which shows it."""
    texts = ["Thank you for shopping with us!"]
    if score is None:
        texts += ["Purchased", product.asin]
        texts += [f"{group}: {value}" for group, value in options.items()]
    else:
        texts += ["Your code: ", "None", " (Paste it in your MTurk interface.)", "Purchased"]
        script = json.dumps(dict(options), sort_keys=True)
        for sign in "<>&'":  # escaped for use inside a script
            script = script.replace(sign, f"\\u{ord(sign):04x}")
        texts += ["asin", product.asin, "options", script]
        for name in ("attrs", "category", "query", "product category"):
            texts += [name, "None"]
        texts += ["Target", "asin", "options", "attrs", "price upper", "instuction text"]
        texts += ["category", "product category", "query", "Goal ", "None", "Reward"]
        texts += ["Your score (min 0.0, max 1.0)", str(score), "Reward Details ", "None"]
    return [(Kind.PLAIN, text) for text in texts]
