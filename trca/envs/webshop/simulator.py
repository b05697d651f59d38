"""The simulator of WebShop: one episode, from the search bar to a purchase."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from trca.common.names import unknown
from trca.envs.webshop import pages
from trca.envs.webshop.compat import Quirks, quirks_of
from trca.envs.webshop.data.catalogue import Catalogue, Compat
from trca.envs.webshop.data.products import Product
from trca.envs.webshop.pages import PAGE_SIZE, WRITERS, Node
from trca.envs.webshop.reward import Score, noun_extractor, score_purchase
from trca.envs.webshop.tasks import Goal

HITS: Final = 50
"""Largest number of results of a search."""
SEARCH, RESULTS, ITEM, SUB, DONE = "search", "results", "item", "sub", "done"

_BACK, _NEXT, _PREVIOUS, _BUY = (
    name.lower() for name in (pages.BACK, pages.NEXT, pages.PREVIOUS, pages.BUY)
)
_SUB_PAGES: Final = {name.lower(): name for name in pages.SUB_PAGES}
_ITEM_BUTTONS: Final = (_BACK, _PREVIOUS, *list(_SUB_PAGES)[:3], _BUY)
_RESERVED: Final = frozenset(("search", _NEXT, *_ITEM_BUTTONS, *_SUB_PAGES))
_NAMES_IN_URL: Final = {RESULTS: "search_results", ITEM: "item_page", SUB: "item_sub_page"}

Target = int | tuple[str, str] | None
"""The target of a click: a product's position, a pair (group, value), or None for a button."""


class Simulator:
    """Moves between pages by actions, and stores the current page and the chosen options.

    An action is ``search[query]`` on a page with a search bar, or ``click[x]`` for x in
    `clickables`. Upper and lower case are equal inside the brackets. Spaces around the action, its
    name and its argument are ignored. All other strings and empty searches change nothing. With
    ``compat="original"``, the rules are those of the original: see `compat.Quirks`.

    Attributes:
        goal: The goal; for scores and oracles only.
        accepted: Whether the last action was carried out.
        score: Score of the last purchase.
        page: ``search``, ``results``, ``item``, ``sub`` or ``done``.
        number: Number of the results page, from 1.
        hits: Positions of the last query's results in the catalogue, best first.
        product: The product on the page; None on search and results pages.
        options: Group -> chosen value.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        goals: Sequence[Goal],
        observation_mode: str = "text",
        compat: Compat = "clean",
        nouns: str = "simple",
    ) -> None:
        """Opens the shop with the first goal; a ValueError for an unknown name."""
        if observation_mode not in WRITERS:
            raise unknown("observation mode", observation_mode, WRITERS)
        self.catalogue = catalogue
        self._goals = goals
        self._write = WRITERS[observation_mode]
        self._quirks: Quirks = quirks_of(compat)
        noun_extractor(nouns)  # refuses an unknown name
        self._nouns = nouns
        self.goal = goals[0]
        self.score: Score | None = None
        self.number = 1
        self.hits: list[int] = []
        self.product: Product | None = None
        self._visited: set[str] = set()
        self.options: dict[str, str] = {}
        self._targets: dict[str, Target] = {}
        self.reset(0)

    def reset(self, goal_index: int) -> str:
        """Starts an episode with a goal and returns the first page."""
        if not 0 <= goal_index < len(self._goals):
            raise IndexError(f"no goal {goal_index}: choose 0 to {len(self._goals) - 1}")
        self.goal = self._goals[goal_index]
        self.done = self.accepted = False
        self.score = None
        self._start()
        return self.observation

    @property
    def clickables(self) -> tuple[str, ...]:
        """Clickable names in page order, in lower case; ``search`` is the search bar's button."""
        return tuple(self._targets)

    @property
    def choices(self) -> Mapping[str, tuple[str, str]]:
        """Clickable name of each option on the product's page -> (group, value)."""
        return {name: t for name, t in self._targets.items() if isinstance(t, tuple)}

    def worth(self, options: Mapping[str, str]) -> Score:
        """The score of buying the product with these options; for oracles only."""
        nouns = noun_extractor(self._nouns)
        return score_purchase(self._looked_at(), options, self.goal, nouns, self._quirks)

    def step(self, action: str) -> tuple[str, float, bool]:
        """Carries out an action if possible.

        Returns the page, the score of a purchase by this action (else 0), and whether the episode
        is over.
        """
        read = _read_loosely if self._quirks.loose_actions else _read
        name, argument = read(action)
        self.accepted = False
        reward = 0.0
        if name == "search":
            self._search(argument)
        elif name == "click" and argument in self._targets and argument != "search":
            self.accepted = True
            reward = self._click(argument)
        over = self.accepted and self.page == DONE if self._quirks.acts_after_done else self.done
        return self.observation, reward, over

    def _search(self, query: str) -> None:
        quirks = self._quirks
        permitted = self.page == SEARCH or quirks.searches_anywhere
        if query and permitted and (quirks.blank_searches or query.strip()):
            self.accepted = True
            self.query = query
            self.hits = self.catalogue.search(query, HITS)
            self._show_results(1)

    def _click(self, name: str) -> float:
        """Follows a click; returns the score of a purchase, else 0."""
        target = self._targets[name]
        page = self.page
        if self._quirks.pages_from_url and page in _NAMES_IN_URL:
            # The first page name in the URL, which also contains the query and the options.
            url = self._url(page)
            page = next(each for each, text in _NAMES_IN_URL.items() if text in url)
        if name == _BUY:
            return self._buy()
        if name == _BACK:
            self._start()
        elif name in (_NEXT, _PREVIOUS) and page == RESULTS:
            self._show_results(self.number + (1 if name == _NEXT else -1))
        elif name == _PREVIOUS and page == SUB:
            self._show_item()
        elif name == _PREVIOUS and page == ITEM:
            self._show_results(self.number)
        elif name in _SUB_PAGES:
            self.sub_page = _SUB_PAGES[name]
            nodes = pages.sub_page(self.goal.instruction, self._looked_at(), self.sub_page)
            self._show(SUB, nodes, {_BACK: None, _PREVIOUS: None})
        else:
            if isinstance(target, int):
                self.product = self.catalogue[target]
                self._visited.add(self.product.asin)
            elif target is not None:
                self.options[target[0]] = target[1]
            self._show_item()
        return 0.0

    def _start(self) -> None:
        self.query = self.sub_page = ""
        self.hits = []
        self.number = 1
        self.product = None
        self._visited = set()
        self.options = {}
        self._show(SEARCH, pages.search_page(self.goal.instruction), {"search": None})

    def _show_results(self, number: int) -> None:
        self.number = number
        self.product = None
        self.options = {}
        shown = self.hits[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        products = [self.catalogue[position] for position in shown]
        more = self._quirks.endless_pages or number * PAGE_SIZE < len(self.hits)
        buttons = [_BACK, *[_PREVIOUS] * (number > 1), *[_NEXT] * more]
        targets: dict[str, Target] = dict.fromkeys(buttons)
        targets |= {p.asin.lower(): at for at, p in zip(shown, products, strict=True)}
        nodes = pages.results_page(
            self.goal.instruction, products, number, len(self.hits), more, self._visited
        )
        self._show(RESULTS, nodes, targets)

    def _show_item(self) -> None:
        if self.page == ITEM and self._write is pages.plain:
            return  # This mode does not show chosen options.
        product = self._looked_at()
        names = {} if self._quirks.shared_names else _group_names(product)
        targets: dict[str, Target] = dict.fromkeys(_ITEM_BUTTONS)
        for group, values in product.options.items():
            for value in values:
                targets[names.get((group, value), value)] = (group, value)
        url = self._url(ITEM) if self._quirks.marks_from_url else ""

        def chosen(group: str, value: str) -> bool:
            return f'"{value}"' in url if url else self.options.get(group) == value

        self._show(ITEM, pages.item_page(self.goal.instruction, product, chosen, names), targets)

    def _buy(self) -> float:
        product = self._looked_at()
        score = self.score = self.worth(self.options)
        self.done = True
        shown = score.total if self._quirks.score_shown else None
        self._show(DONE, pages.done_page(product, self.options, shown), {})
        return score.total

    def _show(self, page: str, nodes: list[Node], targets: dict[str, Target]) -> None:
        self.page = page
        self._targets = targets
        self.observation = self._write(nodes)

    def _looked_at(self) -> Product:
        assert self.product is not None, f"page {self.page!r} has no product"
        return self.product

    def _url(self, page: str) -> str:
        query = self.query.replace(" ", "+")
        if page == RESULTS:
            return f"search_results/{query}/{self.number}"
        asin = self._looked_at().asin
        if page == ITEM:
            return f"item_page/{asin}/{query}/{self.number}/{json.dumps(self.options)}"
        return f"item_sub_page/{asin}/{query}/{self.number}/{self.sub_page}/{self.options}"


def _group_names(product: Product) -> dict[tuple[str, str], str]:
    """(group, value) -> ``group: value``, for options with an ambiguous value."""
    groups: dict[str, str] = {}
    shared = {
        value
        for group, values in product.options.items()
        for value in values
        if value in _RESERVED or groups.setdefault(value, group) != group
    }
    return {
        (group, value): f"{group}: {value}"
        for group, values in product.options.items()
        for value in shared.intersection(values)
    }


def _read(action: str) -> tuple[str, str]:
    """Name and argument of ``name[argument]`` without spaces; two empty strings for other texts."""
    name, bracket, rest = action.strip().partition("[")
    if not bracket or not rest.endswith("]"):
        return "", ""
    return name.strip(), rest[:-1].strip().lower()


def _read_loosely(action: str) -> tuple[str, str]:
    r"""The match of ``(.+)\[(.+)\]`` at the start of the action, in linear time."""
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 1))
    if start < 0:
        return "", ""
    return line[:start], line[start + 1 : end].lower()
