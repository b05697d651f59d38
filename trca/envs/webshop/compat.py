"""The quirks of the original WebShop; a setting keeps or removes each of them.

``original`` keeps every quirk of `Quirks`; ``benchmarks/webshop_parity.py`` compares this mode with
recordings of the original. ``clean`` removes all of them.

Both modes fix: hidden queries (``<r>``, ``<a>``, ``<c>``, ``<q>``) are ordinary words, prices come
from a seed, and tasks are drawn uniformly (the sampler of the original is off by one).

Both modes keep, because transcripts or published scores depend on it: mode ``text`` does not mark
chosen options; a second click leaves an option chosen; going back to the results clears the
options; a purchase without options is permitted; the score uses the drawn price if the page shows a
price range, and reduces colours by substring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trca.common.names import unknown


@dataclass(frozen=True, slots=True)
class Quirks:
    """The quirks of a simulator.

    Attributes:
        searches_anywhere: ``search[...]`` works without a search bar, even after a purchase.
        acts_after_done: An episode continues after a purchase, and a further purchase is possible.
        endless_pages: ``next >`` continues past the last result.
        pages_from_url: ``< prev`` and ``next >`` depend on the first page name in the URL, which
            also contains the query and the options.
        blank_searches: ``search[ ]`` shows an empty list of results.
        loose_actions: Text after the last ``]`` is ignored. An argument with ``[`` or a line break
            is unreadable. Spaces around the name and the argument count, so `` search[mug]`` and
            ``click[ red ]`` do nothing. Without this quirk, no text may follow the last ``]``, and
            these spaces are ignored.
        shared_names: An option with the name of a button acts as this button. A value in two groups
            selects the later group. Without this quirk, such values are shown as ``group: value``.
        marks_from_url: ``text_rich`` marks an option if the URL contains its value in quotes.
            Without this quirk, exactly the chosen options are marked.
        score_shown: The page after a purchase is the crowd-worker page. The page shows the score,
            and the options as JSON with escapes.
        options_as_pairs: Goal options with a group name are compared as the text of a Python pair.
            Without this quirk, only the values are compared.
        prices_in_order: One random stream draws the prices of products with a price range, in
            catalogue order, and then the price bounds of the goals. Without this quirk, each draw
            depends on the seed, the product and the number of its instruction only, so that a
            product has the same price in a catalogue of any order or size.
    """

    searches_anywhere: bool
    acts_after_done: bool
    endless_pages: bool
    pages_from_url: bool
    blank_searches: bool
    loose_actions: bool
    shared_names: bool
    marks_from_url: bool
    score_shown: bool
    options_as_pairs: bool
    prices_in_order: bool


_COUNT: Final = len(Quirks.__dataclass_fields__)
QUIRKS: Final = {"clean": Quirks(*[False] * _COUNT), "original": Quirks(*[True] * _COUNT)}


def quirks_of(compat: str) -> Quirks:
    """The quirks of ``clean`` or ``original``; a ValueError for any other name."""
    if compat not in QUIRKS:
        raise unknown("compat", compat, QUIRKS)
    return QUIRKS[compat]
