"""A simulator moves between the pages of a shop, in both observation modes."""

import pytest

from tests.envs.webshop.catalogues import catalogue_of
from trca.envs.webshop.data.products import Product
from trca.envs.webshop.simulator import Simulator
from trca.envs.webshop.tasks import Goal


def product(number, **changes):
    values = {
        "asin": f"MUG{number:03d}",
        "title": f"Enamel Mug Number {number}",
        "description": "A mug for camp fires.",
        "bullets": ("Chip resistant.", "Light."),
        "price_label": "$12.5",
        "price_range": (12.5,),
        "price": 12.5,
        "category": "kitchen",
        "product_category": "Kitchen › Mugs › Enamel",
        "query": "enamel mugs",
        "options": {"color": ("red", "sky blue"), "size": ("small", "large")},
        "attributes": ("chip resistant",),
        "instruction": None,
        "instruction_attributes": (),
    } | changes
    return Product(**values)


def goal(**changes):
    values = {
        "asin": "MUG000",
        "category": "kitchen",
        "query": "enamel mugs",
        "title": "Enamel Mug Number 0",
        "product_category": "Kitchen › Mugs › Enamel",
        "instruction": "i want a red enamel mug, and price lower than 20.00 dollars",
        "attributes": ("chip resistant",),
        "price_upper": 20.0,
        "option_names": (),
        "options": ("red",),
        "weight": 1.0,
    } | changes
    return Goal(**values)


@pytest.fixture(scope="module")
def catalogue():
    return catalogue_of([product(number) for number in range(23)])


@pytest.fixture
def simulator(catalogue):
    return Simulator(catalogue, (goal(), goal(asin="MUG001", options=())))


HEAD = "Instruction: [SEP] i want a red enamel mug, and price lower than 20.00 dollars [SEP] "


def test_an_episode_in_text(simulator):
    assert simulator.reset(0) == f"WebShop [SEP] {HEAD}Search"
    assert simulator.page == "search"
    assert simulator.clickables == ("search",)

    observation, reward, done = simulator.step("search[enamel mug]")
    assert (reward, done, simulator.accepted) == (0.0, False, True)
    assert observation.startswith(
        f"{HEAD}Back to Search [SEP] Page 1 (Total results: 23) [SEP] Next > [SEP] "
        "MUG000 [SEP] Enamel Mug Number 0 [SEP] $12.5 [SEP] MUG001"
    )
    assert simulator.page != "search"
    assert simulator.clickables[:4] == ("back to search", "next >", "mug000", "mug001")
    assert len(simulator.clickables) == 12

    observation, _, _ = simulator.step("click[mug000]")
    assert observation == (
        f"{HEAD}Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] sky blue [SEP] size [SEP] "
        "small [SEP] large [SEP] Enamel Mug Number 0 [SEP] Price: $12.5 [SEP] Rating: N.A. [SEP] "
        "Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert simulator.clickables[:6] == (
        *("back to search", "< prev", "description", "features", "reviews", "buy now"),
    )
    assert simulator.clickables[6:] == ("red", "sky blue", "small", "large")

    item = observation
    observation, _, _ = simulator.step("click[features]")
    assert observation == f"{HEAD}Back to Search [SEP] < Prev [SEP] Chip resistant. [SEP] Light."
    assert simulator.step("click[< prev]")[0] == item
    assert simulator.step("click[Red]")[0] == item
    assert dict(simulator.options) == {"color": "red"}

    observation, reward, done = simulator.step("click[buy now]")
    assert (reward, done) == (1.0, True)
    assert observation == (
        "Thank you for shopping with us! [SEP] Purchased [SEP] MUG000 [SEP] color: red"
    )
    assert simulator.clickables == ()


def test_an_episode_in_rich_text(catalogue):
    simulator = Simulator(catalogue, (goal(instruction="a mug"),), "text_rich")
    assert simulator.reset(0) == "WebShop\nInstruction: \na mug\n[button] Search [button_]\n"
    page, _, _ = simulator.step("search[enamel mug]")
    assert page.startswith(
        "Instruction:\na mug\n[button] Back to Search [button_]\nPage 1 (Total results: 23)\n"
        "[button] Next > [button_]\n\n[button] MUG000 [button_]\nEnamel Mug Number 0\n$12.5\n"
    )
    simulator.step("click[mug000]")
    simulator.step("click[small]")
    page, _, _ = simulator.step("click[sky blue]")
    assert page == (
        "You have clicked small.\nYou have clicked sky blue.\n"
        "Instruction:\na mug\n[button] Back to Search [button_]\n[button] < Prev [button_]\n"
        "color\n  [button] red [button_]\n  [clicked button] sky blue [clicked button_]\n"
        "size\n  [clicked button] small [clicked button_]\n  [button] large [button_]\n"
        "Enamel Mug Number 0\nPrice: $12.5\nRating: N.A.\n[button] Description [button_]\n"
        "[button] Features [button_]\n[button] Reviews [button_]\n[button] Buy Now [button_]\n"
    )
    page, _, _ = simulator.step("click[< prev]")
    assert "\n[clicked button] MUG000 [clicked button_]\n" in page
    assert "\n[button] MUG001 [button_]\n" in page


def test_paging_ends_with_the_results(simulator):
    simulator.reset(0)
    simulator.step("search[enamel mug]")
    simulator.step("click[next >]")
    assert simulator.clickables[:3] == ("back to search", "< prev", "next >")
    observation, _, _ = simulator.step("click[next >]")
    assert "Page 3 (Total results: 23) [SEP] < Prev [SEP] MUG020" in observation
    assert simulator.clickables == ("back to search", "< prev", "mug020", "mug021", "mug022")
    assert simulator.step("click[next >]")[0] == observation
    assert not simulator.accepted
    simulator.step("click[< prev]")
    assert simulator.number == 2


def test_going_back_to_the_results_drops_what_was_chosen(simulator):
    simulator.reset(0)
    for action in ("search[enamel mug]", "click[next >]", "click[mug012]", "click[red]"):
        simulator.step(action)
    assert dict(simulator.options) == {"color": "red"}
    simulator.step("click[< prev]")
    assert (simulator.page, simulator.number) == ("results", 2)
    assert simulator.product is None
    simulator.step("click[mug012]")
    assert dict(simulator.options) == {}


def test_back_to_search_forgets_everything(simulator):
    simulator.reset(0)
    first = simulator.observation
    for action in ("search[enamel mug]", "click[mug000]", "click[red]", "click[description]"):
        simulator.step(action)
    assert simulator.step("click[back to search]") == (first, 0.0, False)
    assert (simulator.query, simulator.hits, simulator.product) == ("", [], None)


def test_another_option_of_a_group_replaces_the_first(simulator):
    simulator.reset(0)
    for action in ("search[mug]", "click[mug000]", "click[red]", "click[sky blue]"):
        simulator.step(action)
    assert dict(simulator.options) == {"color": "sky blue"}
    simulator.step("click[sky blue]")
    assert dict(simulator.options) == {"color": "sky blue"}


def test_a_search_that_finds_nothing_shows_an_empty_page(simulator):
    simulator.reset(0)
    observation, _, _ = simulator.step("search[zeppelin]")
    assert observation == f"{HEAD}Back to Search [SEP] Page 1 (Total results: 0)"
    assert simulator.clickables == ("back to search",)


@pytest.mark.parametrize(
    "action",
    [
        *("", " ", "search", "search[]", "click[]", "click[search]", "click[mug000]", "click[red]"),
        *("Search[mug]", "CLICK[search]", "buy[mug]", "search mug", "[mug]", "search[mug", "\x00"),
        *("click[< prev]", "click[next >]", "click[-1]", "click[0]", "search[<your query>"),
    ],
)
def test_what_the_page_does_not_offer_changes_nothing(simulator, action):
    first = simulator.reset(0)
    assert simulator.step(action) == (first, 0.0, False)
    assert not simulator.accepted
    assert simulator.clickables == ("search",)


def test_a_goal_that_is_not_there_is_refused(simulator):
    for index in (-1, 2):
        with pytest.raises(IndexError, match="choose 0 to 1"):
            simulator.reset(index)
