"""The library in the generated world: every operator fires."""

import numpy as np
import pytest

from trca.envs.annotate import RubricAnnotation, load_judge
from trca.envs.searchqa.adapter import SearchQAAdapter
from trca.envs.searchqa.binding import SearchQABinding
from trca.envs.searchqa.env import SearchQAEnv
from trca.envs.searchqa.facts import SearchQAFacts
from trca.rubric import CATEGORIES, RubricLibrary

LIBRARY = RubricLibrary.load("searchqa")
POSITIVE = LIBRARY.categories != CATEGORIES.index("invalidity")


def judged(choose, tasks):
    """Judgments of one episode per task, (steps, operators) each, and whether each was won."""
    env = RubricAnnotation(SearchQAEnv(), library="searchqa")
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
    assert not env.judge.errors
    return episodes, won


def coverage(episodes):
    return np.mean([rows.max(axis=0)[POSITIVE].mean() for rows in episodes])


@pytest.fixture(scope="module")
def oracle():
    episodes, won = judged(SearchQAEnv.oracle_action, 120)
    assert all(won)
    return episodes


def test_every_positive_operator_fires_for_the_oracle_and_no_other(oracle):
    fired = np.concatenate(oracle).any(axis=0)
    assert fired[POSITIVE].all()
    assert not fired[~POSITIVE].any()


def test_random_readers_cover_less_than_half_as_much(oracle):
    rng = np.random.default_rng(0)
    episodes, won = judged(lambda env: env.random_action(rng), 120)
    assert sum(won) < 8
    assert coverage(episodes) < coverage(oracle) / 2
    lost = np.concatenate([e for e, win in zip(episodes, won, strict=True) if not win])
    assert 0.2 < lost.any(axis=1).mean() < 0.9


def test_a_win_passes_through_search_evidence_and_a_supported_answer(oracle):
    names = [[{LIBRARY.ids[k] for k in np.flatnonzero(row)} for row in rows] for rows in oracle]
    assert all({"search_issued", "entity_found"} <= steps[0] for steps in names)
    assert all(steps[-1] <= {"evidence_extracted", "answer_submitted"} for steps in names)
    last = [steps[-1] == {"evidence_extracted", "answer_submitted"} for steps in names]
    assert np.mean(last) > 0.9


@pytest.fixture
def env():
    env = RubricAnnotation(SearchQAEnv(max_steps=8), library="searchqa")
    tasks = env.unwrapped.task_ids
    for task in tasks:
        _, info = env.reset(options={"task": task})
        if info["task_type"] == "two-hop":
            return env
    raise AssertionError("the generated world has no two-hop question")


@pytest.mark.parametrize(
    ("actions", "operators"),
    [
        (["look around"], {"malformed"}),
        ([" "], {"malformed"}),
        (["open[1]"], {"unavailable"}),
        (["", "open[9]"], {"unavailable"}),
        (["search[ ]"], {"rejected"}),
        (["search[xyzzy]"], {"rejected", "ineffective"}),
        (["answer[]"], {"rejected"}),
        (["", "open[1]", "open[1]"], {"ineffective"}),
        (["answer[Oslo]"], {"premature_answer"}),
        (["", "answer[Oslo]"], {"premature_answer"}),
        (["", "answer[?]"], {"premature_answer"}),
        (["", "answer[1492]"], set()),
    ],
)
def test_what_is_invalid_is_named(env, actions, operators):
    """A blank stands for the oracle's action, a space for a response without action."""
    for action in actions:
        *_, info = env.step(action or env.unwrapped.oracle_action())
    assert set(info["rubric"]["fired"]) == operators


@pytest.mark.parametrize(
    ("answer", "answer_format", "facts", "operators"),
    [
        ("unseen name", "name", {"formats": ("name",)}, set()),
        ("unseen year", "date", {"formats": ("date", "number")}, set()),
        ("name for a year", "date", {"formats": ("name",), "shown": True}, {"premature_answer"}),
        ("blind", "name", {"formats": ("name",), "searched": 0}, {"premature_answer"}),
        ("seen", "name", {"formats": ("name",), "shown": True}, {"answer_submitted"}),
        ("echo", "name", {"formats": ("name",), "shown": True, "echo": True}, set()),
        ("no support", "name", {"formats": ("name",), "shown": True, "support": 0}, set()),
        ("choice", "choice", {"formats": ("name", "choice")}, {"answer_submitted"}),
        ("yes", "yes or no", {"formats": ("name", "yes or no")}, {"answer_submitted"}),
        (
            "supported",
            "name",
            {"formats": ("name",), "shown": True, "supported": True},
            {"answer_submitted", "evidence_extracted"},
        ),
    ],
)
def test_what_an_answer_is_worth(answer, answer_format, facts, operators):
    judge = load_judge("searchqa", SearchQAAdapter)
    fields = {"verb": "answer", "accepted": True, "searched": 1, "support": 1} | facts
    binding = SearchQABinding(answer_format=answer_format)
    judgments = judge.judge(binding, SearchQAFacts(**fields))
    assert {LIBRARY.ids[k] for k in np.flatnonzero(judgments)} == operators, answer


def test_a_lead_is_worth_following(env):
    assert "lead_followed" not in env.step(env.unwrapped.oracle_action())[-1]["rubric"]["fired"]
    fired = set(env.step(env.unwrapped.oracle_action())[-1]["rubric"]["fired"])
    fired |= set(env.step("open[1]")[-1]["rubric"]["fired"])
    assert {"linked_fact_found"} <= fired
