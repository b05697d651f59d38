import re
from itertools import permutations

import pytest

from tests.envs.webshop.catalogues import catalogue_of, generated
from trca.envs.webshop.data.generate import INSTRUCTED, LINE, SIZES, WORDS, asin, draw
from trca.envs.webshop.data.products import document
from trca.envs.webshop.data.sources import generated_source
from trca.envs.webshop.reward import colour_or_self, says_the_same
from trca.envs.webshop.tasks import make_goals


@pytest.fixture(scope="module")
def products():
    return generated(SIZES["small"])[0]


@pytest.fixture(scope="module")
def human():
    return generated(SIZES["small"])[1]


def test_a_product_depends_on_the_seed_and_its_number_alone(products):
    assert generated(40)[0] == products[:40]
    assert draw(700)[0] == products[700]
    assert draw(700, seed=1)[0] != products[700]


def test_a_small_catalogue_is_the_same_everywhere():
    catalogue = catalogue_of(*generated(SIZES["small"]))
    assert catalogue.hash == "3d76dd1b3f0ae6f1"


def test_keys_are_unique_and_made_of_few_parts():
    numbers = [*range(20_000), *range(262_000, 264_000), *range(1_180_000, 1_182_000)]
    keys = [asin(number) for number in numbers]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[A-Z]{3}\d\d[A-Z]{3}\d\d", key) for key in keys)
    small = keys[: SIZES["medium"]]
    assert len({part for key in small for part in re.findall(r"[A-Z]{3}|\d\d", key)}) == 32


def test_titles_are_short_and_name_all_attributes_but_one(products):
    for product in products:
        assert 4 <= len(product.title.split()) <= 9
        named = [name for name in product.attributes if name in product.title.lower()]
        assert len(named) >= len(product.attributes) - 1
        pages = " ".join((product.title, product.description, *product.bullets)).lower()
        assert all(name in pages for name in product.attributes)


def test_some_attributes_are_found_only_on_the_page_of_features(products):
    hidden = [p for p in products if not all(name in document(p) for name in p.attributes)]
    assert 0.2 < len(hidden) / len(products) < 0.5


def test_products_of_a_line_are_near_misses(products):
    lines = [products[at : at + LINE] for at in range(0, len(products), LINE)]
    for line in lines:
        assert len({product.product_category for product in line}) == 1
        assert len({(p.attributes, str(p.options), p.price_range) for p in line}) == LINE


def test_prices_options_and_groups_come_in_all_their_forms(products):
    assert {len(product.options) for product in products} == {0, 1, 2, 3}
    assert {len(values) for p in products for values in p.options.values()} == {2, 3, 4}
    ranged = sum(len(product.price_range) == 2 for product in products)
    assert 0.2 < ranged / len(products) < 0.3
    assert {product.category for product in products} == set(WORDS["departments"])


def test_an_instruction_names_the_product_what_it_is_and_its_options(products, human):
    for product in products:
        first, second = human[product.asin]
        assert first.instruction != second.instruction
        for asked in (first, second):
            kind = product.product_category.rpartition(" › ")[2].lower()
            assert kind in asked.instruction
            for phrase in (*asked.attributes, *asked.options):
                assert phrase in asked.instruction
            assert set(asked.attributes) <= set(product.attributes)
            assert all(
                any(value in values for values in product.options.values())
                for value in asked.options
            )
            assert not re.search(r"  |\{|\}| ,| \?|\ba [aeiou]|\ban [^aeiou]", asked.instruction)


def test_a_large_catalogue_has_instructions_for_its_first_products_only():
    assert draw(INSTRUCTED - 1)[1]
    product, instructions = draw(INSTRUCTED)
    assert instructions == ()
    assert product.instruction is None


def test_no_wrong_value_or_attribute_passes_for_a_right_one():
    for options in WORDS["options"].values():
        values = [colour_or_self(value) for value in options]
        assert not any(says_the_same(a, b) for a, b in permutations(values, 2))
    for family in WORDS["families"]:
        pool = (*WORDS["common_attributes"][family["category"]], *family["attributes"])
        assert not any(says_the_same(a, b) for a, b in permutations(pool, 2))
        vocabulary = " ".join(
            (*WORDS["descriptions"], *WORDS["bullets"], *family["uses"], *family["kinds"])
        )
        assert not any(name in vocabulary.lower() for name in pool)


def test_searching_with_the_instruction_finds_the_product_among_near_misses(products, human):
    catalogue = catalogue_of(products, human)
    goals = make_goals(catalogue)[:300]
    ranks, rivals = [], []
    for goal in goals:
        hits = catalogue.search(goal.instruction, limit=10)
        position = catalogue.position(goal.asin)
        ranks.append(hits.index(position) if position in hits else 10)
        rivals.append(sum(catalogue[hit].query == goal.query for hit in hits if hit != position))
    assert sum(rank < 10 for rank in ranks) > 0.9 * len(goals)
    assert 0.3 < sum(rank == 0 for rank in ranks) / len(goals) < 0.6
    assert sum(rivals) > 5 * len(goals)


def test_every_size_is_a_source():
    assert [generated_source(count).total for count in SIZES.values()] == [1_000, 10_000, 100_000]
    with pytest.raises(ValueError, match="count is 0"):
        generated_source(0)
