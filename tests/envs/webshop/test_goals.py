"""Goals depend on the seed, their order does not, and no two splits share a goal."""

from dataclasses import replace
from itertools import combinations

import pytest

from tests.envs.webshop.catalogues import catalogue_of, generated
from tests.envs.webshop.test_simulator import product
from trca.envs.webshop.data.products import HumanInstruction
from trca.envs.webshop.tasks import NO_BOUND, SPLIT_RULES, goals_hash, make_goals, split_of

PRODUCTS, INSTRUCTIONS = generated(1000)


@pytest.fixture(scope="module")
def catalogue():
    return catalogue_of(PRODUCTS, INSTRUCTIONS)


def test_a_human_goal_says_what_was_written_and_the_bound():
    wish = HumanInstruction("i need a red mug.", ("chip resistant",), ("red",))
    blank = HumanInstruction("anything.", (), ())
    (goal,) = make_goals(catalogue_of([product(0)], {"MUG000": (blank, wish)}))
    assert goal.instruction == (
        f"i need a red mug, and price lower than {goal.price_upper:.2f} dollars"
    )
    assert goal.price_upper in (30.0, 40.0, 50.0)
    assert (goal.options, goal.option_names, goal.weight) == (("red",), (), 1.0)


def test_synthetic_goals_ask_for_every_choice_of_options():
    item = product(0, instruction="Find me a mug", instruction_attributes=("chip resistant",))
    goals = make_goals(catalogue_of([item]), "synthetic")
    assert len(goals) == 4
    assert {goal.options for goal in goals} == {
        (color, size) for color in ("red", "sky blue") for size in ("small", "large")
    }
    assert len({goal.price_upper for goal in goals}) == 1
    assert all(goal.weight == 0.25 for goal in goals)
    goal = next(goal for goal in goals if goal.options == ("red", "small"))
    assert goal.option_names == ("color", "size")
    assert goal.instruction.startswith("Find me a mug with color: red, and size: small, and price")


@pytest.mark.parametrize(("price", "bounded"), [(979.0, True), (980.0, False), (5000.0, False)])
def test_what_costs_too_much_has_no_bound(price, bounded):
    item = product(0, price=price, price_range=(price,))
    wish = HumanInstruction("a mug", ("chip resistant",), ())
    for compat in ("clean", "original"):
        catalogue = catalogue_of([item], {"MUG000": (wish,)}, compat=compat)
        (goal,) = make_goals(catalogue, compat=compat)
        assert (goal.price_upper < NO_BOUND) is bounded
        assert ("price lower" in goal.instruction) is bounded


@pytest.mark.parametrize("kind", ["human", "synthetic"])
@pytest.mark.parametrize("compat", ["clean", "original"])
def test_one_seed_decides_prices_and_bounds(kind, compat):
    def drawn(seed):
        catalogue = catalogue_of(PRODUCTS[:200], INSTRUCTIONS, seed, compat)
        return make_goals(catalogue, kind, seed, compat)

    assert drawn(3) == drawn(3)
    assert goals_hash(drawn(3)) == goals_hash(drawn(3)) != goals_hash(drawn(4))


def test_clean_bounds_do_not_depend_on_the_rest_of_the_catalogue(catalogue):
    few = catalogue_of(PRODUCTS[100:50:-1], INSTRUCTIONS)
    bounds = {(goal.asin, goal.instruction) for goal in make_goals(catalogue)}
    assert {(goal.asin, goal.instruction) for goal in make_goals(few)} < bounds


@pytest.mark.parametrize("rule", list(SPLIT_RULES))
def test_the_splits_of_a_rule_share_no_goal_and_leave_none_out(catalogue, rule):
    goals = make_goals(catalogue, "synthetic")
    splits = {split: split_of(goals, rule, split) for split in SPLIT_RULES[rule]}
    assert sorted(index for indices in splits.values() for index in indices) == [*range(len(goals))]


def identities(goals, rule, split):
    """The goals of a split without their prices."""
    chosen = (goals[index] for index in split_of(goals, rule, split))
    return {(g.asin, g.instruction.split(", and price lower")[0], g.options) for g in chosen}


@pytest.mark.parametrize("kind", ["human", "synthetic"])
@pytest.mark.parametrize("rule", list(SPLIT_RULES))
def test_no_seed_moves_a_goal_from_one_split_to_another(kind, rule):
    by_seed = [
        make_goals(catalogue_of(PRODUCTS, INSTRUCTIONS, seed), kind, seed) for seed in (0, 1, 2)
    ]
    for split in SPLIT_RULES[rule]:
        first, *others = (identities(goals, rule, split) for goals in by_seed)
        assert all(other == first for other in others)
    for one, other in combinations(SPLIT_RULES[rule], 2):
        assert not identities(by_seed[0], rule, one) & identities(by_seed[1], rule, other)


def test_by_product_keeps_all_goals_of_a_product_together_in_any_catalogue(catalogue):
    half = catalogue_of(PRODUCTS[::-2], INSTRUCTIONS)
    for kind in ("human", "synthetic"):
        asins = {}
        for part in (catalogue, half):
            goals = make_goals(part, kind)
            for split in SPLIT_RULES["by-product"]:
                for index in split_of(goals, "by-product", split):
                    assert asins.setdefault(goals[index].asin, split) == split


def test_the_originals_rules_go_by_index(catalogue):
    goals = make_goals(catalogue)
    assert split_of(goals, "original", "test") == tuple(range(500))
    assert split_of(goals, "original", "eval") == tuple(range(500, 1500))
    assert split_of(goals, "original", "train") == tuple(range(1500, len(goals)))
    assert split_of(goals, "verl-agent", "validation") == tuple(range(500))
    assert split_of(goals, "verl-agent", "train") == tuple(range(500, len(goals)))


def test_the_hash_covers_every_part_of_a_goal(catalogue):
    goals = make_goals(catalogue)
    for changes in ({"price_upper": 1.0}, {"instruction": "x"}, {"options": ("x",)}):
        assert goals_hash((replace(goals[0], **changes), *goals[1:])) != goals_hash(goals)
    assert goals_hash(goals[::-1]) != goals_hash(goals)


def test_unknown_names_and_empty_splits_are_refused(catalogue):
    goals = make_goals(catalogue)
    with pytest.raises(ValueError, match="Known: human, synthetic"):
        make_goals(catalogue, "robot")
    with pytest.raises(ValueError, match="Known: clean, original"):
        make_goals(catalogue, compat="old")
    with pytest.raises(ValueError, match="Known: by-product, original, verl-agent"):
        split_of(goals, "random", "train")
    with pytest.raises(ValueError, match="Known: train, eval, test"):
        split_of(goals, "original", "validation")
    with pytest.raises(ValueError, match="there are 10 goals; choose split_rule 'by-product'"):
        split_of(goals[:10], "original", "train")
    with pytest.raises(ValueError, match="there are 0 goals; choose a larger catalogue"):
        split_of((), "by-product", "train")
    with pytest.raises(ValueError, match="choose goals='synthetic'"):
        make_goals(catalogue_of([product(0)]))
