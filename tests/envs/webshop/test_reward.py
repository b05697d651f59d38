"""Scores by hand: each part, and the total."""

import pytest

from tests.envs.webshop.test_simulator import goal, product
from trca.envs.webshop.compat import quirks_of
from trca.envs.webshop.reward import noun_extractor, score_purchase


def score(bought=None, options=None, asked=None, compat="clean"):
    bought = product(0) if bought is None else bought
    asked = goal() if asked is None else asked
    nouns = noun_extractor("recorded")
    return score_purchase(bought, options or {}, asked, nouns, quirks_of(compat))


def test_what_was_asked_for_scores_one():
    purchase = score(options={"color": "red"})
    assert purchase.total == 1.0
    assert (purchase.r_type, purchase.r_att, purchase.r_option, purchase.r_price) == (
        1.0,
        1.0,
        1.0,
        True,
    )
    assert (purchase.title_score, purchase.query_match, purchase.category_match) == (
        1.0,
        True,
        True,
    )


def test_options_that_were_not_chosen_cost_their_share():
    assert score().total == pytest.approx(2 / 3)
    assert score(options={"color": "sky blue"}).r_option == 0.0
    assert score(options={"any name": "dark red"}).r_option == 0.0  # "dark" is tried first.
    assert score(options={"any name": "bright red"}).r_option == 1.0


def test_an_option_of_the_goal_counts_once_for_all_values_that_match():
    purchase = score(options={"color": "red", "trim": "red", "size": "small"})
    assert (purchase.total, purchase.r_option) == (1.0, 1.0)


def test_a_goal_without_options_asks_for_none():
    purchase = score(asked=goal(options=()))
    assert (purchase.total, purchase.r_option) == (1.0, None)


def test_too_high_a_price_costs_its_share():
    purchase = score(asked=goal(price_upper=12.4, options=()))
    assert (purchase.total, purchase.r_price) == (0.5, False)
    assert score(asked=goal(price_upper=12.5)).r_price


@pytest.mark.parametrize(
    ("attribute", "changes", "matches"),
    [
        ("resistant chip", {}, True),
        ("camp fires", {}, True),
        ("light. chip", {"bullets": ("Light.", "Chip")}, True),
        ("enamel mug", {}, True),
        ("dishwasher safe", {}, False),
        ("Light", {"attributes": ()}, False),  # Text is lower-cased, the attribute is not.
    ],
)
def test_an_attribute_counts_when_listed_or_in_the_text(attribute, changes, matches):
    asked = goal(attributes=(attribute,), options=())
    assert score(product(0, **changes), asked=asked).r_att == float(matches)


OTHER = {"query": "kettles", "product_category": "Garden › Fire"}


@pytest.mark.parametrize(
    ("title", "changes", "r_type", "title_score"),
    [
        ("Mug", OTHER, 1.0, 1 / 3),
        ("a b c d Mug", {"title": "mug a e f g"}, 1.0, 0.4),
        ("Mug", {}, 1.0, 1 / 3),
        ("Kettle", {}, 0.0, 0.0),
        ("Kettle", OTHER, 0.0, 0.0),
    ],
)
def test_the_kind_of_product_weighs_the_score(title, changes, r_type, title_score):
    wanted = changes.get("title", "Enamel Mug Number")
    changes = {name: value for name, value in changes.items() if name != "title"}
    purchase = score(product(0, title=title, **changes), asked=goal(title=wanted))
    assert (purchase.r_type, purchase.title_score) == (r_type, pytest.approx(title_score))
    assert purchase.total == pytest.approx(r_type * 2 / 3)


def test_few_words_in_common_weigh_a_tenth_and_no_match_a_half():
    many = " ".join("abcdefghijk")
    assert score(product(0, title="a"), asked=goal(title=many)).r_type == 0.1
    some = " ".join("abcdef")
    far = score(product(0, title="a", **OTHER), asked=goal(title=some))
    assert (far.r_type, far.query_match, far.category_match) == (0.5, False, False)
    assert score(product(0, title="a", **OTHER | {"query": "enamel mugs"})
                 , asked=goal(title=some)).r_type == 1.0  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "title_score", "r_type"),
    [
        ("a b c d", 1 / 4, 1.0),
        ("a b c d e", 0.2, 0.5),  # A title score must be above 0.2.
        ("a b c d e f g h i j", 0.1, 0.5),  # Only a title score below 0.1 costs more.
        ("a b c d e f g h i j k", 1 / 11, 0.1),
    ],
)
def test_the_limits_of_the_title_score_are_strict(wanted, title_score, r_type):
    result = score(product(0, title="a", **OTHER), asked=goal(title=wanted))
    assert (result.title_score, result.r_type) == (pytest.approx(title_score), r_type)


def test_a_title_without_nouns_scores_a_fifth_and_repeats_count_below_the_line():
    assert score(asked=goal(title="12")).title_score == 0.2
    assert score(product(0, title="mug"), asked=goal(title="mug mug")).title_score == 0.5


def test_categories_match_by_two_parts_in_any_order():
    near = product(0, product_category="Mugs›Kitchen › Gifts", query="x")
    assert score(near).category_match
    twice = product(0, product_category="Kitchen › Kitchen", query="x")
    assert not score(twice).category_match
