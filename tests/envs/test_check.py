"""The self-check passes a sound environment and names the faults of a spoiled environment."""

from typing import ClassVar

import gymnasium
import pytest

from tests.envs.test_contract import Coin, CoinAdapter, CoinBinding, CoinFacts
from tests.toy import Rooms
from trca.envs import make
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.check import HOSTILE_ACTIONS, play, self_check
from trca.envs.text_env import TextEnv


def test_the_generated_games_are_sound():
    env = gymnasium.make("trca/ALFWorld-v0", split="valid_unseen")
    report = self_check(env, env.unwrapped.task_ids[:16])
    assert report.ok, report.problems
    assert report.tasks == 16
    assert report.random_wins <= 4
    assert 4 <= report.oracle_steps <= 8


def test_every_operator_fires_sometimes_and_none_always():
    env = gymnasium.make("trca/ALFWorld-v0", task_types=["Pick", "Look", "Clean", "Heat", "Pick2"])
    report = self_check(env, env.unwrapped.task_ids[:25])
    assert len(report.firing) == 15
    assert min(report.firing.values()) > 0, report.firing
    assert max(report.firing.values()) < report.steps


def test_an_environment_without_judgments_has_no_firing_rates():
    env = ALFWorldEnv()
    assert self_check(env, env.task_ids[:1]).firing == {}


class Spoiled(gymnasium.Wrapper):
    """Never won, and its text depends on the number of past episodes."""

    plays = 0

    def reset(self, **kwargs):
        self.plays += 1
        observation, info = self.env.reset(**kwargs)
        return f"{observation} {self.plays}", info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "won": False}


def test_the_check_detects_a_broken_environment():
    env = Spoiled(ALFWorldEnv(max_steps=8))
    tasks = env.unwrapped.task_ids[:3]
    report = self_check(env, tasks)
    assert not report.ok
    assert report.unsolved == report.unlike == tasks
    assert any("oracle fails on 3 tasks: small/train/pick-0000" in p for p in report.problems)
    assert any("do not repeat" in p for p in report.problems)


def test_facts_that_do_not_fit_their_types_are_named():
    class Careless(CoinAdapter):
        def reset(self, instruction, observation, admissible):
            super().reset(instruction, observation, admissible)
            self.binding = CoinBinding(5)

        def step(self, action, observation, admissible):
            self.facts = CoinFacts(observation if action == "stop" else None)
            return self.facts

    class Loose(Coin):
        adapter_class = Careless

        def oracle_action(self):
            return "turn"

    report = self_check(make(Loose))
    assert report.misfits == (
        "CoinBinding.side was 5, and is declared str",
        "CoinFacts.shown was None, and is declared str",
    )
    assert set(report.misfits) < set(report.problems)
    assert self_check(make(Coin)).misfits == ()


def test_only_text_environments_can_be_checked():
    with pytest.raises(TypeError, match="TextEnv"):
        self_check(gymnasium.make("CartPole-v1"))


def test_a_team_is_played_by_its_roles_though_one_sees_no_actions(tmp_path):
    (tmp_path / "team.yaml").write_text(
        "roles:\n"
        "  planner: {speaks: true, sees: [task]}\n"
        "  executor: {acts: [all], sees: [task, observation, admissible, messages], turn: 2}\n"
    )
    env = gymnasium.make("trca/ALFWorld-v0", team=str(tmp_path / "team.yaml"))
    report = self_check(env, env.unwrapped.task_ids[:16])
    assert not report.unlike
    assert not report.unsolved
    assert report.firing["heeded"] > 0
    assert report.firing["target_taken"] > 0


class Nested(Coin):
    """Raises in a task, and on actions that it cannot encode or that are long."""

    def start_task(self, task_id, options):
        if task_id == "train-2":
            raise LookupError("no such coin")
        return super().start_task(task_id, options)

    def take_action(self, action):
        if len(action) > 1000:
            raise OverflowError("too long")
        return super().take_action(action)


def test_exceptions_are_problems_with_class_task_and_line():
    report = self_check(make(Nested))
    assert not report.ok
    missing, long = report.errors
    assert missing.startswith("task 'train-2' raises: LookupError: no such coin (in Nested, at")
    assert "test_check.py:" in missing
    assert "in start_task" in missing
    assert "after the action 'xxxxxxxxxxxxxxxxxxxx'... of 1,048,576 characters" in long
    assert "OverflowError: too long (in Nested, at test_check.py:" in long
    assert report.unsolved == ()


def test_the_hostile_actions_hold_nul_control_characters_surrogates_and_megabytes():
    class Recorder(gymnasium.Wrapper):
        actions: ClassVar[list[str]] = []

        def step(self, action):
            self.actions.append(action)
            return self.env.step(action)

    report = self_check(Recorder(make(Coin)))
    assert report.ok, report.problems
    sent = Recorder.actions[-len(HOSTILE_ACTIONS) :]
    assert any("\0" in action for action in sent)
    assert any("\x1b" in action for action in sent)
    assert any("\ud800" in action for action in sent)
    assert any(len(action) >= 2**20 for action in sent)


def test_an_environment_without_oracle_is_checked_for_the_rest():
    class NoOracle(Coin):
        def oracle_action(self):
            return TextEnv.oracle_action(self)

    report = self_check(make(NoOracle))
    assert report.ok, report.problems
    assert report.oracle_steps is None
    assert report.tasks == 4
    assert report.steps > 0


def start(task_id):
    env = make(Rooms, split="train")
    return env, env.reset(options={"task": task_id})[1]


def test_an_episode_ends_with_its_last_step():
    env, info = start("train-0")
    actions = iter(["go", "take key", "sing"])
    steps = list(play(env, info, lambda info: next(actions)))
    assert [(s.action, s.is_last, s.reward) for s in steps] == [
        ("go", False, 0.0),
        ("take key", True, 1.0),
    ]
    assert steps[-1].info["won"]
    assert next(actions) == "sing"


def test_the_step_limit_ends_an_episode():
    env, info = start("train-0")
    steps = list(play(env, info, lambda info: "sing"))
    assert [s.is_last for s in steps] == [False, False, False, True]


def test_a_player_without_an_action_leaves():
    env, info = start("train-0")
    actions = iter(["sing", None])
    assert [s.action for s in play(env, info, lambda info: next(actions))] == ["sing"]
