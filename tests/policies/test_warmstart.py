import gymnasium
import pytest

from trca.envs import Outcome, TextEnv, make
from trca.envs.responses import ACTION_FORMAT, PLAN_FORMAT, read_plan, write_action
from trca.envs.teams.team import Team
from trca.envs.text_space import AnyText
from trca.policies.warmstart import demonstrate


class Gate(gymnasium.Env[str, str]):
    """A door that opens on command, without admissible actions."""

    max_steps = 4
    observation_space = AnyText()
    action_space = AnyText()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "You stand before a gate.", {}

    def step(self, action):
        opened = action == "open gate"
        return "It opens." if opened else "Nothing happens.", float(opened), opened, False, {}

    def demonstrator_action(self):
        return "open gate"


@pytest.mark.parametrize("randomness", [0.0, 1.0])
def test_without_admissible_actions_nothing_is_random(randomness):
    examples = demonstrate([make(Gate)], randomness, 3, 0, 0, lambda *report: None)
    assert {example.action for example in examples} == {"open gate"}
    assert "You stand before a gate." in examples[0].prompt


class Stairs(TextEnv):
    """Climb three steps: the subgoal changes at every second step."""

    task_ids = ("up",)
    instruction = "climb"
    admissible_actions = ("climb", "rest")

    def start_task(self, task_id, options):
        self.height = 0
        return "You are at the foot."

    def take_action(self, action):
        self.height += action == "climb"
        return Outcome(f"You are at {self.height}.", float(self.height == 3), self.height == 3)

    def demonstrator_action(self):
        return "climb"

    def demonstrator_subgoal(self):
        return f"floor {self.height // 2}"


def plans_of(examples):
    """Switch, subgoal and action of each response."""
    readings = [read_plan(example.response) for example in examples]
    return [(reading.plan.switch, reading.plan.subgoal, reading.action) for reading in readings]


def test_with_plans_a_sensible_action_sets_the_subgoal():
    examples = demonstrate([make(Stairs)], 0.0, 6, 0, 0, lambda *report: None, (), PLAN_FORMAT)
    plans = plans_of(examples[:4])
    assert plans == [
        (True, "floor 0", "climb"),
        (False, "floor 0", "climb"),
        (True, "floor 1", "climb"),
        (True, "floor 0", "climb"),
    ]
    assert examples[0].prompt.startswith("climb\nYou are")
    assert examples[1].prompt.startswith("climb\nYour subgoal: floor 0\n")
    assert examples[3].prompt == examples[0].prompt


def test_with_plans_a_random_action_keeps_the_subgoal():
    examples = demonstrate([make(Stairs)], 1.0, 60, 3, 0, lambda *report: None, (), PLAN_FORMAT)
    starts = [e.prompt.startswith("climb\nYou are") for e in examples]
    assert [switch for switch, _, _ in plans_of(examples)] == starts
    assert {subgoal for _, subgoal, _ in plans_of(examples)} == {"floor 0"}


def test_without_plans_the_same_is_demonstrated_and_no_subgoal_is_asked_for():
    plain, planned = (
        demonstrate([make(Stairs)], 0.5, 60, 3, 0, lambda *report: None, (), response_format)
        for response_format in (ACTION_FORMAT, PLAN_FORMAT)
    )
    assert [e.action for e in plain] == [e.action for e in planned]
    assert not any("subgoal" in e.prompt for e in plain)
    assert {e.response for e in plain} == {write_action("ok", a) for a in ("climb", "rest")}


def test_each_role_of_a_team_has_a_separate_history_and_subgoal():
    env = make(Stairs, team=Team.parse("roles: {one: {acts: [all]}, other: {acts: [all]}}"))
    examples = demonstrate([env], 0.0, 3, 0, 9, lambda *report: None, (), PLAN_FORMAT)
    assert plans_of(examples) == [
        (True, "floor 0", "climb"),
        (True, "floor 0", "climb"),
        (True, "floor 1", "climb"),
    ]
    assert [e.prompt.split("\nYou are")[0] for e in examples] == [
        "climb",
        "climb",
        "climb\nYour subgoal: floor 0\n>climb",
    ]


@pytest.mark.parametrize(
    ("name", "team", "deliberate"),
    [
        ("alfworld", "alfworld_planner", ()),
        ("webshop", "webshop_planner", ()),
        ("searchqa", "searchqa_searcher", ("answer",)),
    ],
)
def test_a_team_is_demonstrated_too(name, team, deliberate):
    env = make(name, team=team)
    roles = env.unwrapped.agents
    examples = demonstrate([env], 0.3, 60, 0, 0, lambda *_: None, deliberate)
    heard = [example for example in examples if f"\n{roles[0]}: " in example.prompt]
    assert 0 < len(heard) < len(examples)
    if name == "searchqa":
        assert any(example.action.startswith("tell[") for example in examples)
        assert {example.action.partition("[")[0] for example in heard} == {"answer"}
    env.close()
