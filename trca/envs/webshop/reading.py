"""Parses actions, and pages from their text and the admissible actions.

Both observation modes give the same `View`. The page after a purchase is never parsed, since it may
contain the score.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

Verb = Literal["", "search", "click"]

SEARCH_OFFER: Final = "search[<your query>]"
"""A search among the admissible actions."""
PageType = Literal["search", "results", "item", "detail", "done"]

_SEPARATOR: Final = " [SEP] "
_BUTTON = re.compile(r"\[(?:clicked )?button\] (.*) \[(?:clicked )?button_\]")
_NUMBER = re.compile(r"Page (-?\d+) \(Total results: (\d+)\)")
_AMOUNT = re.compile(r"\d+(?:\.\d+)?")
_BACK: Final = "Back to Search"
_PAGING: Final = ("< Prev", "Next >")
_PRICE: Final = "Price: "
_LONGEST_KEPT: Final = 20_000
"""Length of the longest cached page, in characters."""


class Action(NamedTuple):
    """A parsed action, its argument in lower case. Without a verb, a text that is not an action."""

    verb: Verb = ""
    argument: str = ""


def read_action(text: str) -> Action:
    """Parses an action. Spaces around its parts and text after the last ``]`` are ignored."""
    name, _, argument = text[: text.rfind("]") + 1].partition("[")
    argument = argument[:-1].strip().lower()
    match name.strip() if argument else "":
        case "search":
            return Action("search", argument)
        case "click":
            return Action("click", argument)
    return Action()


def clickable(admissible: Sequence[str]) -> frozenset[str]:
    """The names of all clicks among the admissible actions."""
    return frozenset([a[6:-1] for a in admissible if a.startswith("click[")])


def can_search(admissible: Sequence[str]) -> bool:
    """Whether the admissible actions include a search."""
    return bool(admissible) and admissible[0].startswith("search[")


class Listing(NamedTuple):
    """A product on a page.

    The key is in lower case, as in clicks, and empty on an item page. The price is a price or price
    range as written, or empty.
    """

    asin: str
    title: str
    price: str

    @property
    def lowest(self) -> float:
        """The lowest price in dollars; 0 without a price."""
        return _lowest(self.price)


class Option(NamedTuple):
    """An option of a product, in lower case.

    ``name`` is the name in a click: the value, or ``group: value`` if the value is ambiguous.
    """

    group: str
    value: str
    name: str


class View(NamedTuple):
    """A parsed page.

    Page type ``detail`` is a description, feature list or reviews, with its ``text``. ``number`` is
    that of a results page. An item page has one listing, and options.
    """

    page: PageType = "search"
    number: int = 0
    listings: tuple[Listing, ...] = ()
    options: tuple[Option, ...] = ()
    text: str = ""

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Name of each option group -> its values."""
        groups: dict[str, list[str]] = {}
        for group, value, _ in self.options:
            groups.setdefault(group, []).append(value)
        return {group: tuple(values) for group, values in groups.items()}


def amounts_in(price: str) -> list[str]:
    """The numbers in a price: the price, or the lowest and the highest."""
    return _AMOUNT.findall(price)


@lru_cache(maxsize=4096)
def _lowest(price: str) -> float:
    return float(next(iter(amounts_in(price)), 0.0))


def read_page(observation: str, admissible: Sequence[str]) -> View:
    """Parses a page, in mode ``text`` or ``text_rich``, with its admissible actions."""
    if len(observation) > _LONGEST_KEPT:
        return _read_page(observation, tuple(admissible))
    return _page_read(observation, tuple(admissible))


def _read_page(observation: str, admissible: tuple[str, ...]) -> View:
    if can_search(admissible):
        return View("search")
    clicks = clickable(admissible)
    if _BACK.lower() not in clicks:
        return View("done")
    # The texts of the page in order, without button marks.
    if f"[button] {_BACK} [button_]" in observation:
        lines = (line.strip() for line in observation.split("\n"))
        parts = [_BUTTON.sub(r"\1", line) for line in lines if line]
    else:
        parts = [part.strip() for part in observation.split(_SEPARATOR)]
    parts = parts[parts.index(_BACK) + 1 :] if _BACK in parts else []
    numbered = _NUMBER.fullmatch(parts[0]) if parts else None
    if numbered is not None:
        listed = [part for part in parts[1:] if part not in _PAGING]
        return View("results", int(numbered[1]), listings=_listings(listed, clicks))
    if "buy now" in clicks:
        return _item(parts[1:], clicks)
    return View("detail", text=" ".join(parts[1:]))


_page_read = lru_cache(maxsize=4096)(_read_page)


def _listings(parts: Sequence[str], clicks: frozenset[str]) -> tuple[Listing, ...]:
    keys = [part.lower() for part in parts]
    starts = [number for number, key in enumerate(keys) if key in clicks]
    listings = []
    for at, end in zip(starts, [*starts[1:], len(parts)], strict=False):
        shown = parts[at + 1 : end]
        price = shown[-1] if shown and shown[-1].startswith("$") else ""
        title = " ".join(shown[: len(shown) - bool(price)])
        listings.append(Listing(keys[at], title, price))
    return tuple(listings)


def _item(parts: Sequence[str], clicks: frozenset[str]) -> View:
    prices = [k for k, part in enumerate(parts) if part.startswith(_PRICE)]
    last = prices[-1] if prices else len(parts)
    options: list[Option] = []
    group = ""
    for part in parts[: max(last - 1, 0)]:
        name = part.lower()
        if name in clicks and group:
            options.append(Option(group, name.removeprefix(f"{group}: "), name))
        else:
            group = name
    title = parts[last - 1] if 0 < last <= len(parts) else ""
    price = parts[last].removeprefix(_PRICE) if last < len(parts) else ""
    return View("item", listings=(Listing("", title, price),), options=tuple(options))
