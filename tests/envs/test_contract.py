"""The contract of text environments, on all registered environments and on a local one."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Text

from trca.envs import Adapter, Outcome, TextEnv, make, register
from trca.envs.registration import PACKAGED, arguments, canonical, env_class
from trca.envs.text_env import MissingPartError, as_action
from trca.rubric import RubricLibrary


@dataclasses.dataclass(frozen=True)
class CoinFacts:
    shown: str = ""


@dataclasses.dataclass(frozen=True)
class CoinBinding:
    side: str = ""


class CoinAdapter(Adapter):
    facts_type, binding_type = CoinFacts, CoinBinding
    made = 0

    def __init__(self) -> None:
        CoinAdapter.made += 1
        self.binding, self.facts, self.steps = CoinBinding(), CoinFacts(), 0

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        self.binding, self.facts, self.steps = CoinBinding(instruction[5:10]), CoinFacts(), 0

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> CoinFacts:
        self.facts, self.steps = CoinFacts(observation), self.steps + 1
        return self.facts

    @property
    def context(self) -> str:
        return f"{self.binding.side}|{self.facts.shown}"

    @property
    def memory(self) -> str:
        return f"shown {self.facts.shown}" if self.facts.shown else ""


class Coin(TextEnv):
    """Turn a coin to the side that is asked for, and stop."""

    adapter_class = CoinAdapter

    @property
    def task_ids(self) -> tuple[str, ...]:
        return tuple(f"{self.split}-{number}" for number in range(4))

    @property
    def instruction(self) -> str:
        return f"show {self.goal}."

    @property
    def admissible_actions(self) -> list[str]:
        return ["turn", "stop"]

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        if task_id not in self.task_ids:
            raise ValueError(f"no task {task_id!r}")
        self.side, self.goal = "heads", ("heads", "tails")[int(task_id[-1]) % 2]
        return self.side

    def take_action(self, action: str) -> Outcome:
        if action == "turn":
            self.side = {"heads": "tails", "tails": "heads"}[self.side]
        won = action == "stop" and self.side == self.goal
        return Outcome(self.side, float(won), action == "stop", accepted=action != "dance")

    def oracle_action(self) -> str:
        return "stop" if self.side == self.goal else "turn"

    def demonstrator_action(self) -> str:
        return "stop" if self.adapter.facts.shown == self.goal else "turn"


class Plain(gymnasium.Env[str, str]):
    """Say ``stop``: without tasks, admissible actions, facts or anything of TRCA."""

    def __init__(self) -> None:
        self.observation_space = self.action_space = Text(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(1000))
        return f"number {self.number}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.number += 1
        done = action == "stop"
        return f"number {self.number}", float(done), done, False, {}


register("test/Coin-v0", Coin)
register("test/Plain-v0", Plain)
IDS = [*PACKAGED, "test/Coin-v0", "test/Plain-v0"]
RESET_KEYS = {
    *("task_id", "split", "task_type", "task", "admissible_actions", "context", "memory"),
}
STEP_KEYS = RESET_KEYS | {"next_context", "parsed", "accepted", "won", "score"}
FRESH = """
import sys, gymnasium
env = gymnasium.make("trca.envs:{name}")
observation, info = env.reset(seed=0)
over = False
while not over:
    observation, reward, terminated, truncated, info = env.step(env.unwrapped.oracle_action())
    over = terminated or truncated
assert info["won"]
heavy = "torch ray transformers textworld alfworld spacy openai pyarrow pandas faiss".split()
print(sorted(set(heavy) & set(sys.modules)))
"""
GARBAGE = ("", " ", "dance", "x" * 10_000, "\0\ud800\n<action>", "go to\ngo to")


@pytest.fixture(scope="module", params=IDS)
def env(request: pytest.FixtureRequest) -> Iterator[gymnasium.Env[str, str]]:
    made = make(request.param)
    yield made
    made.close()


def episode(env: Any, task: str, seed: int) -> list[tuple[str, dict[str, Any]]]:
    """Observations and infos of an episode of random, stale and meaningless actions."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(options={"task": task})
    steps, over = [(observation, info)], False
    while not over:
        action = (
            str(rng.choice(GARBAGE)) if rng.random() < 0.3 else env.unwrapped.random_action(rng)
        )
        observation, reward, terminated, truncated, info = env.step(action)
        assert type(reward) is float
        assert not (terminated and truncated)
        assert info["parsed"] == bool(as_action(action).strip())
        steps.append((observation, info))
        over = terminated or truncated
    assert len(steps) <= env.unwrapped.max_steps + 1
    return steps


def test_info_has_every_documented_key_with_its_type(env: Any) -> None:
    for number, task in enumerate(env.unwrapped.task_ids[:4]):
        steps = episode(env, task, number)
        for turn, (observation, info) in enumerate(steps):
            assert (RESET_KEYS if turn == 0 else STEP_KEYS) <= set(info)
            assert isinstance(observation, str)
            assert isinstance(info["task"], str)
            assert info["task"]
            assert info["task_id"] == task
            assert all(isinstance(action, str) for action in info["admissible_actions"])
            assert isinstance(info["context"], str)
            assert "\n" not in info["memory"]
            assert len(info["memory"]) <= 500
        for (_, before), (_, after) in pairwise(steps):
            assert after["context"] == before.get("next_context", before["context"])
            assert type(after["won"]) is bool
            assert 0.0 <= after["score"] <= 1.0


def test_facts_and_judgments_come_where_they_are_declared(env: Any) -> None:
    declared = env.unwrapped
    _, info = episode(env, declared.task_ids[0], 0)[-1]
    assert ("facts" in info) == (declared.adapter_class is not None)
    assert ("rubric" in info) == (declared.library is not None)
    if "facts" in info:
        assert type(info["facts"]) is declared.adapter_class.facts_type
        assert info["facts"] is declared.adapter.facts
        for kind in (declared.adapter_class.facts_type, declared.adapter_class.binding_type):
            assert kind.__dataclass_params__.frozen
            assert kind() == kind()
    if "rubric" in info:
        judgments, library = info["rubric"]["judgments"], RubricLibrary.load(declared.library)
        assert judgments.dtype == np.uint8
        assert judgments.shape == (len(library.ids),)
        assert not judgments.flags.writeable
        fired = [library.ids[k] for k in np.flatnonzero(judgments)]
        assert info["rubric"]["fired"] == tuple(fired)
        assert canonical(library.environment) == declared.env_id


def test_environments_in_threads_play_as_they_do_alone(env: Any) -> None:
    tasks = env.unwrapped.task_ids[:16]

    def told(played: Any, task: str) -> list[str]:
        return [text for text, _ in episode(played, task, 0)]

    alone = [told(env, task) for task in tasks]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda task: told(make(env.spec.id), task), tasks)) == alone


def test_the_step_limit_truncates(env: Any) -> None:
    short: Any = make(env.spec.id, max_steps=3)
    short.reset(options={"task": env.unwrapped.task_ids[0]})
    assert [short.step("dance")[2:4] for _ in range(3)] == [(False, False)] * 2 + [(False, True)]
    with pytest.raises(ResetNeeded, match="the episode is over"):
        short.step("dance")


def test_the_info_of_a_step_is_the_callers_own(env: Any) -> None:
    env.reset(options={"task": env.unwrapped.task_ids[0]})
    info = env.step("dance")[4]
    admissible = list(info["admissible_actions"])
    info["admissible_actions"].clear()
    assert env.step("dance")[4]["admissible_actions"] == admissible


def test_render_tells_the_episode() -> None:
    for name in PACKAGED:
        assert make(name).unwrapped.render() is None
        env = make(name, render_mode="ansi")
        first, _ = env.reset(seed=0)
        answer = env.step("dance")[0]
        assert env.render() == f"{first}\n\n> dance\n{answer}"


@pytest.mark.parametrize("name", PACKAGED)
def test_a_made_environment_can_be_made_again_from_its_spec(name: str) -> None:
    env: Any = gymnasium.make(name, max_steps=7)
    again: Any = gymnasium.make(env.spec)
    assert again.unwrapped.max_steps == 7
    assert again.unwrapped.task_ids == env.unwrapped.task_ids
    assert str(again) == str(env)


def test_the_order_of_calls_is_kept(env: Any) -> None:
    fresh: Any = make(env.spec.id).unwrapped
    calls = [lambda: fresh.step("look")]
    if env.spec.id in PACKAGED:
        calls += [fresh.oracle_action, fresh.demonstrator_action]
    for call in calls:
        with pytest.raises(ResetNeeded, match="reset"):
            call()
    episode(env, env.unwrapped.task_ids[0], 0)
    with pytest.raises(ResetNeeded, match="reset"):
        env.step("look")
    with pytest.raises(ValueError, match="task"):
        env.reset(options={"task": "no such task"})


def test_tasks_are_a_panel_and_a_seed_draws_one(env: Any) -> None:
    ids = env.unwrapped.task_ids
    assert len(ids) == len(set(ids)) > 1
    assert env.unwrapped.panel.task_ids == ids

    def drawn(seed: int) -> tuple[str, ...]:
        first = env.reset(seed=seed)[1]["task_id"]
        return (first, *(env.reset()[1]["task_id"] for _ in range(4)))

    assert drawn(3) == drawn(3)
    assert len({drawn(seed) for seed in range(4)}) == 4
    assert set(drawn(3)) <= set(ids)


def test_the_default_split_and_the_arguments_are_there(env: Any) -> None:
    name = env.spec.id
    split = env.unwrapped.default_split
    assert make(name, split=split).unwrapped.task_ids  # type: ignore[attr-defined]
    assert {"split", "max_steps", "library", "budgets", "lambda_"} <= set(arguments(name))
    assert set(env.unwrapped.language or ()) <= set(arguments(name))


def test_the_oracle_wins_and_the_demonstrator_copes_with_anything(env: Any) -> None:
    if env.spec.id == "test/Plain-v0":
        for play in (env.unwrapped.oracle_action, env.unwrapped.demonstrator_action):
            with pytest.raises(MissingPartError, match="Plain has no"):
                play()
        return
    rng = np.random.default_rng(0)
    for task in env.unwrapped.task_ids[:2]:
        _, info = env.reset(options={"task": task})
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(env.unwrapped.oracle_action())
            over = terminated or truncated
        assert info["won"]
        env.reset(options={"task": task})
        over = False
        while not over:
            action = env.unwrapped.demonstrator_action()
            if rng.random() < 0.5:
                action = env.unwrapped.random_action(rng)
            *_, terminated, truncated, _ = env.step(action)
            over = terminated or truncated


def test_one_adapter_follows_an_episode() -> None:
    before = CoinAdapter.made
    env: Any = make(Coin)
    env.reset(options={"task": "train-1"})
    for steps in (1, 2, 3):
        env.unwrapped.demonstrator_action()
        env.step("turn")
        assert env.unwrapped.adapter.steps == steps
    assert CoinAdapter.made == before + 1


def test_the_step_limit_of_a_plain_environment_replaces_its_own() -> None:
    gymnasium.register("test/Short-v0", Plain, max_episode_steps=2)
    for limit in (1, 2, 4):
        env: Any = make("test/Short-v0", max_steps=limit)
        env.reset(seed=0)
        ended = [env.step("go")[3] for _ in range(limit)]
        assert ended == [*[False] * (limit - 1), True]
        assert env.unwrapped.max_steps == limit


def test_a_plain_environment_has_its_observations_as_contexts() -> None:
    env: Any = make(Plain, split="test", max_steps=3)
    first, info = env.reset(options={"task": env.unwrapped.task_ids[0]})
    assert info["context"] == info["task"] == first
    second, *_, info = env.step("go")
    assert (info["context"], info["next_context"]) == (first, second)
    assert info["admissible_actions"] == []
    env.step("go")
    *_, terminated, truncated, info = env.step("go")
    assert (terminated, truncated, info["won"]) == (False, True, False)


def test_milestones_are_in_the_info_of_environments_that_report_them() -> None:
    class Reporting(Plain):
        def step(self, action: str) -> Any:
            observation, reward, done, cut, info = super().step(action)
            return observation, reward, done, cut, {**info, "milestone": action == "go"}

    for env, expected in ((make(Plain), [None, None]), (make(Reporting), [False, True])):
        env.reset(seed=0)
        assert [env.step(action)[-1].get("milestone") for action in ("wait", "go")] == expected


@pytest.mark.parametrize(("reward", "score"), [("nan", "0"), ("0", "inf")])
def test_a_reward_that_is_no_finite_number_is_an_error(reward: str, score: str) -> None:
    class Broken(Plain):
        def step(self, action: str) -> Any:
            observation, _, done, cut, _ = super().step(action)
            return observation, float(reward), done, cut, {"score": float(score)}

    env = make(Broken)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=f"gave reward {float(reward)} and score {float(score)}"):
        env.step("stop")


def test_names_of_environments() -> None:
    file = Path(__file__).parents[2] / "examples" / "key_door" / "key_door" / "env.py"
    assert env_class(f"{file}:KeyDoor").library == file.with_name("rubric.yaml")
    assert env_class(f"{__name__}:Coin") is env_class("coin") is env_class("test/Coin-v0") is Coin
    with pytest.raises(ValueError, match="did you mean 'trca/ALFWorld-v0'"):
        make("trca/ALFWord-v0")
    with pytest.raises(ValueError, match=r"no file gone\.py"):
        make("gone.py:Coin")
    with pytest.raises(ValueError, match="has no 'KeyDor': did you mean 'KeyDoor'"):
        make(f"{file}:KeyDor")
    with pytest.raises(ValueError, match="already registered"):
        register("test/Coin-v0", Plain)
    with pytest.raises(TypeError, match=r"use gymnasium.spaces.Text"):
        make("CartPole-v1")
    with pytest.raises(ValueError, match="declares no adapter_class"):
        make(Plain, library="alfworld")


@pytest.mark.parametrize("name", PACKAGED)
def test_gymnasium_makes_it_with_no_import_of_ours_and_plays_without_anything_heavy(
    name: str,
) -> None:
    code = FRESH.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_control_characters_and_surrogates_never_reach_an_environment():
    class Echo(Coin):
        def take_action(self, action: str) -> Outcome:
            return Outcome(f"heard {action!r}")

    env = make(Echo)
    env.reset()
    for action in ("\0 cabinet", "turn\x1b[2J", "\x7f", "turn \x9f", "turn\ud800"):
        observation, _, _, _, info = env.step(action)
        assert observation == "heard ''"
        assert info["parsed"] is False
    observation, _, _, _, info = env.step("say a\n\tb é 漢")
    assert observation == "heard 'say a\\n\\tb é 漢'"
    assert info["parsed"] is True


@pytest.mark.parametrize("action", [3, None, b"look"])
def test_an_action_that_is_no_string_is_named(env: Any, action: Any) -> None:
    env.reset(seed=0)
    with pytest.raises(TypeError, match=re.escape(f"the action is {action!r}: give a string")):
        env.step(action)


class Bytes(gymnasium.Env[Any, str]):
    """A plain game whose observation is bytes at a named moment."""

    observation_space = action_space = gymnasium.spaces.Text(99)

    def __init__(self, moment: str = "reset") -> None:
        self._moment = moment

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return b"a room" if self._moment == "reset" else "a room", {}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return b"a room", 0.0, False, False, {}


def test_an_observation_that_is_no_string_is_named() -> None:
    with pytest.raises(TypeError, match="Bytes gave the observation b'a room'"):
        make(Bytes).reset(seed=0)
    env = make(Bytes, moment="step")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="Bytes gave the observation b'a room'"):
        env.step("look")
