"""Nouns of titles: the recordings' extractor, the simple extractor, and spaCy if installed."""

import importlib.util

import pytest

from trca.envs.webshop.reward import noun_extractor


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


def test_an_unknown_extractor_lists_the_known():
    with pytest.raises(ValueError, match="choose simple, recorded, spacy"):
        noun_extractor("nltk")


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
