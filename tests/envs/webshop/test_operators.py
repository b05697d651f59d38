"""The library in the generated shop: every operator fires."""

import numpy as np
import pytest

from trca.envs.annotate import RubricAnnotation
from trca.envs.webshop.env import WebShopEnv
from trca.rubric import CATEGORIES, RubricLibrary

LIBRARY = RubricLibrary.load("webshop")
POSITIVE = LIBRARY.categories != CATEGORIES.index("invalidity")
INVALID = {o.id for o in LIBRARY.operators if o.category == "invalidity"}


def judged(choose, tasks, **arguments):
    """Judgments of one episode per task, (steps, operators) each, and whether each was won."""
    env = RubricAnnotation(WebShopEnv(**arguments), library="webshop")
    episodes, won = [], []
    for task in env.unwrapped.task_ids[:tasks]:
        env.reset(options={"task": task})
        rows, over = [], False
        while not over:
            *_, terminated, truncated, info = env.step(choose(env.unwrapped))
            rows.append(info["rubric"]["judgments"])
            over = terminated or truncated
        episodes.append(np.array(rows))
        won.append(info["won"])
    return episodes, won


def coverage(episodes):
    return np.mean([rows.max(axis=0)[POSITIVE].mean() for rows in episodes])


@pytest.fixture(scope="module")
def oracle():
    episodes, won = judged(WebShopEnv.oracle_action, 200)
    assert all(won)
    return episodes


def test_every_positive_operator_fires_for_the_oracle_and_no_other(oracle):
    fired = np.concatenate(oracle).any(axis=0)
    assert fired[POSITIVE].all()
    assert not fired[~POSITIVE].any()


def test_random_shoppers_cover_less_than_half_as_much(oracle):
    rng = np.random.default_rng(0)
    episodes, won = judged(lambda env: env.random_action(rng), 200)
    assert sum(won) < 10
    assert coverage(episodes) < coverage(oracle) / 2
    lost = np.concatenate([e for e, win in zip(episodes, won, strict=True) if not win])
    assert 0.2 < lost.any(axis=1).mean() < 0.8


def test_a_win_passes_through_search_candidate_and_a_qualified_purchase(oracle):
    ids = list(LIBRARY.ids)
    for rows in oracle:
        last = {ids[k] for k in np.flatnonzero(rows[-1])}
        assert last == {"qualified_purchase"}
        assert "search_issued" in {ids[k] for k in np.flatnonzero(rows[0])}
        assert rows[:-1, ids.index("purchase_ready")].sum() == 1


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
    """A blank stands for the oracle's action, a space for a response without action."""
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
