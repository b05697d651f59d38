"""The adapter of WebShop: reads the text of an episode and reports facts of each transition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from trca.envs.adapter import Adapter
from trca.envs.webshop.beliefs import Beliefs
from trca.envs.webshop.binding import WebShopBinding, bind
from trca.envs.webshop.context import context_key, memory_line
from trca.envs.webshop.facts import Target, WebShopFacts
from trca.envs.webshop.reading import Action, can_search, read_action, read_page

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


class WebShopAdapter(Adapter):
    """Follows a WebShop episode; reads observations, actions and admissible actions only.

    Attributes:
        beliefs: The episode as observed so far.
    """

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
        query_words = beliefs.words_in(read.argument) if searching else 0
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
        """Structural key s~ of the current state; see `trca.envs.webshop.context`."""
        return context_key(self.beliefs)

    @property
    def memory(self) -> str:
        """The memory line; see `trca.envs.webshop.context`."""
        return memory_line(self.beliefs)

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
