import gzip
import json
from pathlib import Path

import pytest

from trca.envs.webshop.data.official import (
    CatalogueFiles,
    RowError,
    human_instructions_of,
    listed_of,
    product_of,
    read_human_instructions,
    read_products,
)
from trca.envs.webshop.data.products import decode, document, encode

SHARED = Path(__file__).parents[4] / "shared" / "data" / "webshop"
ROW = {
    "asin": "B000000001",
    "name": "Red Mug",
    "full_description": "A mug. ",
    "small_description": ["Holds TEA", "Stacks"],
    "pricing": "$1,019.99 to $1,027.50 $30",
    "product_category": "Kitchen › Mugs",
    "category": "kitchen",
    "query": "  Coffee Mugs ",
    "customization_options": {
        "Color": [{"value": " Red/White ", "image": None}, {"value": "BLUE"}],
        "Size": None,
        "pack": [],
    },
}


def test_a_row_is_normalised_as_the_original_does():
    entry = listed_of({"attributes": ["dishwasher safe"], "instruction": "Find a mug"})
    mug = product_of(ROW, {ROW["asin"]: entry})
    assert mug.query == "coffee mugs"
    assert mug.options == {"color": ("red | white", "blue"), "pack": ()}
    assert (mug.price_label, mug.price_range) == ("$1019.99 to $1027.5", (1019.99, 1027.5))
    assert (mug.attributes, mug.instruction) == (("dishwasher safe",), "Find a mug")
    assert document(mug) == "red mug a mug.  holds tea color: red | white, blue, and pack: "
    assert decode(encode(mug)) == mug


@pytest.mark.parametrize(
    ("pricing", "label", "price_range"),
    [
        (None, "$100.0", (100.0,)),
        ("", "$100.0", (100.0,)),
        ("$26.00", "$26.0", (26.0,)),
        ("$19.99$27.99", "$19.99 to $27.99", (19.99, 27.99)),
        ("$24.09 - $31.12", "$24.09 to $31.12", (24.09, 31.12)),
    ],
)
def test_prices_are_read_in_all_their_forms(pricing, label, price_range):
    mug = product_of({**ROW, "pricing": pricing}, {})
    assert (mug.price_label, mug.price_range, mug.price) == (label, price_range, price_range[0])


def test_what_is_missing_gets_the_defaults_of_the_original():
    row = {name: value for name, value in ROW.items() if name != "pricing"}
    bare = product_of({**row, "small_description": "one line", "customization_options": ""}, {})
    assert bare.attributes == ("DUMMY_ATTR",)
    assert bare.bullets == ("one line",)
    assert bare.options == {}
    assert bare.price == 100.0
    assert product_of(ROW, {ROW["asin"]: listed_of({"instruction": None})}).attributes == (
        "DUMMY_ATTR",
    )


@pytest.mark.parametrize("asin", ["nan", "B0000000012"])
def test_rows_the_original_skips_are_skipped(asin):
    assert product_of({**ROW, "asin": asin}, {}) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, "unknown column 'colour': choose among .*asin"),
        ({"name": None}, "column 'name' is None, expected text"),
        ({"asin": "a\0b"}, "column 'asin' is .*expected up to 10 printable"),
        ({"pricing": "free"}, "column 'pricing' is 'free', expected '\\$19.99'"),
        ({"pricing": "$1.2.3"}, "column 'pricing' is '\\$1.2.3'"),
        ({"small_description": [1]}, "column 'small_description' is \\[1\\]"),
        ({"customization_options": {"size": [{}]}}, "option group 'size' is \\[{}\\]"),
        ({"customization_options": ["size"]}, "column 'customization_options' is"),
    ],
)
def test_a_wrong_column_is_named_with_its_value(change, message):
    with pytest.raises(RowError, match=message):
        product_of({**ROW, **change}, {})


def test_a_missing_column_is_named():
    with pytest.raises(RowError, match="no column 'query'"):
        product_of({name: value for name, value in ROW.items() if name != "query"}, {})
    with pytest.raises(RowError, match="it is 3, expected an object"):
        product_of(3, {})


def test_a_wrong_list_of_attributes_is_named():
    with pytest.raises(RowError, match="column 'attributes' is 'red', expected a list of texts"):
        listed_of({"attributes": "red"})
    with pytest.raises(RowError, match="it is None, expected an object"):
        listed_of(None)


def test_a_wrong_instruction_is_named():
    with pytest.raises(RowError, match="expected a list of instructions"):
        human_instructions_of({})
    with pytest.raises(RowError, match="column 'instruction_options' is"):
        human_instructions_of([{"instruction": "buy it", "instruction_options": "red"}])


@pytest.mark.skipif(not SHARED.exists(), reason="needs the recordings in ../shared/data/webshop")
def test_the_recorded_catalogue_is_read_whole():
    files = CatalogueFiles.find(SHARED)
    products = {each.asin: each for each in read_products(files)}
    with gzip.open(SHARED / "catalog_1000.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    assert list(products) == [row["asin"] for row in rows]
    assert all(products[row["asin"]].title == row["name"] for row in rows)
    human = read_human_instructions(files)
    assert (len(human), sum(map(len, human.values()))) == (532, 871)
    assert (
        sum(not each.attributes for instructions in human.values() for each in instructions) == 25
    )


@pytest.mark.skipif(not SHARED.exists(), reason="needs the recordings in ../shared/data/webshop")
def test_recorded_goals_carry_the_fields_of_the_products():
    products = {each.asin: each for each in read_products(CatalogueFiles.find(SHARED))}
    with gzip.open(SHARED / "goals_synthetic.json.gz", "rt") as file:
        goals = json.load(file)
    for goal in goals:
        asked = products[goal["asin"]]
        assert goal["name"] == asked.title
        assert goal["query"] == asked.query
        assert goal["category"] == asked.category
        assert goal["product_category"] == asked.product_category
        assert goal["attributes"] == list(asked.instruction_attributes)
        assert goal["instruction_text"].startswith(asked.instruction)
        assert all(value in asked.options[name] for name, value in goal["goal_options"].items())
