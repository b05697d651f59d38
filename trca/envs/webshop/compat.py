"""The quirks of the original WebShop, each a named decision: kept or mended.

``original`` keeps every quirk of `Quirks`, and ``benchmarks/webshop_parity.py`` compares it with
recordings of the original; ``clean`` mends them all.

Changed by ``clean`` (see `Quirks`): blanks around an action, its name and its argument are ignored,
a blank search does nothing, and prices and price bounds depend on the seed and the product alone.

Mended in both: hidden queries (``<r>``, ``<a>``, ``<c>``, ``<q>``) are words like others, prices
come from a seed, and tasks are drawn evenly (the original's sampler is off by one).

Kept in both, because transcripts or published scores depend on it: mode ``text`` does not mark
chosen options; clicking an option again leaves it chosen; going back to the results drops the
options; buying with none is allowed; the score goes by the drawn price where a range is shown, and
reduces colours by substring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Quirks:
    """Which quirks a simulator has.

    Attributes:
        searches_anywhere: ``search[...]`` works without a search bar, even after a purchase.
        acts_after_done: An episode goes on after a purchase, which can be made again.
        endless_pages: ``next >`` leads on past the last result.
        pages_from_url: ``< prev`` and ``next >`` act by the page that the URL, which holds the
            query and the options, seems to name.
        blank_searches: ``search[ ]`` shows an empty list of results.
        loose_actions: Text after the last ``]`` is ignored; an argument with ``[`` or a line break
            in it cannot be read; blanks around the name and around the argument count, so that
            `` search[mug]`` and ``click[ red ]`` do nothing. Otherwise nothing may follow the last
            ``]``, and these blanks are ignored.
        shared_names: An option named like a button acts as that button, and one value of two groups
            chooses in the later; otherwise each is offered as ``group: value``.
        marks_from_url: ``text_rich`` marks an option when the URL has its value in quotes;
            otherwise exactly the chosen ones.
        score_shown: The page after a purchase is the one for crowd-workers: it shows the score, and
            the options as JSON with escapes.
        options_as_pairs: Goal options with a group name are compared as the text of a Python pair;
            otherwise by their values, as those without.
        prices_in_order: The prices of products with a price range, and after them the price bounds
            of the goals, are draws of one random stream in the order of the catalogue; otherwise
            each depends on the seed, the product and the number of its instruction alone, so that
            a product costs the same in a catalogue of another order or size.
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
    """The quirks of ``clean`` or ``original``.

    Raises:
        ValueError: For any other name.
    """
    if compat not in QUIRKS:
        raise ValueError(f"unknown compat {compat!r}: choose {' or '.join(QUIRKS)}")
    return QUIRKS[compat]
