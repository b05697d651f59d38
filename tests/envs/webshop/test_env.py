"""`WebShopEnv` keeps the contract of text environments for any string."""

import random
from itertools import combinations

import numpy as np
import pytest

from tests.envs.webshop.test_simulator import product
from trca.envs.text_env import UNPARSED
from trca.envs.webshop.data.catalogue import Catalogue
from trca.envs.webshop.data.products import HumanInstruction
from trca.envs.webshop.env import WebShopEnv
from trca.envs.webshop.reading import SEARCH_OFFER
from trca.envs.webshop.tasks import SPLIT_RULES


@pytest.fixture
def env():
    return WebShopEnv()


def transcript(env, task, seed, meanwhile=lambda: None):
    rng = np.random.default_rng(seed)
    observation, info = env.reset(options={"task": task})
    texts = [observation, *info["admissible_actions"]]
    over = False
    while not over:
        meanwhile()
        action = "nonsense" if rng.random() < 0.2 else env.random_action(rng)
        observation, _, terminated, truncated, info = env.step(action)
        texts += [observation, *info["admissible_actions"], str(info["accepted"])]
        over = terminated or truncated
    return texts


def play(env, task, choose):
    _, info = env.reset(options={"task": task})
    rewards, over = [], False
    while not over:
        _, reward, terminated, truncated, info = env.step(choose(info))
        rewards.append(reward)
        over = terminated or truncated
    return rewards, info


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


def test_the_oracle_buys_what_was_asked_for(env):
    for task in env.task_ids[:40]:
        rewards, info = play(env, task, lambda info: env.oracle_action())
        assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
        assert info["won"] is True
        assert info["score"] == 1.0


def test_buying_blindly_scores_little(env):
    def blind(info):
        offers = info["admissible_actions"]
        if "click[buy now]" in offers:
            return "click[buy now]"
        return "search[gift]" if offers == [SEARCH_OFFER] else offers[-1]

    ends = [play(env, task, blind) for task in env.task_ids[:60]]
    assert all(rewards[-1] == float(info["score"] == 1.0) for rewards, info in ends)
    assert np.mean([info["score"] for _, info in ends]) < 0.3


def test_the_score_itself_can_be_the_reward():
    env = WebShopEnv(reward="score")
    env.reset(options={"task": env.task_ids[0]})
    env.step("search[blue]")
    env.step(env.admissible_actions[2])
    _, reward, terminated, _, info = env.step("click[buy now]")
    assert terminated
    assert reward == info["score"] == env._simulator.score.total
    assert 0.0 <= reward <= 1.0


def test_fifteen_steps_are_the_default(env):
    assert env.max_steps == 15


@pytest.mark.parametrize("blank", [UNPARSED, " ", "\n\t", "\u2003"])
def test_a_blank_action_is_not_parsed_and_changes_nothing(env, blank):
    first, before = env.reset(seed=0)
    observation, reward, terminated, _, info = env.step(blank)
    assert observation == first
    assert (reward, terminated, info["parsed"], info["accepted"]) == (0.0, False, False, False)
    assert info["admissible_actions"] == before["admissible_actions"]


def test_environments_do_not_disturb_each_other(env):
    task, other = env.task_ids[0], WebShopEnv()
    other.reset(options={"task": task})

    def play_the_other():
        _, _, terminated, truncated, _ = other.step(other.oracle_action())
        if terminated or truncated:
            other.reset(options={"task": task})

    assert transcript(WebShopEnv(), task, 0, play_the_other) == transcript(env, task, 0)


def test_environments_share_one_catalogue_and_its_goals():
    envs = [WebShopEnv(split=split) for split in ("train", "validation") for _ in range(8)]
    assert len({id(env.catalogue) for env in envs}) == 1
    assert len({id(env.goals) for env in envs}) == 1
    assert len({id(env.task_ids) for env in envs}) == 2


def test_random_actions_search_for_words_of_the_instruction(env):
    _, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = env.random_action(rng)
        assert action.startswith("search[")
        assert set(action[7:-1].split()) <= set(info["task"].replace(",", "").split())
    env.step("search[blue]")
    assert env.random_action(rng) in env.admissible_actions


def test_the_demonstrator_copes_with_what_others_did(env):
    rng, scores = np.random.default_rng(0), []
    for task in env.task_ids[:60]:
        _, info = play(
            env,
            task,
            lambda info: (
                env.demonstrator_action() if rng.random() < 0.7 else env.random_action(rng)
            ),
        )
        scores.append(info["score"])
    assert np.mean(scores) > 0.25


@pytest.mark.parametrize("goals", ["human", "synthetic"])
@pytest.mark.parametrize("rule", ["by-product", "verl-agent"])
def test_splits_never_share_a_task_whatever_the_seeds(goals, rule):
    def instructions(split, seed):
        env = WebShopEnv(goals=goals, split=split, split_rule=rule, seed=seed)
        chosen = [env.goals[int(task.rpartition("/")[2])] for task in env.task_ids]
        return {(g.asin, g.instruction.split(", and price")[0], g.options) for g in chosen}

    for one, other in combinations(SPLIT_RULES[rule], 2):
        assert not instructions(one, 0) & instructions(other, 1)


def test_a_panels_hash_covers_catalogue_goals_and_prices():
    def mugs(price=12.5, options=("red",)):
        items = [product(number, price=price, price_range=(price,)) for number in range(20)]
        wish = HumanInstruction("a mug", ("chip resistant",), options)
        human = {item.asin: (wish,) for item in items}
        return Catalogue.from_products(items, human)

    def panel(catalogue, **kwargs):
        return WebShopEnv(catalogue, **kwargs).panel

    assert panel(mugs()).hash == panel(mugs()).hash
    assert panel(mugs()).hash != panel(mugs(price=12.6)).hash
    assert panel(mugs()).hash != panel(mugs(options=("blue",))).hash
    assert panel(mugs()).hash != panel(mugs(), seed=1).hash
    assert panel(mugs()).environment == "trca/WebShop-v0"
    assert WebShopEnv().panel.hash != WebShopEnv(split="validation").panel.hash


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"goals": "robot"}, "choose human or synthetic"),
        ({"split": "valid"}, "choose train, validation, test"),
        ({"split_rule": "random"}, "choose by-product, original, verl-agent"),
        ({"observation_mode": "html"}, "choose text or text_rich"),
        ({"compat": "old"}, "choose clean or original"),
        ({"reward": "sparse"}, "choose success or score"),
        ({"nouns": "nltk"}, "choose simple, recorded, spacy"),
        ({"max_steps": 0}, "give 1 or more"),
        ({"render_mode": "human"}, "Known: ansi"),
    ],
)
def test_unknown_choices_list_the_known_ones(kwargs, message):
    with pytest.raises(ValueError, match=message):
        WebShopEnv(**kwargs)


def test_an_unknown_task_names_the_nearest(env):
    near = env.task_ids[1].replace("/train/", "/trian/")
    with pytest.raises(ValueError, match=f"did you mean '{env.task_ids[1]}'"):
        env.reset(options={"task": near})
    with pytest.raises(ValueError, match="no task '7' in split 'train': Known: human-"):
        env.reset(options={"task": 7})


@pytest.mark.parametrize("mode", ["text", "text_rich"])
@pytest.mark.parametrize(
    ("compat", "goals"), [("clean", "human"), ("clean", "synthetic"), ("original", "human")]
)
def test_every_kind_of_environment_can_be_solved(mode, compat, goals):
    env = WebShopEnv(observation_mode=mode, compat=compat, goals=goals)
    tasks = random.Random(0).sample(env.task_ids, 15)
    for task in tasks:
        assert play(env, task, lambda info: env.oracle_action())[1]["won"]
