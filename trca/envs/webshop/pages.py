"""Writes pages: every page is a list of nodes, written in one of two modes.

``text`` joins the visible texts with `` [SEP] ``. ``text_rich`` writes one node per line, marks
buttons with brackets and names the clicked options.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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

Node = tuple[str, str]
"""The pattern of a node in mode ``text_rich``, which is also its kind, and its text."""
PLAIN: Final = "{}\n"
BUTTON: Final = "[button] {} [button_]\n"
OPTION: Final = "  [button] {} [button_]\n"
CHOSEN: Final = "  [clicked button] {} [clicked button_]\n"
PRODUCT: Final = "\n[button] {} [button_]\n"
VISITED: Final = "\n[clicked button] {} [clicked button_]\n"
_BACK: Final[Node] = (BUTTON, BACK)
_PREVIOUS: Final[Node] = (BUTTON, PREVIOUS)
_NEXT: Final[Node] = (BUTTON, NEXT)
_BUTTONS: Final[list[Node]] = [
    *((PLAIN, "Rating: N.A."), (BUTTON, "Description"), (BUTTON, "Features")),
    *((BUTTON, "Reviews"), (BUTTON, BUY)),
]


def plain(nodes: Iterable[Node]) -> str:
    """The page in mode ``text``."""
    return " [SEP] ".join([text.strip() for _, text in nodes if text not in ("", "\n")])


def rich(nodes: Sequence[Node]) -> str:
    """The page in mode ``text_rich``; clicked options come first, in reverse page order."""
    clicked = [f"You have clicked {text}.\n" for kind, text in nodes if kind == CHOSEN]
    lines = [kind.format(text) for kind, text in nodes if text not in ("", "\n")]
    return "".join([*reversed(clicked), *lines])


WRITERS: Final[Mapping[str, Callable[[list[Node]], str]]] = {"text": plain, "text_rich": rich}
"""Observation mode -> function that writes a page."""


def search_page(instruction: str) -> list[Node]:
    """The page with the search bar."""
    texts = ("WebShop", "Instruction: ", instruction)
    return [*((PLAIN, text) for text in texts), (BUTTON, "Search")]


def _header(instruction: str) -> list[Node]:
    return [(PLAIN, "Instruction:"), (PLAIN, instruction), _BACK]


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
    nodes.append((PLAIN, f"Page {number} (Total results: {total})"))
    nodes += [*[_PREVIOUS] * (number > 1), *[_NEXT] * more]
    for product in products:
        nodes.append((VISITED if product.asin in visited else PRODUCT, product.asin))
        nodes += [(PLAIN, product.title), (PLAIN, product.price_label)]
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
        nodes.append((PLAIN, group))
        for value in values:
            kind = CHOSEN if chosen(group, value) else OPTION
            nodes.append((kind, names.get((group, value), value)))
    price = (PLAIN, f"Price: {product.price_label}")
    return [*nodes, (PLAIN, product.title), price, *_BUTTONS]


def sub_page(instruction: str, product: Product, name: str) -> list[Node]:
    """One of `SUB_PAGES`; the page of reviews is empty."""
    nodes = [*_header(instruction), _PREVIOUS]
    if name == "Description":
        nodes.append((PLAIN, product.description))
    elif name == "Features":
        nodes += [(PLAIN, f" {bullet}") for bullet in product.bullets]
    elif name == "Attributes":
        categories = (product.category, product.query, product.product_category)
        texts = (*(f" {attribute}" for attribute in product.attributes), *categories)
        nodes += [(PLAIN, text) for text in texts]
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
    return [(PLAIN, text) for text in texts]
