"""The oracle wins every generated goal from any state; the demonstrator wins most goals."""

import numpy as np
import pytest

from trca.envs.webshop.env import WebShopEnv
from trca.envs.webshop.players import OracleError, oracle_action
from trca.envs.webshop.simulator import Simulator


@pytest.mark.parametrize(("goals", "every"), [("human", 1), ("synthetic", 10)])
def test_every_embedded_goal_is_won_in_few_steps(goals, every):
    env = WebShopEnv(goals=goals)
    simulator = Simulator(env.catalogue, env.goals)
    lengths = []
    for index in range(0, len(env.goals), every):
        simulator.reset(index)
        score, length = 0.0, 0
        while not simulator.done and length < env.max_steps:
            _, score, _ = simulator.step(oracle_action(simulator))
            length += 1
        assert score == 1.0, env.goals[index]
        lengths.append(length)
    assert min(lengths) >= 3
    assert max(lengths) <= 8


@pytest.mark.parametrize("compat", ["clean", "original"])
def test_the_oracle_wins_from_wherever_it_is_left(compat):
    env = WebShopEnv(compat=compat, max_steps=60)
    rng = np.random.default_rng(0)
    won = 0
    for task in env.task_ids[:60]:
        env.reset(options={"task": task})
        over = False
        for _ in range(rng.integers(12)):
            action = env.random_action(rng)
            if action != "click[buy now]":
                env.step(action)
        while not over:
            *_, terminated, truncated, info = env.step(env.oracle_action())
            over = terminated or truncated
        won += info["won"]
    assert won == 60


def test_after_a_purchase_there_is_no_way():
    env = WebShopEnv()
    env.reset(seed=0)
    for action in ("search[mug]", "", "click[buy now]"):
        env.step(action or env.admissible_actions[-1])
    with pytest.raises(OracleError, match="after a purchase"):
        env.oracle_action()


def sensible_wins(tasks, slips):
    """Share of wins and mean score of the demonstrator with some random actions."""
    env = WebShopEnv()
    rng = np.random.default_rng(0)
    scores = []
    for task in env.task_ids[:tasks]:
        env.reset(options={"task": task})
        over = False
        while not over:
            action = env.demonstrator_action()
            assert action in env.admissible_actions or action.startswith("search[")
            if rng.random() < slips:
                action = env.random_action(rng)
            *_, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        scores.append(info["score"])
    return np.mean(np.array(scores) == 1.0), np.mean(scores)


def test_the_sensible_shopper_wins_most_but_not_all():
    wins, score = sensible_wins(150, slips=0.0)
    assert 0.6 < wins < 0.95
    assert score > 0.85


def test_it_copes_with_what_others_do():
    wins, _ = sensible_wins(100, slips=0.3)
    assert 0.1 < wins < 0.6


def test_without_a_match_it_searches_for_less():
    env = WebShopEnv()
    env.reset(seed=0)
    first = env.demonstrator_action()
    env.step(first)
    env.step("click[back to search]")
    second = env.demonstrator_action()
    assert first.removesuffix("]").startswith(second.removesuffix("]"))
    assert second != first
