"""What an agent knows of a WebShop episode, kept up from its actions and the pages alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from trca.envs.webshop.binding import WebShopBinding, stems, wanted
from trca.envs.webshop.reading import Command, Listing, View


@dataclass
class Opened:
    """A product whose page was shown.

    Attributes:
        listing: Its key, title and price.
        wanted: Of each group that has any, the values asked for.
        words: Words of the instruction that its pages have shown.
    """

    listing: Listing
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: frozenset[str] = frozenset()


_NOTHING: Final = Opened(Listing("", "", ""))


class Beliefs:
    """The episode as observed so far.

    Attributes:
        binding: What the instruction asks for.
        view: The page shown.
        queries: What was searched for, in order (values unused).
        listed: Every product listed so far by key, in order of first sight.
        matches: Words of the instruction in the title of each, by key.
        affordable_matches: The same, of the affordable ones alone.
        opened: Every product whose page was shown, by key.
        product: Key of the product whose page or details are shown; blank elsewhere.
        chosen: Options chosen for it: value of each group.
        words: The telling words of the instruction.
    """

    __slots__ = (
        "_details",
        "affordable_matches",
        "binding",
        "chosen",
        "listed",
        "matches",
        "opened",
        "product",
        "queries",
        "view",
        "words",
    )

    def __init__(self, binding: WebShopBinding, view: View) -> None:
        self.binding = binding
        self.view = view
        self.queries: dict[str, None] = {}
        self.listed: dict[str, Listing] = {}
        self.matches: dict[str, int] = {}
        self.affordable_matches: dict[str, int] = {}
        self.opened: dict[str, Opened] = {}
        self.product = ""
        self.chosen: dict[str, str] = {}
        self.words = frozenset(binding.words)
        self._details: set[tuple[str, str]] = set()

    def update(self, order: Command, view: View) -> None:
        """Takes in an accepted action and the page it led to."""
        before, self.view = self.view, view
        if order.verb == "search":
            self.queries.setdefault(order.argument)
        if view.page in ("search", "results"):
            self.product = ""
            self.chosen = {}
        if view.page == "results":
            for listing in view.listings:
                self._list(listing)
        elif view.page == "item":
            if before.page == "item":
                self._choose(order.argument)
            elif before.page != "detail":
                self._open(order.argument, view)
        elif view.page == "detail" and self.product:
            self._details.add((self.product, view.text))
            self.now.words |= stems(view.text) & self.words

    @property
    def now(self) -> Opened:
        """The product whose page or details are shown; an empty one elsewhere."""
        return self.opened.get(self.product, _NOTHING)

    @property
    def missing(self) -> tuple[str, ...]:
        """Groups of that product which offer a value asked for, with none of these chosen."""
        wanted, chosen = self.now.wanted, self.chosen
        return tuple([group for group in wanted if chosen.get(group) not in wanted[group]])

    @property
    def ready(self) -> bool:
        """Whether nothing seen speaks against buying that product as it stands.

        It is affordable, has shown as many words of the instruction as it lacks, and nothing is
        `missing`.
        """
        product = self.now
        return (
            self.product != ""
            and 2 * len(product.words) >= len(self.words)
            and not self.missing
            and self.affordable(product.listing)
        )

    def affordable(self, listing: Listing) -> bool:
        """Whether the lowest price shown for a product is within the limit."""
        limit = self.binding.price_limit
        return not limit or listing.lowest <= limit

    def best_match(self) -> int:
        """The most words of the instruction in the title of an affordable product listed."""
        return max(self.affordable_matches.values(), default=0)

    def rivals(self, asin: str) -> int:
        """How many affordable products listed have more of the words in their titles."""
        own = self.matches.get(asin, 0)
        return sum([matches > own for matches in self.affordable_matches.values()])

    def words_in(self, text: str) -> int:
        """How many words of the instruction stand in a text."""
        return len(stems(text) & self.words)

    def words_seen(self) -> frozenset[str]:
        """Words of the instruction that the pages of opened products have shown."""
        return frozenset().union(*(product.words for product in self.opened.values()))

    def snapshot(self) -> object:
        """A hashable value, equal at two times exactly when all that is observed is the same."""
        return (
            self.view,
            self.product,
            tuple(sorted(self.chosen.items())),
            len(self.listed),
            len(self.opened),
            len(self._details),
        )

    def _list(self, listing: Listing) -> None:
        if listing.asin not in self.listed:
            self.listed[listing.asin] = listing
            self.matches[listing.asin] = matches = self.words_in(listing.title)
            if self.affordable(listing):
                self.affordable_matches[listing.asin] = matches

    def _open(self, asin: str, view: View) -> None:
        self.product = asin
        self.chosen = {}
        if asin in self.opened:
            return
        (shown,) = view.listings
        named = {
            group: wanted(self.binding, values, group) for group, values in view.groups.items()
        }
        asked = " ".join(value for values in named.values() for value in values)
        self.opened[asin] = Opened(
            Listing(asin, shown.title, shown.price),
            {group: values for group, values in named.items() if values},
            stems(f"{shown.title} {asked}") & self.words,
        )

    def _choose(self, name: str) -> None:
        for option in self.view.options:
            if option.name == name:
                self.chosen[option.group] = option.value
