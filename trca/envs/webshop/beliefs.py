"""An agent's knowledge of a WebShop episode, derived from its actions and the pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from trca.envs.webshop.binding import WebShopBinding, catalogue_stems, wanted
from trca.envs.webshop.reading import Action, Listing, View


@dataclass
class Opened:
    """A product whose page was shown.

    ``wanted`` has the requested values by option group, without empty groups. ``words`` are the
    words of the instruction that the product's pages have shown.
    """

    listing: Listing
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: frozenset[str] = frozenset()


_NOTHING: Final = Opened(Listing("", "", ""))


class Beliefs:
    """The episode as observed so far.

    Attributes:
        queries: Past queries, in order (values unused).
        listed: All listed products by key, in order of first sight.
        matches: Number of the instruction's words in each product's title, by key.
        affordable_matches: `matches` of the affordable products.
        opened: All products whose page was shown, by key.
        product: Key of the product on an item or detail page, which is `now`; else empty.
        chosen: Chosen option values of this product, by group.
        missing: Groups of this product with a requested value, none of which is chosen.
        words: The content words of the instruction.
        words_seen: Content words that the pages of opened products have shown.
        best_match: Largest number of content words in the title of an affordable listed product.
        new_match: `best_match` among the products that the last accepted action listed first.
    """

    def __init__(self, binding: WebShopBinding, view: View) -> None:
        self.binding = binding
        self.view = view
        self.queries: dict[str, None] = {}
        self.listed: dict[str, Listing] = {}
        self.matches: dict[str, int] = {}
        self.affordable_matches: dict[str, int] = {}
        self.opened: dict[str, Opened] = {}
        self.product = ""
        self.now = _NOTHING
        self.chosen: dict[str, str] = {}
        self.missing: tuple[str, ...] = ()
        self.words = frozenset(binding.words)
        self.words_seen: frozenset[str] = frozenset()
        self.best_match = 0
        self.new_match = 0
        self._details: set[tuple[str, str]] = set()

    def update(self, action: Action, view: View) -> None:
        """Updates the beliefs after an accepted action and its page."""
        before, self.view = self.view, view
        self.new_match = 0
        if action.verb == "search":
            self.queries.setdefault(action.argument)
        if view.page in ("search", "results"):
            self.product, self.now = "", _NOTHING
            self.chosen, self.missing = {}, ()
        if view.page == "results":
            for listing in view.listings:
                if listing.asin not in self.listed:
                    self._list(listing)
            self.best_match = max(self.best_match, self.new_match)
        elif view.page == "item":
            if before.page == "item":
                self._choose(action.argument)
            elif before.page != "detail":
                self._open(action.argument, view)
        elif view.page == "detail" and self.product:
            self._details.add((self.product, view.text))
            self._show(view.text)

    @property
    def ready(self) -> bool:
        """Whether the observations support buying the current product with its current options."""
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

    def rivals(self, asin: str) -> int:
        """Number of affordable listed products with more of the words in their titles."""
        product_matches = self.matches.get(asin, 0)
        return sum([matches > product_matches for matches in self.affordable_matches.values()])

    def snapshot(self) -> object:
        """A hashable value; equal if and only if the known states are equal."""
        return (
            self.view,
            self.product,
            tuple(sorted(self.chosen.items())),
            len(self.listed),
            len(self.opened),
            len(self._details),
        )

    def _list(self, listing: Listing) -> None:
        self.listed[listing.asin] = listing
        self.matches[listing.asin] = matches = len(catalogue_stems(listing.title) & self.words)
        if self.affordable(listing):
            self.affordable_matches[listing.asin] = matches
            self.new_match = max(self.new_match, matches)

    def _open(self, asin: str, view: View) -> None:
        self.product = asin
        if asin in self.opened:
            self.now = self.opened[asin]
        else:
            (shown,) = view.listings
            named = {g: wanted(self.binding, values, g) for g, values in view.groups.items()}
            asked = {group: values for group, values in named.items() if values}
            self.now = Opened(Listing(asin, shown.title, shown.price), asked)
            self.opened[asin] = self.now
            self._show(shown.title, *chain.from_iterable(asked.values()))
        self.chosen, self.missing = {}, tuple(self.now.wanted)

    def _show(self, *texts: str) -> None:
        words = self.words.intersection(chain.from_iterable(map(catalogue_stems, texts)))
        self.now.words |= words
        self.words_seen |= words

    def _choose(self, name: str) -> None:
        for option in self.view.options:
            if option.name == name:
                self.chosen[option.group] = option.value
        wanted = self.now.wanted
        self.missing = tuple([g for g in wanted if self.chosen.get(g) not in wanted[g]])
