import json

import pytest

from tests.cli.calls import done, refused, trca

ROW = {
    "asin": "B000000001",
    "name": "Mug",
    "full_description": "",
    "small_description": ["Stacks"],
    "pricing": "$5.00$7.00",
    "product_category": "Kitchen › Mugs",
    "category": "kitchen",
    "query": "mugs",
    "customization_options": "",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "catalog_1000.jsonl").write_text(json.dumps(ROW))
    (tmp_path / "attributes.json").write_text('{"B000000001": {"instruction": "Find me a mug"}}')
    (tmp_path / "human_instructions.json").write_text(
        '{"B000000001": [{"instruction": "i need a mug"}, {"instruction": "get a mug"}]}'
    )
    return tmp_path


def test_data_webshop_says_where_the_official_files_come_from():
    output = trca("data", "webshop").output
    assert "items_shuffle_1000.json: 1,000 products, 4,467,013 bytes" in output
    assert "items_human_ins.json: instructions by people" in output
    assert "trca data webshop FOLDER" in output


def test_data_webshop_counts_what_the_files_hold(folder):
    output = done("data", "webshop", folder)
    assert "1 products, 1 of them with a price range; 2 instructions by people, 1 others" in (
        output
    )
    assert f"trca train webshop --set env_config.catalogue={folder}" in output
    assert f"trca play webshop --set catalogue={folder}" in output


def test_data_webshop_names_the_file_and_the_row_that_are_wrong(folder):
    rows = [json.dumps(ROW), json.dumps({**ROW, "asin": "B000000002", "price": 3})]
    (folder / "catalog_1000.jsonl").write_text("\n".join(rows))
    words = refused("data", "webshop", folder)
    assert "catalog_1000.jsonl: line 2 (asin 'B000000002'): unknown column 'price'" in words


def test_data_webshop_refuses_a_half_downloaded_official_file(folder):
    (folder / "catalog_1000.jsonl").rename(folder / "items_shuffle_1000.json")
    (folder / "attributes.json").rename(folder / "items_ins_v2_1000.json")
    assert "bytes, the release's 4,467,013: fetch it again" in refused("data", "webshop", folder)
