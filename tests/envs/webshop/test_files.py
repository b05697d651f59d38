"""Official files are read value by value and row by row; errors name the file and the place."""

import contextlib
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.webshop.data import jsonfile
from trca.envs.webshop.data.jsonfile import DataFileError, members, values
from trca.envs.webshop.data.official import (
    CatalogueFiles,
    RowError,
    differs,
    human_instructions_of,
    listed_of,
    product_of,
    read_human_instructions,
    read_products,
)
from trca.envs.webshop.data.products import decode, document, encode
from trca.envs.webshop.data.sources import open_catalogue

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
ROWS = [
    {
        **ROW,
        "asin": f"B00000000{number}",
        "name": f"Müg {number}",
        "small_description": ["A [mug], {really}"],
        "pricing": "$5.00",
        "query": "mugs",
        "customization_options": "",
    }
    for number in range(5)
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "webshop"
    folder.mkdir()
    (folder / "items_shuffle_1000.json").write_text(json.dumps(ROWS, indent=1))
    (folder / "items_ins_v2_1000.json").write_text(
        json.dumps({"B000000001": {"attributes": ["stackable"]}})
    )
    (folder / "items_human_ins.json").write_text("{}")
    return folder


def test_files_are_read_plain_compressed_and_a_row_a_line(tmp_path):
    text = json.dumps(ROWS, indent=2, ensure_ascii=False)
    lines = "\n".join(map(json.dumps, ROWS)) + "\n\n"
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "c.jsonl").write_text(lines)
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    for file in tmp_path.iterdir():
        entries = list(values(file))
        assert [row for _, row in entries] == ROWS
        assert entries[1][0] in ("item 2", "line 2")


def test_a_reader_tells_how_far_it_is(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ROWS))
    done = []
    assert len(list(values(path, done.append))) == 5
    assert done[-1] == path.stat().st_size


@given(
    document=st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=4)
    ),
    chunk=st.integers(1, 7),
)
def test_values_are_whole_wherever_a_chunk_ends(tmp_path_factory, document, chunk):
    path = tmp_path_factory.mktemp("chunks") / "a.json"
    rows = [{"it": document}, {"it": [document]}]
    path.write_text(json.dumps(rows), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonfile, "_CHUNK", chunk)
        assert [row for _, row in values(path)] == rows
        path.write_text(json.dumps({"a": rows, "b,": document}), encoding="utf-8")
        assert dict(members(path)) == {"a": rows, "b,": document}


def test_a_file_cut_anywhere_is_called_broken(tmp_path):
    whole = json.dumps(ROWS).encode()
    path = tmp_path / "items_shuffle.json"
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(DataFileError, match=r"items_shuffle.json: .*fetch it again"):
            list(values(path))
    packed = gzip.compress(whole)
    path = tmp_path / "items_shuffle.json.gz"
    for end in range(1, len(packed), 5):
        path.write_bytes(packed[:end])
        with pytest.raises(DataFileError, match="fetch it again"):
            list(values(path))


def test_the_place_of_the_damage_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1}, {"a": nope}]')
    with pytest.raises(DataFileError, match="item 2 is broken at character 18"):
        list(values(path))
    path.write_text('[{"a": 1} {"a": 2}]')
    with pytest.raises(DataFileError, match="end of item 1 is broken at character 11"):
        list(values(path))
    path.write_text("[] []")
    with pytest.raises(DataFileError, match="follows the closing"):
        list(values(path))
    path.write_text('{"a": 1, "b" 2}')
    with pytest.raises(DataFileError, match=r"entry 'b' is broken .*no ':' after its key"):
        list(members(path))
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(DataFileError, match="line 2 is broken at character 8"):
        list(values(lines))


def test_a_web_page_in_place_of_the_file_is_recognised(tmp_path):
    path = tmp_path / "items_shuffle.json"
    path.write_text("<!DOCTYPE html><title>Quota exceeded</title>")
    with pytest.raises(DataFileError, match="it is a web page"):
        list(values(path))


def test_bytes_that_are_no_text_and_missing_files_are_named(tmp_path):
    path = tmp_path / "items_shuffle.json"
    path.write_bytes(b'["\xff"]')
    with pytest.raises(DataFileError, match="not UTF-8"):
        list(values(path))
    with pytest.raises(DataFileError, match=r"none.json: it cannot be read: No such file"):
        list(values(tmp_path / "none.json"))


def test_nesting_and_numbers_without_end_are_refused(tmp_path):
    path = tmp_path / "a.json"
    for text in ("[" * 200_000, f"[{'1' * 5000}]"):
        path.write_text(text)
        with pytest.raises(DataFileError, match="item 1 is broken"):
            list(values(path))


@given(noise=st.binary(max_size=200))
def test_noise_is_refused_or_read_and_never_crashes(tmp_path_factory, noise):
    path = tmp_path_factory.mktemp("noise") / "a.json"
    path.write_bytes(noise)
    with contextlib.suppress(DataFileError):
        list(values(path))


def test_an_unknown_column_is_named_with_its_row(folder):
    rows = [*ROWS[:2], {**ROWS[2], "colour": "red"}]
    (folder / "items_shuffle_1000.json").write_text(json.dumps(rows))
    with pytest.raises(
        DataFileError,
        match=r"items_shuffle_1000.json: item 3 \(asin 'B000000002'\): unknown column 'colour'",
    ):
        list(read_products(CatalogueFiles.find(folder)))


def test_a_wrong_entry_beside_the_products_is_named_with_its_file(folder):
    (folder / "items_ins_v2_1000.json").write_text('{"B000000003": {"attributes": 3}}')
    with pytest.raises(DataFileError, match=r"items_ins_v2_1000.json: entry 'B000000003': column"):
        open_catalogue(folder)
    (folder / "items_ins_v2_1000.json").write_text("{}")
    (folder / "items_human_ins.json").write_text('{"B000000003": [3]}')
    with pytest.raises(DataFileError, match=r"items_human_ins.json: entry 'B000000003': it holds"):
        open_catalogue(folder)


def test_a_catalogue_of_files_has_their_products_once(folder):
    rows = [*ROWS, ROWS[0], {**ROWS[1], "asin": "nan"}, {**ROWS[2], "asin": "B0000000021"}]
    (folder / "items_shuffle_1000.json").write_text(json.dumps(rows))
    catalogue = open_catalogue(folder)
    assert [catalogue[i].asin for i in range(len(catalogue))] == [row["asin"] for row in ROWS]
    assert catalogue[1].attributes == ("stackable",)
    assert catalogue[0].attributes == ("DUMMY_ATTR",)


def test_half_characters_in_a_title_are_kept_as_they_are(folder):
    rows = [{**ROWS[0], "name": "half \ud800 mug"}]
    (folder / "items_shuffle_1000.json").write_text(json.dumps(rows))
    (folder / "items_human_ins.json").write_text(
        json.dumps({"B000000000": [{"instruction": "a mug \ud800"}]})
    )
    catalogue = open_catalogue(folder)
    assert catalogue[0].title == "half \ud800 mug"
    assert catalogue.human_instructions["B000000000"][0].instruction == "a mug \ud800"
    assert catalogue.search("half mug") == [0]


def test_changed_files_make_another_catalogue(folder):
    before = open_catalogue(folder)
    path = folder / "items_shuffle_1000.json"
    path.write_text(json.dumps(ROWS[:3]))
    after = open_catalogue(path)
    assert (len(before), len(after)) == (5, 3)
    assert before.hash != after.hash


def test_what_is_not_there_is_named(folder, tmp_path):
    with pytest.raises(DataFileError, match="no such catalogue: choose small, medium, large"):
        open_catalogue("smal")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataFileError, match=r"holds no items_shuffle_1000.json"):
        open_catalogue(tmp_path / "empty")
    (folder / "items_ins_v2_1000.json").unlink()
    with pytest.raises(DataFileError, match=r"no items_ins_v2_1000.json or items_ins_v2.json"):
        open_catalogue(folder)
    (folder / "items_shuffle.json").write_text("[]")
    with pytest.raises(DataFileError, match="give the path of one"):
        open_catalogue(folder)


def test_files_without_products_make_no_catalogue(folder):
    (folder / "items_shuffle_1000.json").write_text("[]")
    with pytest.raises(DataFileError, match="holds no products"):
        open_catalogue(folder)


def test_a_file_that_is_not_the_releases_is_told_from_it(folder):
    assert "the release's 4,467,013" in differs(folder / "items_shuffle_1000.json")
    (folder / "items_shuffle_1000.json").write_bytes(b" " * 4_467_013)
    assert "its SHA-256 is" in differs(folder / "items_shuffle_1000.json")
    (folder / "mine.json").write_text("[]")
    assert differs(folder / "mine.json") is None


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
