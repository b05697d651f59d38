"""Pages in both modes, recorded pages included, give equal views."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from trca.envs.webshop.env import WebShopEnv
from trca.envs.webshop.reading import Listing, Option, View, read_page

DATA = Path(__file__).parents[4] / "shared" / "data" / "webshop"


def test_what_a_product_page_shows():
    page = (
        "Instruction: [SEP] a mug [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] sky"
    )
    page += (
        " [SEP] size [SEP] size: red [SEP] Enamel Mug [SEP] Price: $5.0 to $7.5 [SEP] Rating: N.A."
    )
    buttons = ["back to search", "< prev", "description", "buy now", "red", "sky", "size: red"]
    assert read_page(page, [f"click[{name}]" for name in buttons]) == View(
        "item",
        listings=(Listing("", "Enamel Mug", "$5.0 to $7.5"),),
        options=(
            Option("color", "red", "red"),
            Option("color", "sky", "sky"),
            Option("size", "red", "size: red"),
        ),
    )


def test_both_modes_show_the_same():
    plain, rich = (WebShopEnv(observation_mode=mode) for mode in ("text", "text_rich"))
    rng = np.random.default_rng(0)
    seen = set()
    for task in plain.task_ids[:20]:
        observations = [env.reset(options={"task": task})[0] for env in (plain, rich)]
        over = False
        while not over:
            offers = plain.admissible_actions
            views = [read_page(observation, offers) for observation in observations]
            assert views[0] == views[1]
            seen.add(views[0].page)
            action = plain.random_action(rng)
            steps = [env.step(action) for env in (plain, rich)]
            observations = [step[0] for step in steps]
            over = steps[0][2] or steps[0][3]
    assert seen == {"search", "results", "item", "detail"}


def recorded():
    for name in ("human", "synthetic"):
        with gzip.open(DATA / f"episodes_{name}.jsonl.gz", "rt") as lines:
            yield from map(json.loads, lines)


@pytest.mark.skipif(
    not DATA.exists(), reason=f"the recordings are not beside the repository: {DATA}"
)
def test_pages_of_the_original_are_read_whole():
    pages = dict.fromkeys(("search", "results", "item", "detail", "done"), 0)
    fixed = {"back to search", "< prev", "next >", "description", "features", "reviews", "buy now"}
    for episode in recorded():
        for step in [episode["reset"], *episode["steps"]]:
            buttons = [name for name in step["clickables"] if name != "search"]
            offers = ["search[<your query>]"] * step["has_search_bar"]
            view = read_page(step["obs"], offers + [f"click[{name}]" for name in buttons])
            pages[view.page] += 1
            named = {listing.asin for listing in view.listings if listing.asin}
            named |= {option.name for option in view.options}
            assert named - fixed == set(buttons) - fixed
            assert all(listing.price for listing in view.listings)
    assert min(pages.values()) > 50


def test_the_page_after_a_purchase_is_not_read():
    for score in ("0.0", "1.0"):
        page = f"Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] {score}"
        assert read_page(page, []) == View("done")
