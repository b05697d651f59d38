"""The binder parses human and generated instructions: words, price limit, option values."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.webshop.binding import WebShopBinding, bind, query_words, wanted
from trca.envs.webshop.env import WebShopEnv

DATA = Path(__file__).parents[4] / "shared" / "data" / "webshop"


def test_an_instruction_is_its_telling_words_and_its_price_limit():
    binding = bind(
        "i'm looking for two enamel mugs, sky please, and price lower than 70.50 dollars"
    )
    assert binding.words == ("enamel", "mug", "sky")
    assert binding.phrasing[-3:] == ("mugs", "sky", "please")
    assert binding.price_limit == 70.5
    assert query_words(binding) == ("enamel", "mugs", "sky")


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


@pytest.mark.skipif(
    not DATA.exists(), reason=f"the recordings are not beside the repository: {DATA}"
)
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


def test_the_default_binding_asks_for_nothing():
    assert bind("") == WebShopBinding()
