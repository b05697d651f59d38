"""The facts of a WebShop transition, as reported by the adapter g_b (Appendix A.4).

All facts come from the agent's action, the pages and the admissible actions. There is no field for
score, key of the goal's product, unobserved state or the future.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trca.envs.webshop.reading import PageType, Verb

Target = Literal["", "back", "previous", "next", "product", "option", "detail", "buy", "unknown"]
"""The target of a click; blank for an action that is no click."""


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
        chosen: The option value that the action chose, if requested; else blank.
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
