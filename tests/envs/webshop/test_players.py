"""The oracle wins every generated goal; the demonstrator searches for less and less."""

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


def test_after_a_purchase_there_is_no_way():
    env = WebShopEnv()
    env.reset(seed=0)
    for action in ("search[mug]", "", "click[buy now]"):
        env.step(action or env.admissible_actions[-1])
    with pytest.raises(OracleError, match="after a purchase"):
        env.oracle_action()


def test_without_a_match_it_searches_for_less():
    env = WebShopEnv()
    env.reset(seed=0)
    first = env.demonstrator_action()
    env.step(first)
    env.step("click[back to search]")
    second = env.demonstrator_action()
    assert first.removesuffix("]").startswith(second.removesuffix("]"))
    assert second != first
