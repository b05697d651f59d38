"""The library in the generated shop: what a win passes through, and what is invalid."""

import pytest

from tests.envs.playing import judged
from trca.envs.annotate import RubricAnnotation
from trca.envs.webshop.env import WebShopEnv


def test_a_win_passes_through_search_candidate_and_a_qualified_purchase():
    episodes, wins = judged(WebShopEnv(), WebShopEnv.oracle_action, 30)
    assert wins == 30
    for first, *others, last in episodes:
        assert "search_issued" in first
        assert sum("purchase_ready" in fired for fired in (first, *others)) == 1
        assert last == {"qualified_purchase"}


@pytest.fixture
def shop():
    env = RubricAnnotation(WebShopEnv(), library="webshop")
    task = next(t for t in env.unwrapped.task_ids if "in size" in env.reset(options={"task": t})[0])
    env.reset(options={"task": task})
    return env


def fired(env, *actions):
    for action in actions:
        *_, info = env.step(action or env.unwrapped.oracle_action())
    return set(info["rubric"]["fired"])


@pytest.mark.parametrize(
    ("actions", "operators"),
    [
        (["buy a hat"], {"malformed"}),
        ([" "], {"malformed"}),
        (["search[ ]"], {"malformed"}),
        (["click[buy now]"], {"unavailable"}),
        (["", "click[xyz]"], {"unavailable"}),
        (["", "search[hat]"], {"rejected"}),
        (["", "click[back to search]"], set()),
        (["", "click[back to search]", ""], {"ineffective"}),
        (["", "", "click[buy now]"], {"premature_purchase"}),
    ],
)
def test_what_is_invalid_is_named(shop, actions, operators):
    """An empty text means the oracle's action, a space for a response without action."""
    assert fired(shop, *actions) == operators


def test_a_wanted_option_counts_once(shop):
    assert "option_shown" in fired(shop, "", "")
    choice = shop.unwrapped.oracle_action()
    assert "option_chosen" in fired(shop, choice)
    assert fired(shop, choice) == {"ineffective"}


def test_a_refused_purchase_is_judged_as_no_action():
    env = RubricAnnotation(WebShopEnv(), library="webshop")
    _, info = env.reset(seed=0)
    while (action := env.unwrapped.oracle_action()) != "click[buy now]":
        _, _, _, _, info = env.step(action)
    _, _, _, _, info = env.step("click[buy now] now")
    assert not info["accepted"]
    assert info["facts"].verb == ""
    assert "qualified_purchase" not in info["rubric"]["fired"]
    _, _, terminated, _, info = env.step("click[buy now]")
    assert terminated
    assert "qualified_purchase" in info["rubric"]["fired"]
