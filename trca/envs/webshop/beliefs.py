"""What an agent knows of a WebShop episode, from its actions and the pages alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from trca.envs.webshop.actions import Action
from trca.envs.webshop.binding import WebShopBinding, catalogue_stems, stems, wanted
from trca.envs.webshop.reading import Listing, View


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
        now: That product; an empty one elsewhere.
        chosen: Options chosen for it: value of each group.
        missing: Groups of it that offer a value asked for, with none of these chosen.
        words: The telling words of the instruction.
        words_seen: Those of them that the pages of opened products have shown.
        best_match: The most of them in the title of an affordable product listed.
        new_match: The same of the products listed first by the last action carried out.
    """

    __slots__ = (
        "_details",
        "affordable_matches",
        "best_match",
        "binding",
        "chosen",
        "listed",
        "matches",
        "missing",
        "new_match",
        "now",
        "opened",
        "product",
        "queries",
        "view",
        "words",
        "words_seen",
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
        self.now = _NOTHING
        self.chosen: dict[str, str] = {}
        self.missing: tuple[str, ...] = ()
        self.words = frozenset(binding.words)
        self.words_seen: frozenset[str] = frozenset()
        self.best_match = 0
        self.new_match = 0
        self._details: set[tuple[str, str]] = set()

    def update(self, action: Action, view: View) -> None:
        """Takes in an accepted action and the page it led to."""
        before, self.view = self.view, view
        self.new_match = 0
        if action.verb == "search":
            self.queries.setdefault(action.argument)
        if view.page in ("search", "results"):
            self._leave()
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

    def rivals(self, asin: str) -> int:
        """How many affordable products listed have more of the words in their titles."""
        own = self.matches.get(asin, 0)
        return sum([matches > own for matches in self.affordable_matches.values()])

    def words_in(self, text: str) -> int:
        """How many words of the instruction are in a text that the agent wrote."""
        return len(stems(text) & self.words)

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
        self.listed[listing.asin] = listing
        self.matches[listing.asin] = matches = len(catalogue_stems(listing.title) & self.words)
        if self.affordable(listing):
            self.affordable_matches[listing.asin] = matches
            self.new_match = max(self.new_match, matches)

    def _leave(self) -> None:
        self.product, self.now = "", _NOTHING
        self.chosen, self.missing = {}, ()

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
