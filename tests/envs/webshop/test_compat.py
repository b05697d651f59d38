"""Every quirk of the original is present under ``original`` and absent under ``clean``."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envs.webshop.catalogues import catalogue_of
from tests.envs.webshop.test_simulator import goal, product
from trca.envs.webshop.compat import Quirks, quirks_of
from trca.envs.webshop.simulator import Simulator, _read_loosely

ODD = product(
    50,
    title="Odd Kettle",
    description="It whistles.",
    options={
        "style": ("description", "plain [steel]", "search", "matte"),
        "finish": ("matte", "gloss"),
    },
)


@pytest.fixture(scope="module")
def catalogue():
    return catalogue_of([*(product(number) for number in range(12)), ODD])


@pytest.fixture
def play(catalogue):
    """Plays actions and returns the simulator."""

    def act(compat, *actions, mode="text", asked=None):
        simulator = Simulator(catalogue, (asked or goal(),), mode, compat)
        simulator.reset(0)
        for action in actions:
            simulator.step(action)
        return simulator

    return act


def test_searching_anywhere(play):
    way = ("search[mug]", "click[mug000]", "search[kettle]")
    assert play("original", *way).page == "results"
    assert play("clean", *way).page == "item"


def test_acting_after_the_purchase(play):
    way = ("search[mug]", "click[mug000]", "click[buy now]")
    original, clean = play("original", *way), play("clean", *way)
    assert original.step("nonsense") == (original.observation, 0.0, False)
    for action in way:
        _, again, over = original.step(action)
        assert clean.step(action) == (clean.observation, 0.0, True)
        assert not clean.accepted
    assert (again, over) == (pytest.approx(2 / 3), True)


def test_paging_without_end(play):
    way = ("search[mug]", *["click[next >]"] * 5)
    original, clean = play("original", *way), play("clean", *way)
    assert (original.number, clean.number) == (6, 2)
    assert original.clickables == ("back to search", "< prev", "next >")
    assert clean.clickables[:3] == ("back to search", "< prev", "mug010")


def test_the_page_that_the_url_seems_to_name(play):
    way = ("search[mug search_results]", "click[mug000]", "click[< prev]")
    original, clean = play("original", *way), play("clean", *way)
    assert (original.number, clean.number) == (0, 1)
    assert "Page 0 (Total results: 12)" in original.observation
    assert original.clickables == ("back to search", "next >")


def test_a_blank_search(play):
    assert "Total results: 0" in play("original", "search[ ]").observation
    assert play("clean", "search[ ]").page == "search"


@pytest.mark.parametrize(
    ("action", "original", "clean"),
    [
        ("search[mug]", True, True),
        ("search[mug] and more", True, False),
        (" search[mug]", False, True),
        ("search[mug]\n", True, True),
        ("search[a][mug]", False, True),
        ("search[mug\nred]", False, True),
        ("search[[mug]]", False, True),
        ("so: search[mug]", False, False),
        ("search [mug]", False, True),
        ("search[mug] ", True, True),
        ("\tsearch[ mug ]\n", False, True),
    ],
)
def test_how_an_action_is_read(play, action, original, clean):
    assert play("original", action).accepted is original
    assert play("clean", action).accepted is clean


def test_blanks_around_what_is_clicked(play):
    way = ("search[mug]", "click[mug000]", "click[ red ]")
    assert dict(play("original", *way).options) == {}
    assert dict(play("clean", *way).options) == {"color": "red"}


def test_prices_in_the_order_of_the_catalogue():
    ranged = [
        replace(product(number), price_label="$1 to $9", price_range=(1.0, 9.0))
        for number in range(6)
    ]

    def prices(compat, products):
        catalogue = catalogue_of(products, seed=3, compat=compat)
        return {each.asin: each.price for each in (catalogue[at] for at in range(len(catalogue)))}

    assert prices("clean", ranged) == prices("clean", ranged[::-1])
    assert prices("original", ranged) != prices("original", ranged[::-1])
    stream = random.Random(3)
    drawn = [stream.uniform(1.0, 9.0) for _ in ranged]
    assert list(prices("original", ranged).values()) == drawn
    for compat in ("clean", "original"):
        assert quirks_of(compat).prices_in_order is (compat == "original")


def test_every_quirk_is_described():
    for name in Quirks.__dataclass_fields__:
        assert f"    {name}: " in Quirks.__doc__


def test_a_bracket_in_an_option(play):
    way = ("search[kettle]", "click[mug050]", "click[plain [steel]]")
    assert dict(play("original", *way).options) == {}
    assert dict(play("clean", *way).options) == {"style": "plain [steel]"}


def test_an_option_named_like_a_button(play):
    way = ("search[kettle]", "click[mug050]")
    original, clean = play("original", *way), play("clean", *way)
    assert original.clickables[2:] == (
        *("description", "features", "reviews", "buy now", "plain [steel]", "search"),
        *("matte", "gloss"),
    )
    assert clean.clickables[6:] == (
        *("style: description", "plain [steel]", "style: search", "style: matte"),
        *("finish: matte", "gloss"),
    )
    assert "[SEP] style [SEP] style: description [SEP] plain [steel]" in clean.observation
    for simulator in (original, clean):
        simulator.step("click[description]")
        assert simulator.page == "sub"
        simulator.step("click[< prev]")
    original.step("click[search]")
    assert not original.accepted
    clean.step("click[style: search]")
    assert dict(clean.options) == {"style": "search"}


def test_one_value_in_two_groups(play):
    way = ("search[kettle]", "click[mug050]")
    original, clean = play("original", *way, "click[matte]"), play("clean", *way)
    assert dict(original.options) == {"finish": "matte"}
    clean.step("click[style: matte]")
    clean.step("click[finish: matte]")
    assert dict(clean.options) == {"style": "matte", "finish": "matte"}


def test_marks_by_the_url(play):
    way = ('search[mug "red"]', "click[mug000]", "click[large]")
    original = play("original", *way, mode="text_rich").observation
    clean = play("clean", *way, mode="text_rich").observation
    assert "[clicked button] red [clicked button_]" in original
    assert "[button] red [button_]" in clean
    for page in (original, clean):
        assert "[clicked button] large [clicked button_]" in page


def test_the_score_on_the_last_page(play):
    way = ("search[mug]", "click[mug000]", "click[red]", "click[buy now]")
    original, clean = play("original", *way), play("clean", *way)
    assert original.observation.endswith(
        "Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP] Reward Details [SEP] None"
    )
    assert 'options [SEP] {"color": "red"} [SEP] attrs' in original.observation
    assert clean.observation.endswith("MUG000 [SEP] color: red")
    assert original.score == clean.score
    assert "score" not in clean.observation
    assert "1.0" not in clean.observation


def test_options_compared_as_pairs(play):
    asked = goal(option_names=("color",), options=("red",))
    way = ("search[mug]", "click[mug000]", "click[red]", "click[buy now]")
    for compat in ("original", "clean"):
        assert play(compat, *way, asked=asked).score.r_option == 1.0
    pair = goal(option_names=("large cup",), options=("one",))
    wrong = ("search[mug]", "click[mug000]", "click[large]", "click[buy now]")
    assert play("original", *wrong, asked=pair).score.r_option == 1.0
    assert play("clean", *wrong, asked=pair).score.r_option == 0.0


@pytest.mark.parametrize("query", ["<r>", "<a> chip resistant", "<c> kitchen", "<q> enamel mugs"])
def test_the_hidden_queries_are_words_in_both(play, query):
    for compat in ("original", "clean"):
        simulator = play(compat, f"search[{query}]")
        assert simulator.accepted
        assert simulator.hits == simulator.catalogue.search(query, 50)


def test_what_is_kept_in_both(play):
    way = ("search[mug]", "click[mug000]", "click[red]")
    for compat in ("original", "clean"):
        assert dict(play(compat, *way, "click[red]").options) == {"color": "red"}
        assert dict(play(compat, *way, "click[< prev]").options) == {}
        assert play(compat, *way[:2], "click[buy now]").done


def test_text_mode_does_not_show_what_was_chosen_in_either(play):
    way = ("search[mug]", "click[mug000]")
    for compat in ("original", "clean"):
        simulator = play(compat, *way)
        assert simulator.step("click[red]")[0] == play(compat, *way).observation


@given(st.text("ab[]\n ", max_size=12))
def test_an_action_is_read_as_by_the_originals_pattern(action):
    match = re.match(r"(.+)\[(.+)\]", action)
    assert _read_loosely(action) == (match.groups() if match else ("", ""))
