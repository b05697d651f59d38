"""Oracles, demonstrators, rubrics and the secrecy of ALFWorld, WebShop and SearchQA."""

import dataclasses
import inspect

import numpy as np
import pytest

from tests.envs.playing import judged, steps
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.alfworld.resources import TASK_TYPES
from trca.envs.searchqa.env import SearchQAEnv
from trca.envs.webshop.env import WebShopEnv
from trca.rubric import RubricLibrary

ENVS = {"alfworld": ALFWorldEnv, "webshop": WebShopEnv, "searchqa": SearchQAEnv}
DELIBERATE = ("click[buy now]", "answer[")
OPEN = ("search[", "answer[")
SIX = {"task_types": TASK_TYPES}
FORBIDDEN = {
    *("won", "win", "done", "score", "reward", "success", "terminal", "goal", "label", "future"),
    *("hidden", "gold", "golden", "alias", "aliases", "correct", "right", "solution", "answer"),
    *("answers", "f1", "recall", "truth", "kind", "id", "ids", "asin", "simulator"),
    *("upper", "category", "walkthrough", "game", "engine"),
}
NAMED_BY_THE_AGENT = {"answer_format"}


@pytest.mark.parametrize(
    ("name", "kwargs", "tasks", "most"),
    [
        ("alfworld", {"games": "small", **SIX}, 18, 12),
        ("alfworld", {"games": "small", "split": "valid_unseen", **SIX}, 18, 12),
        ("alfworld", {"games": "medium", **SIX}, 12, 12),
        ("alfworld", {"games": "large", "split": "valid_unseen", **SIX}, 6, 12),
        ("webshop", {}, 20, 8),
        ("webshop", {"observation_mode": "text_rich", "goals": "synthetic"}, 15, 8),
        ("webshop", {"observation_mode": "text_rich", "compat": "original"}, 15, 8),
        ("webshop", {"compat": "original"}, 15, 8),
        ("searchqa", {"max_passage_chars": 30}, 50, 4),
        ("searchqa", {"max_passage_chars": 1000}, 50, 4),
    ],
)
def test_the_oracle_wins_in_few_accepted_steps(name, kwargs, tasks, most):
    env = ENVS[name](**kwargs)
    for task in env.task_ids[:tasks]:
        episode = steps(env, task, type(env).oracle_action)
        assert all(info["accepted"] for *_, info in episode)
        assert [step[1] for step in episode] == [0.0] * (len(episode) - 1) + [1.0]
        assert 2 <= len(episode) <= most
        assert episode[-1][4]["score"] == 1.0


@pytest.mark.parametrize(
    ("name", "kwargs", "tasks", "others"),
    [
        ("alfworld", SIX, 12, 30),
        ("webshop", {}, 20, 12),
        ("webshop", {"compat": "original"}, 20, 12),
        ("searchqa", {}, 30, 6),
    ],
)
def test_the_oracle_wins_from_wherever_it_is_left(name, kwargs, tasks, others):
    env = ENVS[name](**kwargs, max_steps=60)
    rng = np.random.default_rng(0)
    for task in env.task_ids[:tasks]:
        _, info = env.reset(options={"task": task})
        over = False
        for _ in range(rng.integers(others)):
            action = env.random_action(rng)
            if not (over or action.startswith(DELIBERATE)):
                *_, over, _, info = env.step(action)
        while not over:
            *_, terminated, truncated, info = env.step(env.oracle_action())
            over = terminated or truncated
        assert info["won"]


@pytest.mark.parametrize(
    ("name", "kwargs", "tasks", "slips", "least", "most"),
    [
        ("alfworld", SIX, 12, 0.0, 1.0, 1.0),
        ("alfworld", {"split": "valid_unseen", **SIX}, 12, 0.0, 1.0, 1.0),
        ("alfworld", {"max_steps": 60}, 12, 0.5, 0.9, 1.0),
        ("webshop", {}, 60, 0.0, 0.6, 0.95),
        ("webshop", {}, 60, 0.3, 0.1, 0.6),
        ("searchqa", {}, 50, 0.0, 0.85, 1.0),
        ("searchqa", {"split": "test"}, 50, 0.0, 0.85, 1.0),
        ("searchqa", {}, 60, 0.3, 0.1, 0.7),
    ],
)
def test_the_demonstrator_wins_and_copes_with_random_actions(
    name, kwargs, tasks, slips, least, most
):
    env, rng = ENVS[name](**kwargs), np.random.default_rng(0)

    def choose(env):
        action = env.demonstrator_action()
        assert action == env.demonstrator_action()
        assert action in env.admissible_actions or action.startswith(OPEN)
        return env.random_action(rng) if rng.random() < slips else action

    wins = [steps(env, task, choose)[-1][4]["won"] for task in env.task_ids[:tasks]]
    assert least <= np.mean(wins) <= most


@pytest.fixture(scope="module", params=["alfworld", "webshop", "searchqa"])
def oracle(request):
    """An environment, its operators but the invalid, and those of each step of its oracle."""
    kwargs = {"games": "medium", **SIX} if request.param == "alfworld" else {}
    env = ENVS[request.param](**kwargs)
    operators = RubricLibrary.load(env.library).operators
    positive = {o.id for o in operators if o.category != "invalidity"}
    fired, wins = judged(env, type(env).oracle_action, 60)
    assert wins == 60
    return env, positive, fired


def test_every_positive_operator_fires_for_the_oracle_and_no_other(oracle):
    _, positive, episodes = oracle
    assert set().union(*(fired for episode in episodes for fired in episode)) == positive


def test_random_players_cover_less_than_the_oracle(oracle):
    env, positive, episodes = oracle
    rng = np.random.default_rng(0)
    played, wins = judged(env, lambda env: env.random_action(rng), 60)

    def coverage(episodes):
        return np.mean([len(set().union(*episode) & positive) for episode in episodes])

    assert wins < 12
    assert coverage(played) < 0.75 * coverage(episodes)
    share = np.mean([bool(fired) for episode in played for fired in episode])
    assert 0.2 < share < 0.95


@pytest.mark.parametrize("name", ENVS)
def test_facts_and_binding_have_no_place_for_hidden_state(name):
    adapter = ENVS[name].adapter_class
    for record in (adapter.facts_type, adapter.binding_type):
        names = {field.name for field in dataclasses.fields(record)} - NAMED_BY_THE_AGENT
        assert not {part for each in names for part in each.split("_")} & FORBIDDEN
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record(), min(names), None)


@pytest.mark.parametrize("name", ENVS)
def test_an_adapter_takes_only_what_the_agent_did_and_saw(name):
    adapter = ENVS[name].adapter_class
    reset, step = (inspect.signature(method).parameters for method in (adapter.reset, adapter.step))
    assert list(reset) == ["self", "instruction", "observation", "admissible"]
    assert list(step) == ["self", "action", "observation", "admissible"]
    assert list(inspect.signature(adapter).parameters) == []


@pytest.mark.parametrize("empty", ["", " ", "\n\t", "\u2003"])
@pytest.mark.parametrize("name", ENVS)
def test_an_empty_action_changes_nothing_but_the_number_of_steps(name, empty):
    env = ENVS[name]()
    env.reset(seed=0)
    before = env.step("search[ada]")
    after = env.step(empty)
    assert after[1:4] == (0.0, False, False)
    assert (after[4]["parsed"], after[4]["accepted"]) == (False, False)
    assert after[4]["admissible_actions"] == before[4]["admissible_actions"]


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("alfworld", {"games": "smal"}, "did you mean 'small'"),
        ("alfworld", {"split": "valid"}, "Known: train, valid_seen, valid_unseen"),
        ("alfworld", {"task_types": ["Clear"]}, "did you mean 'Clean'"),
        ("webshop", {"goals": "robot"}, "Known: human, synthetic"),
        ("webshop", {"split": "valid"}, "Known: train, validation, test"),
        ("webshop", {"split_rule": "random"}, "Known: by-product, original, verl-agent"),
        ("webshop", {"observation_mode": "html"}, "Known: text, text_rich"),
        ("webshop", {"compat": "old"}, "Known: clean, original"),
        ("webshop", {"reward": "sparse"}, "Known: success, score"),
        ("webshop", {"nouns": "nltk"}, "Known: simple, recorded, spacy"),
        ("searchqa", {"questions": "tiny"}, "choose small, medium, large, or the path"),
        ("searchqa", {"split": "dev"}, "choose from train, validation, test"),
        ("searchqa", {"retriever": "google"}, "choose .*bm25"),
        ("searchqa", {"retriever": {"top": 1}}, "a mapping with a name"),
        ("searchqa", {"retriever": {"name": "bm25", "k1": 1}}, "bm25 has no option k1"),
        ("searchqa", {"retriever": "lucene"}, "lucene has nothing to search: give corpus"),
        ("searchqa", {"top_k": -1}, "top_k is -1: give 1 or more"),
        ("searchqa", {"max_passage_chars": 0}, "max_passage_chars is 0: give 1 or more"),
        *(
            (name, {"max_steps": 0}, "max_steps is 0: give a whole number from 1 on")
            for name in ENVS
        ),
        *((name, {"render_mode": "human"}, "Known: ansi") for name in ENVS),
    ],
)
def test_unknown_choices_list_the_known_ones(name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        ENVS[name](**kwargs)


@pytest.mark.parametrize("name", ENVS)
def test_an_unknown_task_names_the_nearest(name):
    env = ENVS[name]()
    with pytest.raises(ValueError, match=f"did you mean '{env.task_ids[1]}'"):
        env.reset(options={"task": env.task_ids[1].replace("/train/", "/trian/")})


@pytest.mark.parametrize("name", ENVS)
def test_environments_share_their_tasks_and_have_panels_of_their_own(name):
    cls = ENVS[name]
    envs = [cls(split=split) for split in ("train", cls.default_split) for _ in range(3)]
    other = cls("small-1") if name == "alfworld" else cls(seed=1)
    hashes = [env.panel.hash for env in (*envs, other)]
    assert hashes[0] == hashes[1] != hashes[3] == hashes[4]
    assert hashes[6] not in hashes[:6]
    assert envs[0].panel.environment == cls.env_id
    assert not set(envs[0].task_ids) & {*envs[3].task_ids, *other.task_ids}
