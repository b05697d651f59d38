"""The library in the generated world: what a win passes through, and what is invalid."""

import numpy as np
import pytest

from tests.envs.playing import judged
from trca.envs.annotate import RubricAnnotation, load_judge
from trca.envs.searchqa.adapter import SearchQAAdapter, SearchQAFacts
from trca.envs.searchqa.binding import SearchQABinding
from trca.envs.searchqa.env import SearchQAEnv
from trca.rubric import RubricLibrary

LIBRARY = RubricLibrary.load("searchqa")


def test_a_win_passes_through_search_evidence_and_a_supported_answer():
    episodes, wins = judged(SearchQAEnv(), SearchQAEnv.oracle_action, 60)
    assert wins == 60
    answered = {"evidence_extracted", "answer_submitted"}
    assert all({"search_issued", "entity_found"} <= episode[0] for episode in episodes)
    assert all(episode[-1] <= answered for episode in episodes)
    assert sum(episode[-1] == answered for episode in episodes) > 54


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
    """An empty text means the oracle's action, a space for a response without action."""
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
