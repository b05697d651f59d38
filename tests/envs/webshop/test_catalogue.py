import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.envs.webshop.catalogues import catalogue_of, generated
from trca.envs.webshop.data.generate import SIZES
from trca.envs.webshop.data.jsonfile import DataFileError
from trca.envs.webshop.data.official import CatalogueFiles, read_human_instructions, read_products
from trca.envs.webshop.data.sources import open_catalogue

SHARED = Path(__file__).parents[4] / "shared" / "data" / "webshop"
PRODUCTS, HUMAN = generated(200)


@pytest.mark.skipif(not SHARED.exists(), reason="needs the recordings in ../shared/data/webshop")
def test_prices_are_the_recorded_ones_for_seed_7():
    files = CatalogueFiles.find(SHARED)
    catalogue = catalogue_of(
        read_products(files), read_human_instructions(files), seed=7, compat="original"
    )
    prices = {catalogue[i].asin: catalogue[i].price for i in range(len(catalogue))}
    assert prices == json.loads((SHARED / "prices.json").read_text())
    assert catalogue.ranged == 191


def test_in_original_a_price_is_the_next_draw_of_one_stream():
    catalogue = catalogue_of(PRODUCTS, seed=3, compat="original")
    stream = random.Random(3)
    for position, product in enumerate(PRODUCTS):
        if len(product.price_range) == 2:
            assert catalogue[position].price == stream.uniform(*product.price_range)
        else:
            assert catalogue[position].price == product.price_range[0]


def test_in_clean_a_price_does_not_depend_on_size_or_order():
    catalogue = catalogue_of(PRODUCTS, seed=3)
    shuffled = random.Random(0).sample(PRODUCTS, 50)
    other = catalogue_of(shuffled, seed=3)
    for product in shuffled:
        price = other[other.position(product.asin)].price
        assert price == catalogue[catalogue.position(product.asin)].price
        assert product.price_range[0] <= price <= product.price_range[-1]


def test_another_seed_draws_other_prices_and_tells_so():
    first, second = (catalogue_of(PRODUCTS, seed=seed) for seed in (0, 1))
    assert [p.price for p in map(first.__getitem__, range(200))] != [
        p.price for p in map(second.__getitem__, range(200))
    ]
    assert len({first.hash, second.hash}) == 2


def test_the_hash_covers_products_order_and_instructions():
    changed = [*PRODUCTS[:-1], replace(PRODUCTS[-1], title="Another Title")]
    asin = PRODUCTS[0].asin
    fewer = {**HUMAN, asin: HUMAN[asin][:1]}
    catalogues = [
        catalogue_of(PRODUCTS, HUMAN),
        catalogue_of(changed, HUMAN),
        catalogue_of(PRODUCTS[::-1], HUMAN),
        catalogue_of(PRODUCTS, fewer),
        catalogue_of(PRODUCTS, HUMAN, compat="original"),
    ]
    assert len({catalogue.hash for catalogue in catalogues}) == len(catalogues)
    assert catalogue_of(PRODUCTS, HUMAN).hash == catalogues[0].hash


def test_a_product_is_found_by_position_and_asin_and_what_is_not_there_is_named():
    catalogue = catalogue_of(PRODUCTS)
    assert catalogue[catalogue.position(PRODUCTS[7].asin)].asin == PRODUCTS[7].asin
    with pytest.raises(KeyError, match="B000"):
        catalogue.position("B000")
    for position in (-1, 200):
        with pytest.raises(IndexError, match="the catalogue has 200"):
            catalogue[position]


def test_two_products_of_one_asin_are_refused():
    with pytest.raises(ValueError, match=f"two products have the ASIN '{PRODUCTS[0].asin}'"):
        catalogue_of([*PRODUCTS, PRODUCTS[0]])


def test_a_search_finds_products_by_words_of_their_titles():
    catalogue = catalogue_of(PRODUCTS)
    position = catalogue.search(PRODUCTS[42].title, limit=5)[0]
    assert catalogue[position].title == PRODUCTS[42].title
    assert catalogue.search("", limit=5) == []


def test_all_who_ask_in_a_process_share_one():
    assert open_catalogue("small") is open_catalogue("small", seed=0)
    assert open_catalogue("small", seed=1) is not open_catalogue("small")


def test_the_embedded_default_holds_a_thousand_products_with_instructions():
    catalogue = open_catalogue()
    assert len(catalogue) == SIZES["small"] == len(catalogue.human_instructions)
    assert len(catalogue.instructed) == SIZES["small"]


def test_a_seed_behind_the_name_gives_other_products():
    small, other = open_catalogue("small"), open_catalogue("small-7")
    assert open_catalogue("small-0") is small
    assert len(other) == len(small)
    asins = [p.asin for p in generated(SIZES["small"], seed=7)[0]]
    assert [other[at].asin for at in range(5)] == asins[:5]
    assert {small[at].title for at in range(50)}.isdisjoint(other[at].title for at in range(50))
    for name in ("small-", "small-x", "small--1", "tiny-7"):
        with pytest.raises(DataFileError, match="a size with a seed such as small-7"):
            open_catalogue(name)
