"""The adapter of WebShop (the paper's g_b): facts, context and memory line of an episode.

All of them come from the agent's actions, the pages and the admissible actions (Appendix A.4).
There is no field for score, key of the goal's product, unobserved state or the future.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Final, Literal

from trca.common.cache import remembered
from trca.envs.adapter import Adapter, memory_line_of, quoted
from trca.envs.webshop.beliefs import Beliefs
from trca.envs.webshop.binding import WebShopBinding, bind, singular, stems, words_of
from trca.envs.webshop.reading import (
    Action,
    Listing,
    PageType,
    Verb,
    amounts_in,
    can_search,
    read_action,
    read_page,
)

Target = Literal["", "back", "previous", "next", "product", "option", "detail", "buy", "unknown"]
"""The target of a click; empty for an action that is not a click."""
_BUTTONS: Final[dict[str, Target]] = {
    "back to search": "back",
    "< prev": "previous",
    "next >": "next",
    "description": "detail",
    "features": "detail",
    "reviews": "detail",
    "attributes": "detail",
    "buy now": "buy",
}


@dataclass(frozen=True, slots=True)
class WebShopFacts:
    """Facts of one transition.

    "Words" are content words of the instruction (`WebShopBinding.words`). A product is affordable
    if its lowest price is within the limit of the instruction, or the instruction has no limit.
    "The product" is the bought product, or else the product on the page after the transition.

    Attributes:
        parsed: Whether the response contained a readable action.
        verb: The verb of the action.
        target: The target of a click.
        available: Whether the page before the action had the search bar or the button.
        accepted: Whether the environment carried out the action.
        repeated: Whether the agent's knowledge (page, product, chosen options and everything seen)
            now equals its knowledge at an earlier time of the episode.
        page: The page after the transition.
        query_words: Number of words in a search.
        query_lacking: Number of words that a search leaves out.
        new_match: Largest number of words in the title of an affordable product listed for the
            first time.
        known_match: Largest number of words in the title of an affordable product listed before the
            transition.
        opened: Whether the product's page is shown for the first time.
        rivals: Number of affordable listed products with more words in their titles than the
            product.
        affordable: Whether the product is affordable.
        shown: Number of words that the product's pages have shown in title, options and details.
        lacking: Number of words that the product's pages have not shown.
        new_words: Number of words on the product's pages that no product opened before has shown.
        new_options: Requested option values of the product, if its page is shown for the first
            time.
        chosen: The option value that the action chose, if requested; else empty.
        missing: Option groups of the product with a requested value, none of which is chosen.
        was_ready: Whether the product before the transition was affordable, had shown at least half
            of the words, and had no missing option group.
    """

    parsed: bool = True
    verb: Verb = ""
    target: Target = ""
    available: bool = False
    accepted: bool = False
    repeated: bool = False
    page: PageType = "search"
    query_words: int = 0
    query_lacking: int = 0
    new_match: int = 0
    known_match: int = 0
    opened: bool = False
    rivals: int = 0
    affordable: bool = False
    shown: int = 0
    lacking: int = 0
    new_words: int = 0
    new_options: tuple[str, ...] = ()
    chosen: str = ""
    missing: tuple[str, ...] = ()
    was_ready: bool = False


class WebShopAdapter(Adapter):
    """Follows a WebShop episode; see `Adapter`."""

    facts_type: ClassVar[type[WebShopFacts]] = WebShopFacts
    binding_type: ClassVar[type[WebShopBinding]] = WebShopBinding
    binding: WebShopBinding
    facts: WebShopFacts
    beliefs: Beliefs

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        """Starts an episode; see `Adapter.reset`."""
        self.binding = bind(instruction)
        self.facts = WebShopFacts()
        self.beliefs = Beliefs(self.binding, read_page(observation, admissible))
        self._observation, self._offered = observation, admissible
        self._past = {self.beliefs.snapshot()}

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> WebShopFacts:
        """Reads one transition and returns its facts; see `Adapter.step`."""
        beliefs = self.beliefs
        read = read_action(action)
        changed = observation != self._observation
        if not (changed or action.rstrip().endswith("]")):
            read = Action()  # the environment refuses a text after the last ]
        target = self._target(read)
        searching, clicking = read.verb == "search", read.verb == "click"
        option = ""
        if clicking:
            option = next((o.value for o in beliefs.view.options if o.name == read.argument), "")
            available = f"click[{read.argument}]" in self._offered
        else:
            available = searching and can_search(self._offered)
        accepted = read.verb != "" and (changed or (available and clicking))
        known_match = beliefs.best_match
        words_before, opened_before = beliefs.words_seen, len(beliefs.opened)
        was_ready = beliefs.ready
        if accepted:
            beliefs.update(read, read_page(observation, admissible))
        self._observation, self._offered = observation, admissible
        repeats = self._repeats(beliefs.snapshot())
        product = beliefs.now
        words = len(self.binding.words)
        query_words = len(stems(read.argument) & beliefs.words) if searching else 0
        opened = len(beliefs.opened) > opened_before
        wanted_values = tuple(v for values in product.wanted.values() for v in values)
        self.facts = WebShopFacts(
            parsed=action.strip() != "",
            verb=read.verb,
            target=target,
            available=available,
            accepted=accepted,
            repeated=accepted and repeats,
            page=beliefs.view.page,
            query_words=query_words,
            query_lacking=words - query_words if searching else 0,
            new_match=beliefs.new_match if accepted else 0,
            known_match=known_match,
            opened=opened,
            rivals=beliefs.rivals(beliefs.product) if beliefs.product else 0,
            affordable=bool(beliefs.product) and beliefs.affordable(product.listing),
            shown=len(product.words),
            lacking=words - len(product.words) if beliefs.product else 0,
            new_words=len(product.words - words_before),
            new_options=wanted_values if opened else (),
            chosen=option if option in wanted_values else "",
            missing=beliefs.missing,
            was_ready=was_ready,
        )
        return self.facts

    @property
    def context(self) -> str:
        """The key of the current state, such as ``item|ka-tomi-03|options 1/2+0|words 5|opened``.

        The fields are those of the paper's table of context information. The key is coarse on
        purpose, because a context group has few rollouts of one task. Therefore a results page
        enters by its best match for the instruction, not by its query.

        Fields:
            page: ``search``, ``results``, ``item``, ``detail`` or ``done``.
            product: The product on the page; on a results page, the affordable product with the
                most words of the instruction in its title.
            options: Groups with a requested value chosen / groups with a requested value + further
                chosen options.
            words: Number of the instruction's words that this product has shown.
            stage: ``start`` before a search, ``listed`` before a product is opened, ``opened``.
        """
        beliefs, view = self.beliefs, self.beliefs.view
        product, words = beliefs.product, len(beliefs.now.words)
        if view.page == "results":
            matches = beliefs.affordable_matches
            listed = [listing.asin for listing in view.listings if listing.asin in matches]
            product = max(listed, key=matches.__getitem__, default="")
            words = matches.get(product, 0)
        asked = len(beliefs.now.wanted)
        right = asked - len(beliefs.missing)
        other = len(beliefs.chosen) - right
        stage = "opened" if beliefs.opened else "listed" if beliefs.queries else "start"
        return (
            f"{view.page}|{product or 'none'}|options {right}/{asked}+{other}|words {words}|{stage}"
        )

    @property
    def memory(self) -> str:
        """One line for a reader without memory: the current page and the way to it.

        A title is shortened to the words that it shares with the instruction, a results page to its
        affordable products. Brackets mark clickable names. Prices are whole dollars, rounded up.
        Examples: ``Page 1 for wool hat: wool hat [mun94per59], hat [val18lon24] seen.`` and
        ``At wool hat $84-104. size: [small] [large]. Chosen small.``
        """
        beliefs, view, asked = self.beliefs, self.beliefs.view, self.beliefs.words
        query = quoted(next(reversed(beliefs.queries), ""))
        if view.page == "search":
            parts = [f"Searched {query}." if query else "Nothing searched."]
        elif view.page == "results":
            listed = ", ".join(
                f"{_relevant(title, asked)} [{asin}]{' seen' * (asin in beliefs.opened)}"
                for asin, title, _ in view.listings
                if asin in beliefs.affordable_matches
            )
            parts = [f"Page {view.number} for {query}: {listed or 'nothing'}."]
        elif view.page == "item":
            groups: dict[str, list[str]] = {}
            for option in view.options:
                groups.setdefault(option.group, []).append(f"[{option.name}]")
            parts = [f"At {_brief(beliefs.now.listing, asked)}."]
            parts += [f"{group}: {' '.join(names)}." for group, names in groups.items()]
            parts.append(f"Chosen {', '.join(beliefs.chosen.values()) or 'nothing'}.")
        elif view.page == "detail":
            parts = [f"Of {_brief(beliefs.now.listing, asked)}: {view.text}."]
        else:
            parts = ["Bought."]
        return memory_line_of(parts)

    def _target(self, action: Action) -> Target:
        if action.verb != "click":
            return ""
        button = _BUTTONS.get(action.argument)
        if button is not None:
            return button
        view = self.beliefs.view
        if action.argument in [option.name for option in view.options]:
            return "option"
        if action.argument in [listing.asin for listing in view.listings]:
            return "product"
        return "unknown"


def _relevant(title: str, asked: frozenset[str]) -> str:
    """The words that a title shares with the instruction."""
    return " ".join([word for word, stem in _stemmed(title) if stem in asked]) or "other"


@remembered(entries=16384, longest=500)
def _stemmed(title: str) -> tuple[tuple[str, str], ...]:
    return tuple((word, singular(word)) for word in words_of(title))


def _brief(listing: Listing, asked: frozenset[str]) -> str:
    amounts = "-".join(str(ceil(float(amount))) for amount in amounts_in(listing.price))
    return f"{_relevant(listing.title, asked)}{f' ${amounts}' if amounts else ''}"
