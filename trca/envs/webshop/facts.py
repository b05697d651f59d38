"""The observable facts of a WebShop transition: what the adapter g_b reports (Appendix A.4).

Everything here is read off the agent's action, the pages it was shown and the admissible actions.
There is no field for the score, the wanted product's key, what was not shown, or the future.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trca.envs.webshop.actions import Verb
from trca.envs.webshop.reading import PageType

Target = Literal["", "back", "previous", "next", "product", "option", "detail", "buy", "unknown"]
"""What a click names; blank when the action is no click."""


@dataclass(frozen=True, slots=True)
class WebShopFacts:
    """Facts of one transition.

    "Words" are telling words of the instruction (`WebShopBinding.words`). A product is affordable
    when the lowest price shown for it is within the limit of the instruction, or there is none.
    "The product" is the one bought, else the one whose page is shown after the transition.

    Attributes:
        parsed: Whether an action could be read from the response.
        verb: What the action asks for.
        target: What a click names.
        available: Whether the search bar or the button was there to use.
        accepted: Whether the action was carried out.
        repeated: Whether what can be observed (page, product, options chosen, all that is known) is
            now as it was at an earlier time of the episode.
        page: The page shown afterwards.
        query_words: How many of the words a search asks for.
        query_lacking: How many it leaves out.
        new_match: The most words in the title of an affordable product listed for the first time.
        known_match: The same of the products listed before the transition.
        opened: Whether the product's page is shown for the first time.
        rivals: Affordable products listed so far whose titles have more of the words than the
            product's has.
        affordable: Whether the product is.
        shown: How many of the words the product's pages have shown: its title, options, details.
        lacking: How many they have not.
        new_words: How many they show that the pages of no product opened before did.
        new_options: Values asked for that its page offers, when it is shown for the first time.
        chosen: The option value chosen by the action, if it is one asked for; else blank.
        missing: Its groups that offer a value asked for, with none of these chosen.
        was_ready: Whether, before the transition, a product was shown that is affordable, had shown
            as many of the words as it lacked, and had nothing missing.
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
