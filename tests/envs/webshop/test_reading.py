"""Instructions, actions and pages are read; any text is legal as an instruction or action."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.webshop.binding import WebShopBinding, bind, query_words, wanted
from trca.envs.webshop.env import WebShopEnv
from trca.envs.webshop.reading import Action, Listing, Option, View, read_action, read_page

DATA = Path(__file__).parents[4] / "shared" / "data" / "webshop"
recordings = pytest.mark.skipif(not DATA.exists(), reason=f"there are no recordings at {DATA}")


def test_an_instruction_is_its_telling_words_and_its_price_limit():
    binding = bind(
        "i'm looking for two enamel mugs, sky please, and price lower than 70.50 dollars"
    )
    assert binding.words == ("enamel", "mug", "sky")
    assert binding.phrasing[-3:] == ("mugs", "sky", "please")
    assert binding.price_limit == 70.5
    assert query_words(binding) == ("enamel", "mugs", "sky")
    assert bind("") == WebShopBinding()


@pytest.mark.parametrize(
    ("task", "limit"),
    [
        ("a mug, and price lower than 1000000.00 dollars", 1_000_000.0),
        ("a mug with a price below $30", 30.0),
        ("a mug priced under 12.5 dollars", 12.5),
        ("a mug for 30 dollars", 0.0),
        ("a priceless mug", 0.0),
        ("", 0.0),
    ],
)
def test_only_a_limit_is_a_price_limit(task, limit):
    assert bind(task).price_limit == limit


@pytest.mark.parametrize(
    ("task", "group", "values", "named"),
    [
        ("a mug in sky blue", "color", ("sky blue", "red"), ("sky blue",)),
        ("a mug in sky blue", "color", ("blue", "sky"), ("blue", "sky")),
        ("a mug in black walnut", "color", ("black", "black walnut"), ("black walnut",)),
        ("a shirt in x-large", "size", ("large", "x-large"), ("x-large",)),
        ("a rug, 3' x 5'", "size", ("3' x 5'", "5' x 8'"), ("3' x 5'",)),
        ("tea, 12 fl oz", "size", ("12 fl oz | 355ml", "16 fl oz | 473ml"), ("12 fl oz | 355ml",)),
        ("usb-c hubs in black", "color", ("red | black", "black"), ("black",)),
        ("a slim shirt with fit type: short", "fit type", ("slim", "short"), ("short",)),
        ("a mug", "color", ("red", "sky"), ()),
        ("a mug", "color", ("[", ""), ()),
        ("a mug, the color should be red", "color", ("--", "red"), ("red",)),
    ],
)
def test_a_value_is_named_when_its_words_stand_side_by_side(task, group, values, named):
    assert wanted(bind(task), values, group) == named


@given(st.text(), st.lists(st.text(), max_size=4))
def test_any_text_is_an_instruction(task, values):
    assert set(wanted(bind(task), tuple(values))) <= set(values)


def named_options(binding, product):
    return [v for name, vs in product.options.items() for v in wanted(binding, vs, name)]


@pytest.mark.parametrize("goals", ["human", "synthetic"])
def test_the_options_of_embedded_goals_are_found_in_their_instructions(goals):
    env = WebShopEnv(goals=goals)
    exact = 0
    for goal in env.goals[:1000]:
        values = named_options(
            bind(goal.instruction), env.catalogue[env.catalogue.position(goal.asin)]
        )
        assert set(goal.options) <= set(values)
        exact += set(goal.options) == set(values)
    assert exact > 990


@recordings
def test_so_are_those_of_people_who_misspell():
    with gzip.open(DATA / "catalog_1000.jsonl.gz", "rt") as lines:
        rows = {row["asin"]: row for row in map(json.loads, lines)}
    right = matches = asked = 0
    with gzip.open(DATA / "goals_human.json.gz", "rt") as file:
        goals = json.load(file)
    for goal in goals:
        groups = rows[goal["asin"]]["customization_options"] or {}
        values = {
            name: tuple(o["value"].strip().replace("/", " | ").lower() for o in group or ())
            for name, group in groups.items()
        }
        named = {
            v for name, vs in values.items() for v in wanted(bind(goal["instruction_text"]), vs)
        }
        right += len(named & set(goal["goal_options"]))
        matches += len(named)
        asked += len(goal["goal_options"])
    assert right / asked > 0.97
    assert right / matches > 0.95


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("search[red mug]", Action("search", "red mug")),
        ("click[Buy Now]", Action("click", "buy now")),
        (" click [ red ] ", Action("click", "red")),
        ("click[red] now", Action("click", "red")),
        ("click[bundle [set of 2]]", Action("click", "bundle [set of 2]")),
        ("", Action()),
        ("search[]", Action()),
        ("search[ ]", Action()),
        ("search", Action()),
        ("buy[mug]", Action()),
        ("Click[red]", Action()),
        ("]click[", Action()),
    ],
)
def test_an_action_is_taken_apart_or_has_no_verb(text, action):
    assert read_action(text) == action


@given(st.text(alphabet="[]\n clicksearh"))
def test_any_text_is_read(text):
    assert isinstance(read_action(text), Action)


def test_a_very_long_action_is_read_at_once():
    for text in ("[" * 1_000_000, "click[" + "]" * 1_000_000, "search[" * 200_000):
        read_action(text)


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


@recordings
def test_pages_of_the_original_are_read_whole():
    pages = dict.fromkeys(("search", "results", "item", "detail", "done"), 0)
    fixed = {"back to search", "< prev", "next >", "description", "features", "reviews", "buy now"}
    episodes = []
    for name in ("human", "synthetic"):
        with gzip.open(DATA / f"episodes_{name}.jsonl.gz", "rt") as lines:
            episodes += map(json.loads, lines)
    for episode in episodes:
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
