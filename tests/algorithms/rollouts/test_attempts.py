"""Attempts with reflections, played by a real model and by a failing endpoint."""

from functools import partial

import pytest

from tests.common.test_chat_endpoint import body, reply
from tests.envs.retrieval.servers import http, replying
from trca.algorithms import evaluate_panel, local_runner
from trca.algorithms.rollouts.attempts import AttemptsRunner
from trca.algorithms.rollouts.batch import GroupRequest
from trca.policies.agents import AGENTS
from trca.policies.agents.react import reflection_prompt
from trca.policies.models import load_tokenizer


def attempts_runner(config, attempts):
    return local_runner(
        config, partial(AttemptsRunner, attempts=attempts, reflection=reflection_prompt)
    )


@pytest.fixture(scope="module")
def evaluated(make_config, model):
    """A panel played once, and with up to three attempts, by a model that acts by chance."""
    config = make_config(memory=True, max_prompt_tokens=2048)
    evaluations = []
    for runner in (local_runner(config), attempts_runner(config, 3)):
        evaluations.append(evaluate_panel(runner, runner.panel("valid"), temperature=1.0))
        runner.stop()
    tokenizer = load_tokenizer(str(model))
    return *evaluations, lambda rollout: tokenizer.decode(rollout.steps[0].prompt_ids)


def test_the_first_attempt_is_the_rollout_without_attempts(evaluated):
    once, attempts, _ = evaluated
    assert [r.task_id for r in attempts.rollouts] == [r.task_id for r in once.rollouts]
    won = {r.task_id: r for r in once.rollouts if r.won}
    first = {r.task_id: r for r in attempts.rollouts if r.measures["attempts"] == 1}
    assert first.keys() == won.keys()
    for task, rollout in first.items():
        assert [s.response for s in rollout.steps] == [s.response for s in won[task].steps]


def test_only_a_failed_attempt_is_followed_by_another(evaluated):
    _, attempts, _ = evaluated
    counts = {r.measures["attempts"] for r in attempts.rollouts}
    assert counts >= {1, 3}
    assert all(r.won or r.measures["attempts"] == 3 for r in attempts.rollouts)
    assert not attempts.failures


def test_the_prompt_of_a_later_attempt_has_a_reflection_on_each_before(evaluated):
    _, attempts, prompt = evaluated
    for rollout in attempts.rollouts:
        for number in (1, 2):
            assert (f"Trial {number}: " in prompt(rollout)) == (
                rollout.measures["attempts"] > number
            )


def test_attempts_of_a_group_of_several_rollouts_are_refused(make_config):
    runner = attempts_runner(make_config(), 2)
    with pytest.raises(ValueError, match="groups of one rollout"):
        runner.sample(groups=[GroupRequest(0, "valid-0", "valid", 2, ("a", 0))])


def test_attempts_of_a_team_are_refused(make_config):
    config = make_config(env_config={"team": "alfworld_planner"})
    with pytest.raises(ValueError, match=r"leave env_config\.team out"):
        attempts_runner(config, 2)


def played(make_config, *replies, attempts=2):
    """Plays a task with the key in the first room, at an endpoint, with one request at a time."""
    with replying(*replies) as (url, requests):
        config = make_config(
            env_config={"max_steps": 2, "tasks": 2},
            engine="openai",
            engine_config={"base_url": url, "concurrency": 1, "attempts": 1},
            **AGENTS.get("reflexion").settings,
        )
        runner = attempts_runner(config, attempts)
        batch = runner.sample(groups=[GroupRequest(0, "valid-1", "valid", 1, ("evaluation", 0))])
        runner.stop()
    return batch, [body(request)["messages"][0]["content"] for request in requests]


SING, TAKE = reply("Thought: la\nAction: sing"), reply("Thought: now\nAction: take key")
DOWN = http("down", "500 Internal Server Error")


def test_a_plan_leads_to_success(make_config):
    batch, prompts = played(make_config, SING, SING, reply("Take\nthe key."), TAKE)
    [rollout] = batch.rollouts
    assert (rollout.won, rollout.measures["attempts"], len(prompts)) == (True, 2, 4)
    assert "Thought: la\nAction: sing\nObservation 2: You are in room 1." in prompts[1]
    assert "Thought: la\nAction: sing\nObservation 3: You are in room 1." in prompts[2]
    assert "earlier, failed trials of this task:\nTrial 1: Take the key.\n" in prompts[3]
    assert not any("Trial" in prompt for prompt in prompts[:3])


def test_a_memory_holds_the_last_three_plans(make_config):
    plan = [SING, SING, reply("plan")]
    batch, prompts = played(make_config, *plan * 4, SING, SING, attempts=5)
    assert batch.rollouts[0].measures["attempts"] == 5
    assert [f"Trial {k}: plan" in prompts[-1] for k in range(1, 5)] == [False, True, True, True]


def test_a_reflection_that_fails_is_asked_for_again(make_config):
    batch, prompts = played(make_config, SING, SING, DOWN, reply("plan"), TAKE)
    assert batch.rollouts[0].won
    assert [i.action for i in batch.incidents] == ["retried"]
    assert prompts[2] == prompts[3]


@pytest.mark.parametrize(
    "replies",
    [(DOWN,), (SING, SING, DOWN), (SING, SING, reply("plan"), DOWN)],
    ids=["acting", "reflecting", "acting again"],
)
def test_a_task_that_the_endpoint_fails_is_missing_and_no_failure_of_the_agent(
    make_config, replies
):
    batch, _ = played(make_config, *replies)
    assert not batch.rollouts
    [failure] = batch.failures
    assert (failure.task_id, failure.rollouts) == ("valid-1", 1)
    assert "HTTP 500: down" in failure.reason


def test_an_attempt_without_room_for_its_reflection_is_missing(make_config, monkeypatch):
    long = reply("x" * 300)
    monkeypatch.setitem(AGENTS.get("reflexion").settings, "max_prompt_tokens", 180)
    batch, _ = played(make_config, long, long)
    assert len(batch.rollouts) + len(batch.failures) == 1
