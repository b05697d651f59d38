"""WebShop's adapter on real pages: facts of each transition, no hidden state."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.envs.webshop.catalogues import catalogue_of
from trca.envs.annotate import load_judge
from trca.envs.webshop.adapter import WebShopAdapter
from trca.envs.webshop.data.products import Product
from trca.envs.webshop.simulator import Simulator
from trca.envs.webshop.tasks import Goal

TASK = "i want a red wool hat in small, packable, and price lower than 20.00 dollars"


def product(asin, title, price, options=None, **changes):
    values = {
        "asin": asin,
        "title": title,
        "description": f"Description of {title}.",
        "bullets": ("Warm.", "Packable."),
        "price_label": f"${price}",
        "price_range": (price,),
        "price": price,
        "category": "fashion",
        "product_category": "Clothing › Hats › Wool",
        "query": "wool hats",
        "options": options or {},
        "attributes": ("soft lining",),
        "instruction": None,
        "instruction_attributes": (),
    } | changes
    return Product(**values)


SIZES = {"size": ("small", "large"), "color": ("red", "blue")}
PRODUCTS = (
    product("HAT1", "Wool Hat", 12.5, SIZES),
    product("HAT2", "Packable Red Wool Hat", 30.0, SIZES),
    product("HAT3", "Packable Wool Hat", 15.0, {"size": ("small", "large")}),
    product("HAT4", "Felt Hat", 5.0, price_label="$5.0 to $35.0", price_range=(5.0, 35.0)),
)
GOAL = Goal(
    asin="HAT1",
    category="fashion",
    query="wool hats",
    title="Wool Hat",
    product_category="Clothing › Hats › Wool",
    instruction=TASK,
    attributes=("soft lining",),
    price_upper=20.0,
    option_names=(),
    options=("red", "small"),
    weight=1.0,
)


class Shopper:
    """Plays a simulator and feeds an adapter."""

    def __init__(self, products=PRODUCTS, goal=GOAL, mode="text", compat="clean", seed=0):
        catalogue = catalogue_of(products, seed=seed)
        self.simulator = Simulator(catalogue, [goal], mode, compat)
        self.adapter = WebShopAdapter()
        self.judge = load_judge("webshop", WebShopAdapter)
        self.adapter.reset(goal.instruction, self.simulator.reset(0), self.offers)

    @property
    def offers(self):
        clicks = [f"click[{name}]" for name in self.simulator.clickables if name != "search"]
        return ["search[<your query>]"] * (self.simulator.page == "search") + clicks

    def __call__(self, action):
        observation, self.score, _ = self.simulator.step(action)
        return self.adapter.step(action, observation, self.offers)

    def fired(self, action):
        judgments = self.judge.judge(self.adapter.binding, self(action))
        return {name for name, flag in zip(self.judge.library.ids, judgments, strict=True) if flag}


@pytest.fixture(params=["text", "text_rich"])
def shopper(request):
    return Shopper(mode=request.param)


def test_a_listing_counts_what_is_affordable_and_new(shopper):
    first = shopper("search[red wool hat]")
    assert first.verb == "search"
    assert first.accepted
    assert first.available
    assert (first.query_words, first.query_lacking) == (3, 2)
    assert (first.new_match, first.known_match) == (3, 0)
    shopper("click[back to search]")
    again = shopper("search[wool hat red]")
    assert (again.new_match, again.known_match) == (0, 3)
    assert again.repeated


def test_an_opened_product_shows_its_words_options_and_rivals(shopper):
    shopper("search[wool hat]")
    facts = shopper("click[hat1]")
    assert facts.target == "product"
    assert facts.opened
    assert facts.affordable
    assert facts.rivals == 1
    assert facts.new_options == ("small", "red")
    assert facts.missing == ("size", "color")
    assert (facts.shown, facts.lacking, facts.new_words) == (4, 1, 4)
    shopper("click[< prev]")
    closer = shopper("click[hat3]")
    assert closer.rivals == 0
    assert closer.new_words == 1
    shopper("click[< prev]")
    dear = shopper("click[hat2]")
    assert not dear.affordable
    shopper("click[< prev]")
    back = shopper("click[hat1]")
    assert not back.opened
    assert not back.repeated
    shopper("click[< prev]")
    assert shopper("click[hat1]").repeated


def test_options_are_chosen_one_a_group(shopper):
    shopper("search[wool hat]")
    shopper("click[hat1]")
    wrong = shopper("click[large]")
    assert (wrong.chosen, wrong.missing) == ("", ("size", "color"))
    right = shopper("click[Small]")
    assert (right.chosen, right.missing) == ("small", ("color",))
    assert shopper("click[small]").repeated
    ready = shopper("click[red]")
    assert ready.missing == ()
    assert not ready.was_ready
    bought = shopper("click[buy now]")
    assert bought.target == "buy"
    assert bought.was_ready
    assert bought.page == "done"
    assert (bought.shown, bought.missing) == (4, ())


def test_details_add_words_and_options_stay_chosen(shopper):
    shopper("search[wool hat]")
    shopper("click[hat1]")
    shopper("click[red]")
    details = shopper("click[features]")
    assert details.page == "detail"
    assert (details.shown, details.new_words) == (5, 1)
    assert shopper("click[< prev]").missing == ("size",)
    assert shopper.adapter.beliefs.chosen == {"color": "red"}
    shopper("click[back to search]")
    assert shopper.adapter.beliefs.chosen == {}


@pytest.mark.parametrize(
    ("action", "verb", "target", "available"),
    [
        ("", "", "", False),
        ("buy the hat", "", "", False),
        ("search[ ]", "", "", False),
        ("search[hat]", "search", "", False),
        ("click[buy now]", "click", "buy", False),
        ("click[hat9]", "click", "unknown", False),
    ],
)
def test_what_is_not_offered_is_not_accepted_and_changes_nothing(
    shopper, action, verb, target, available
):
    shopper("search[wool hat]")
    before = shopper.adapter.context, shopper.adapter.memory
    facts = shopper(action)
    assert (facts.verb, facts.target, facts.available) == (verb, target, available)
    assert not facts.accepted
    assert facts.parsed == (action != "")
    assert (shopper.adapter.context, shopper.adapter.memory) == before


def test_the_context_names_page_product_options_words_and_stage(shopper):
    contexts = [shopper.adapter.context]
    actions = ("search[wool hat]", "click[hat1]", "click[blue]", "click[red]", "click[buy now]")
    for action in actions:
        shopper(action)
        contexts.append(shopper.adapter.context)
    assert contexts == [
        "search|none|options 0/0+0|words 0|start",
        "results|hat3|options 0/0+0|words 3|listed",
        "item|hat1|options 0/2+0|words 4|opened",
        "item|hat1|options 0/2+1|words 4|opened",
        "item|hat1|options 1/2+0|words 4|opened",
        "done|hat1|options 1/2+0|words 4|opened",
    ]


def test_the_memory_is_one_line_with_what_can_be_clicked(shopper):
    assert shopper.adapter.memory == "Nothing searched."
    shopper("search[packable hat]")
    assert shopper.adapter.memory == (
        "Page 1 for packable hat: packable wool hat [hat3], hat [hat4], wool hat [hat1]."
    )
    shopper("click[hat1]")
    shopper("click[red]")
    assert shopper.adapter.memory == (
        "At wool hat $13. size: [small] [large]. color: [red] [blue]. Chosen red."
    )
    shopper("click[back to search]")
    assert shopper.adapter.memory == "Searched packable hat."
    shopper("search[wool]")
    assert "wool hat [hat1] seen" in shopper.adapter.memory


@pytest.mark.parametrize("compat", ["clean", "original"])
@pytest.mark.parametrize(
    "hidden",
    [
        {"goal": {"asin": "HAT4", "title": "Rubber Boot"}},
        {"goal": {"attributes": ("waterproof",), "options": ("blue",)}},
        {"goal": {"price_upper": 1.0}},
        {"product": {"attributes": ("waterproof",)}},
        {"seed": 2},
    ],
)
def test_environments_that_differ_only_in_hidden_state_are_judged_alike(hidden, compat):
    """A different goal, hidden attributes and drawn prices change the scores only."""
    goal = dataclasses.replace(GOAL, **hidden.get("goal", {}))
    products = tuple(dataclasses.replace(p, **hidden.get("product", {})) for p in PRODUCTS)
    rng = np.random.default_rng(0)
    scores = set()
    for _ in range(30):
        one = Shopper(compat=compat)
        other = Shopper(products, goal, compat=compat, seed=hidden.get("seed", 0))
        for _ in range(8):
            offers = [*one.offers, *one.offers, "", "click[hat1]", "click[buy now]"]
            action = offers[int(rng.integers(len(offers)))].replace("<your query>", "wool hat red")
            facts = one(action), other(action)
            assert facts[0] == facts[1]
            assert one.adapter.context == other.adapter.context
            assert one.adapter.memory == other.adapter.memory
            scores.add((one.score, other.score))
            if one.simulator.done:
                break
    assert any(score != another for score, another in scores)


@given(st.lists(st.one_of(st.text(), st.text("[]clik searhat1<>\n")), max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_actions_are_judged(actions):
    shopper = Shopper()
    for text in actions:
        for action in (text, f"search[{text}]", f"click[{text}]"):
            shopper.fired(action)
    assert not shopper.judge.errors
