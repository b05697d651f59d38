"""`WebShopEnv` keeps the contract of text environments for any string."""

import numpy as np
import pytest

from tests.envs.playing import steps
from tests.envs.webshop.catalogues import catalogue_of
from tests.envs.webshop.test_simulator import product
from trca.envs.text_env import OracleError
from trca.envs.webshop.data.products import HumanInstruction
from trca.envs.webshop.env import WebShopEnv
from trca.envs.webshop.players import oracle_action
from trca.envs.webshop.reading import SEARCH_OFFER
from trca.envs.webshop.simulator import Simulator


@pytest.fixture
def env():
    return WebShopEnv()


def test_the_first_page_states_the_task(env):
    observation, info = env.reset(options={"task": env.task_ids[3]})
    assert observation == f"WebShop [SEP] Instruction: [SEP] {info['task']} [SEP] Search"
    assert info["task_id"] == env.task_ids[3]
    assert info["split"] == "train"
    assert info["admissible_actions"] == [SEARCH_OFFER]
    assert not {"parsed", "accepted", "won", "score", "rubric"} & set(info)


def test_offers_are_those_of_verl_agent(env):
    env.reset(seed=0)
    offers = env.step("search[blue]")[4]["admissible_actions"]
    assert offers[:2] == ["click[back to search]", "click[next >]"]
    assert len(offers) == 12
    assert all(offer.startswith("click[") for offer in offers)
    env.step(offers[2])
    assert env.step("click[back to search]")[4]["admissible_actions"] == [SEARCH_OFFER]


def test_buying_blindly_scores_little(env):
    def blind(env):
        offers = env.admissible_actions
        if "click[buy now]" in offers:
            return "click[buy now]"
        return "search[gift]" if offers == [SEARCH_OFFER] else offers[-1]

    ends = [steps(env, task, blind)[-1] for task in env.task_ids[:60]]
    assert all(reward == float(info["score"] == 1.0) for _, reward, *_, info in ends)
    assert np.mean([info["score"] for *_, info in ends]) < 0.3


def test_the_score_itself_can_be_the_reward():
    env = WebShopEnv(reward="score")
    env.reset(options={"task": env.task_ids[0]})
    env.step("search[blue]")
    env.step(env.admissible_actions[2])
    _, reward, terminated, _, info = env.step("click[buy now]")
    assert terminated
    assert reward == info["score"] == env._simulator.score.total
    assert 0.0 <= reward <= 1.0


def test_random_actions_search_for_words_of_the_instruction(env):
    _, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = env.random_action(rng)
        assert action.startswith("search[")
        assert set(action[7:-1].split()) <= set(info["task"].replace(",", "").split())
    env.step("search[blue]")
    assert env.random_action(rng) in env.admissible_actions


def test_a_panels_hash_covers_catalogue_goals_and_prices():
    def mugs(price=12.5, options=("red",)):
        items = [product(number, price=price, price_range=(price,)) for number in range(20)]
        wish = HumanInstruction("a mug", ("chip resistant",), options)
        human = {item.asin: (wish,) for item in items}
        return catalogue_of(items, human)

    def panel(catalogue, **kwargs):
        return WebShopEnv(catalogue, **kwargs).panel

    assert panel(mugs()).hash == panel(mugs()).hash
    assert panel(mugs()).hash != panel(mugs(price=12.6)).hash
    assert panel(mugs()).hash != panel(mugs(options=("blue",))).hash
    assert panel(mugs()).hash != panel(mugs(), seed=1).hash
    assert panel(mugs()).environment == "trca/WebShop-v0"
    assert WebShopEnv().panel.hash != WebShopEnv(split="validation").panel.hash


@pytest.mark.parametrize(("goals", "every"), [("human", 8), ("synthetic", 40)])
def test_embedded_goals_are_won_in_few_steps(goals, every):
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
