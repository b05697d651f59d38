"""The score by hand: each part, fuzzy equality as by thefuzz, and the nouns of titles."""

import importlib.util
import re
from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envs.webshop.test_simulator import goal, product
from trca.envs.webshop.compat import quirks_of
from trca.envs.webshop.reward import (
    COLOURS,
    colour_or_self,
    noun_extractor,
    says_the_same,
    score_purchase,
)


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


def token_set_ratio(first, second):
    """The definition of thefuzz 0.19."""

    def processed(text):
        text = text.translate(dict.fromkeys(range(128, 256)))
        return re.sub(r"\W", " ", text).lower().strip()

    def ratio(a, b):
        if a == b:
            return 100
        return round(100 * SequenceMatcher(None, a, b).ratio()) if a and b else 0

    p1, p2 = processed(first), processed(second)
    if not p1 or not p2:
        return 0
    tokens1, tokens2 = set(p1.split()), set(p2.split())
    common = " ".join(sorted(tokens1 & tokens2))
    one = f"{common} {' '.join(sorted(tokens1 - tokens2))}".strip()
    two = f"{common} {' '.join(sorted(tokens2 - tokens1))}".strip()
    return max(ratio(common, one), ratio(common, two), ratio(one, two))


WORDS = """oven safe oven-safe ovens save heavy duty heavi 12 12oz oz wash machine machines XL xl
piña pina ™ café caf 30cm 30 cm × us\xa0da usda ǅ ß ⌀"""
words = st.sampled_from(WORDS.split(" "))
phrases = st.lists(words, max_size=5).map(" ".join)


@given(phrases | st.text(max_size=30), phrases | st.text(max_size=30))
def test_phrases_of_products_are_compared_as_by_thefuzz(first, second):
    assert says_the_same(first, second) == (token_set_ratio(first, second) > 85)


@given(st.text(max_size=30), st.integers(0, 29), st.characters())
def test_strings_that_differ_in_one_place_are_compared_as_by_thefuzz(text, place, other):
    changed = text[:place] + other + text[place + 1 :]
    assert says_the_same(text, changed) == (token_set_ratio(text, changed) > 85)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("heavy duty", "duty heavy", True),
        ("heavy duty steel", "heavy duty", True),
        ("heavy-duty", "Heavy Duty!", True),
        # The original deletes characters of Latin-1 outside ASCII.
        ("non\xa0stick", "nonstick", True),
        ("café", "caf", True),
        ("easy store", "easy carry", False),
        ("dairy free", "dairy fre", True),
        ("", "", False),
        ("™", "™", False),
    ],
)
def test_known_pairs(first, second, same):
    assert says_the_same(first, second) is same


def test_a_value_is_reduced_to_the_first_colour_in_it():
    assert len(COLOURS) == len(set(COLOURS)) == 102
    assert colour_or_self("violet lavender") == "lavender"
    assert colour_or_self("steelivy fuchsia") == "fuchsia"
    assert colour_or_self("titanium") == "tan"
    assert colour_or_self("xl") == "xl"


def test_recorded_nouns_are_the_tokens_that_start_with_a_letter():
    nouns = noun_extractor("recorded")
    assert nouns("Tan, 12oz™ Mug – tan_2 (XL)!") == ("tan", "mug", "tan_2", "xl")
    assert nouns("12 – 3") == ()


@pytest.mark.parametrize(
    ("title", "nouns"),
    [
        ("Stainless Steel Insulated Water Bottle with Straw, 32 oz", "steel water bottle straw oz"),
        ("Women's Casual Long Sleeve Cotton T-Shirt Pack of 2", "women sleeve cotton shirt pack"),
        ("Organic Gluten-Free Oat Granola for Breakfast", "gluten oat granola breakfast"),
        ("Heavy Duty HDMI Cable, Braided, Fully Shielded", "duty hdmi cable"),
        ("Adjustable Wooden Bed Frame for Kids", "bed frame kids"),
        ("Wireless Bluetooth Earbuds with Charging Case", "bluetooth earbuds charging case"),
        ("Red Seed Crackers", "seed crackers"),
        ("the heavy and the durable", "durable"),
        ("", ""),
        ("12 – 3", ""),
    ],
)
def test_simple_nouns_name_the_thing_and_not_its_praise(title, nouns):
    assert noun_extractor("simple")(title) == tuple(nouns.split())


def test_spacy_without_its_model_says_how_to_get_it():
    with pytest.raises(ModuleNotFoundError, match="spacy download no_such_model"):
        noun_extractor("spacy:no_such_model")


def test_spacy_nouns_are_those_the_model_tags(tmp_path):
    if importlib.util.find_spec("spacy") is None:
        pytest.skip("spaCy is not installed")
    import spacy

    model = spacy.blank("en")
    model.add_pipe("attribute_ruler").add(
        patterns=[[{"LOWER": "mug"}]], attrs={"POS": "NOUN"}
    )  # fmt: skip
    model.to_disk(tmp_path / "model")
    assert noun_extractor(f"spacy:{tmp_path / 'model'}")("The Red Mug mug") == ("mug", "mug")
