"""Teams play the packaged environments with real engines."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs import make
from trca.envs.registration import arguments
from trca.envs.teams.env import RoleTransition
from trca.envs.teams.messages import MessageFacts
from trca.envs.teams.team import Team
from trca.envs.text_env import as_action

TEAMS = [
    ("alfworld", "alfworld_planner"),
    ("webshop", "webshop_planner"),
    ("searchqa", "searchqa_searcher"),
]
ONE = Team.parse("roles: {alone: {acts: [all]}}")
every_team = pytest.mark.parametrize(("name", "team"), TEAMS)


def play(env: Any, choose: Any, seed: int = 0) -> list[tuple[str, str, dict[str, Any]]]:
    """Agent, observation and info of each turn; the state after the end comes last."""
    observation, info = env.reset(seed=seed)
    turns, over = [(info["agent"], observation, info)], False
    while not over:
        observation, _, terminated, truncated, info = env.step(choose(env.unwrapped, info))
        turns.append((info["agent"], observation, info))
        over = terminated or truncated
    return turns


def oracle(env: Any, info: dict[str, Any]) -> str:
    return str(env.oracle_action())


def transitions(turns: list[tuple[str, str, dict[str, Any]]]) -> list[RoleTransition]:
    return [each for _, _, info in turns[1:] for each in info["closed"]]


@every_team
def test_the_oracles_of_a_team_win(name: str, team: str) -> None:
    env = make(name, team=team)
    for seed in range(5):
        turns = play(env, oracle, seed)
        assert turns[-1][2]["won"]
        assert {each.reward for each in transitions(turns)} <= {0.0, 1.0}


@every_team
def test_the_outcome_reaches_the_last_act_of_every_role(name: str, team: str) -> None:
    env = make(name, team=team)
    ended = transitions(play(env, oracle))
    for role in env.unwrapped.agents:
        rewards = [each.reward for each in ended if each.agent == role]
        assert sum(rewards) == 1.0
        assert rewards[-1] == 1.0


@every_team
def test_every_act_ends_in_one_transition(name: str, team: str) -> None:
    env = make(name, team=team)
    rng = np.random.default_rng(0)
    turns = play(env, lambda env, info: env.random_action(rng))
    acted = [agent for agent, _, _ in turns[:-1]]
    ended = [each.agent for each in transitions(turns)]
    assert sorted(acted) == sorted(ended)


@every_team
def test_the_contexts_of_a_role_follow_each_other(name: str, team: str) -> None:
    env = make(name, team=team)
    rng = np.random.default_rng(1)
    ended = transitions(play(env, lambda env, info: env.random_action(rng)))
    for role in env.unwrapped.agents:
        role_transitions = [each for each in ended if each.agent == role]
        assert all(one.next_context == other.context for one, other in pairwise(role_transitions))


@every_team
def test_judgments_go_to_the_role_whose_act_it_was(name: str, team: str) -> None:
    env = make(name, team=team)
    action_operators = set(make(name).get_wrapper_attr("judge").library.ids)
    for each in transitions(play(env, oracle)):
        role = env.unwrapped.team.roles[each.agent]
        assert each.rubric is not None
        assert len(each.rubric["judgments"]) == len(env.unwrapped.operators[each.agent].ids)
        fired = set(each.rubric["fired"])
        is_message = isinstance(each.facts, MessageFacts)
        assert not fired & action_operators if is_message else fired <= action_operators
        assert role.speaks if is_message else bool(role.acts)


@every_team
def test_any_string_is_a_legal_act(name: str, team: str) -> None:
    env = make(name, team=team, max_steps=5)

    @settings(max_examples=15)
    @given(st.lists(st.text(st.characters(codec=None)), min_size=12, max_size=12))
    def check(actions: list[str]) -> None:
        env.reset(seed=0)
        for action in actions:
            _, _, terminated, truncated, info = env.step(action)
            assert info["parsed"] == bool(as_action(action).strip())
            if terminated or truncated:
                break

    check()


@every_team
def test_the_same_seed_and_actions_give_the_same_turns(name: str, team: str) -> None:
    def turns() -> list[tuple[str, str]]:
        rng = np.random.default_rng(2)
        env = make(name, team=team)
        return [t[:2] for t in play(env, lambda env, info: env.random_action(rng), seed=3)]

    assert turns() == turns()


@every_team
def test_a_team_meets_gymnasiums_contract(name: str, team: str) -> None:
    env = make(name, team=team)
    check_env(env.unwrapped, skip_render_check=True)
    assert "team" in arguments(name)
    with pytest.raises(ResetNeeded):
        make(name, team=team).step("look")


def test_gymnasium_makes_a_team() -> None:
    env = gymnasium.make("trca.envs:trca/ALFWorld-v0", team="alfworld_planner")
    assert env.reset(seed=0)[1]["agent"] == "planner"


@pytest.mark.parametrize("name", ["alfworld", "webshop", "searchqa"])
def test_a_team_of_one_plays_as_one_agent_does(name: str) -> None:
    alone, plain = make(name, team=ONE), make(name)
    rng = np.random.default_rng(4)
    seen, info = alone.reset(seed=5)
    plainly, plain_info = plain.reset(seed=5)
    over = False
    while not over:
        assert seen == plainly
        for key in ("task", "admissible_actions", "memory", "context", "task_type", "task_id"):
            assert info[key] == plain_info[key]
        action = plain.unwrapped.random_action(rng)  # type: ignore[attr-defined]
        seen, reward, terminated, truncated, info = alone.step(action)
        plainly, *plain_end, plain_info = plain.step(action)
        assert [reward, terminated, truncated] == plain_end
        (ended,) = info["closed"]
        assert ended.reward == reward
        assert (ended.context, ended.next_context) == (
            plain_info["context"],
            plain_info["next_context"],
        )
        assert ended.facts == plain_info["facts"]
        assert ended.rubric["fired"] == plain_info["rubric"]["fired"]
        assert ended.rubric["reward"] == plain_info["rubric"]["reward"]
        assert [info[k] for k in ("parsed", "accepted", "won", "score")] == [
            plain_info[k] for k in ("parsed", "accepted", "won", "score")
        ]
        over = terminated or truncated
    assert info.get("measures") == plain_info.get("measures")


def test_the_planners_message_enters_the_executors_observation() -> None:
    env = make("alfworld", team="alfworld_planner")
    env.reset(seed=0)
    seen, *_, info = env.step("go to the \nfridge 1")
    assert info["agent"] == "executor"
    assert seen.splitlines()[-1] == "planner: go to the fridge 1"
    assert info["memory"].splitlines()[-1] == "planner: go to the fridge 1"
    for _ in range(4):
        assert info["agent"] == "executor"
        seen, *_, info = env.step("look")
    assert info["agent"] == "planner"
    assert "planner:" not in seen


def test_a_role_that_speaks_and_listens_hears_the_others_alone() -> None:
    sees = "sees: [observation, messages]"
    talkers = Team.parse(
        f"roles: {{one: {{speaks: true, {sees}}}, two: {{acts: [all], speaks: true, {sees}}}}}"
    )
    env = make("alfworld", team=talkers)
    env.reset(seed=0)
    seen, *_, info = env.step("hello")
    assert (info["agent"], seen.splitlines()[-1]) == ("two", "one: hello")
    seen, *_, info = env.step("tell[what?]")
    assert (info["agent"], seen.splitlines()[-1]) == ("one", "two: what?")
    assert "hello" not in seen
    assert info["memory"].splitlines()[-1] == "two: what?"
    assert "hello" not in info["memory"]


def test_the_answerer_sees_the_question_and_the_message_and_nothing_else() -> None:
    env = make("searchqa", team="searchqa_searcher")
    _, info = env.reset(seed=0)
    question = info["task"]
    env.step(f"search[{question}]")
    seen, *_, info = env.step("tell[Ada Balan, 1912]")
    assert info["agent"] == "answerer"
    assert seen == info["memory"] == "searcher: Ada Balan, 1912"
    assert info["admissible_actions"] == ["answer[<your answer>]"]
    assert info["task"] == question
    assert question in info["brief"]


def test_a_role_cannot_take_anothers_actions() -> None:
    env = make("searchqa", team="searchqa_searcher")
    env.reset(seed=0)
    *_, info = env.step("answer[Ada]")  # the searcher's: it would end the episode
    assert not info["accepted"]
    assert info["agent"] == "searcher"
    (ended,) = info["closed"]
    assert "malformed" in " ".join(ended.rubric["fired"])


def test_a_searcher_that_never_tells_loses_its_turn() -> None:
    env = make("searchqa", team="searchqa_searcher")
    _, info = env.reset(seed=0)
    for _ in range(3):
        assert info["agent"] == "searcher"
        seen, *_, info = env.step("search[Ada]")
    assert info["agent"] == "answerer"
    assert seen == ""


def test_a_message_that_comes_too_late_is_unread() -> None:
    env = make("alfworld", team="alfworld_planner", max_steps=4)
    env.reset(seed=0)
    env.step("go on")
    for _ in range(3):
        env.step("look")
    *_, truncated, info = env.step("look")
    assert truncated
    planner = next(each for each in info["closed"] if each.agent == "planner")
    assert "message_unread" not in planner.rubric["fired"]
    talkers = Team.parse(
        "roles: {one: {speaks: true}, other: {acts: [all], speaks: true, sees: [messages]}}"
    )
    env = make("alfworld", team=talkers, max_steps=2)
    env.reset(seed=0)
    for action in ("hello", "tell[what?]", "nothing"):
        *_, truncated, info = env.step(action)
        assert not truncated
    *_, truncated, info = env.step("tell[I see]")  # the second round without an action
    assert truncated
    unread = {e.agent: "message_unread" in e.rubric["fired"] for e in info["closed"]}
    assert unread == {"one": False, "other": True}


def test_an_episode_of_talk_alone_is_measured_too() -> None:
    talkers = Team.parse("roles: {one: {speaks: true}, other: {acts: [answer], speaks: true}}")
    env = make("searchqa", team=talkers, max_steps=2)
    *_, (_, _, info) = play(env, lambda env, info: "tell[nothing]")
    assert info["measures"]["f1"] == 0.0


def test_every_role_gets_the_tools_of_the_environment() -> None:
    desk = f"{Path(__file__).parents[3]}/examples/refunds/desk.py:RefundDesk"
    env = make(desk, team=Team.parse("roles: {one: {acts: [all]}, two: {acts: [all]}}"))
    _, before = env.reset(seed=0)
    *_, after = env.step('{"name": "show", "arguments": {"order": 1}}')
    names = [tool["function"]["name"] for tool in before["tools"]]
    assert names == ["show", "refund"]
    assert (before["agent"], after["agent"], after["tools"]) == ("one", "two", before["tools"])


def test_a_role_calls_only_its_own_tools() -> None:
    desk = f"{Path(__file__).parents[3]}/examples/refunds/desk.py:RefundDesk"
    team = """
    roles:
      talker: {speaks: true}
      looker: {acts: [show], turn: 4}
      refunder: {acts: [refund]}
    """
    env = make(desk, team=Team.parse(team))
    _, info = env.reset(seed=0)
    tools = {info["agent"]: info["tools"]}
    *_, info = env.step("hello")
    tools[info["agent"]] = info["tools"]
    show, refund = (f'[{{"name": "{name}", "arguments": {{"order": 1}}}}]' for name in NAMES)
    both = f"{show[:-1]}, {refund[1:]}"
    observation, *_ = env.step(show)
    assert "order 1" in observation.lower()
    for forbidden in (refund, both):
        observation, *_ = env.step(forbidden)
        assert observation.startswith("There is no call.")
    *_, info = env.step(show)
    tools[info["agent"]] = info["tools"]
    names = {role: [t["function"]["name"] for t in each] for role, each in tools.items()}
    assert names == {"talker": ["show", "refund"], "looker": ["show"], "refunder": ["refund"]}


NAMES = ("show", "refund")


def test_nobody_reads_its_own_message() -> None:
    alone = Team.parse(
        "roles: {one: {speaks: true, sees: [messages]}, two: {acts: [all], sees: [observation]}}"
    )
    env = make("alfworld", team=alone)
    env.reset(seed=0)
    env.step("hello")
    *_, info = env.step("look")
    closed = {each.agent: each.rubric["fired"] for each in info["closed"]}
    assert "message_unread" in closed["one"]


def test_budgets_and_lambda_reach_the_rewards_of_every_role() -> None:
    nothing = {"evidence": 0.0, "invalidity": 0.0, "execution": 0.0}
    env = make("alfworld", team="alfworld_planner", budgets=nothing)
    ended = transitions(play(env, oracle))
    assert any(each.rubric["fired"] for each in ended)
    assert {each.rubric["reward"] for each in ended} == {0.0}


def test_a_team_has_the_panel_of_the_environment() -> None:
    plain, team = make("alfworld"), make("alfworld", team="alfworld_planner")
    assert team.get_wrapper_attr("panel") == plain.get_wrapper_attr("panel")


def test_a_transcript_names_its_speakers() -> None:
    env = make("alfworld", team="alfworld_planner", render_mode="ansi")
    env.reset(seed=0)
    env.step("go to fridge 1")
    env.step("look")
    text = env.render()
    assert "planner> go to fridge 1" in text
    assert "executor> look\nYou are" in text


def test_the_demonstrators_subgoal_is_the_environments() -> None:
    env = make("alfworld", team="alfworld_planner").unwrapped
    env.reset(seed=0)
    subgoal = env.demonstrator_subgoal()
    assert subgoal == env.inner.unwrapped.demonstrator_subgoal()
    assert " " in subgoal  # not the first word of the action
