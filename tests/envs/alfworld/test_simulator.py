"""The simulator: observations and admissible actions."""

import pytest

from trca.envs.alfworld.data.generate import Scene
from trca.envs.alfworld.players import true_view
from trca.envs.alfworld.simulator import Game, Simulator

KITCHEN = Scene(
    name="kitchen",
    receptacles=("CounterTop", "Fridge", "Microwave", "SinkBasin"),
    objects=(("Apple", 0), ("Apple", 1), ("Knife", 0), ("Bowl", 3)),
    task_type="Heat",
    target="Apple",
    destination="Fridge",
    wording=0,
)
WAY = (
    "go to countertop 1",
    "take apple 2 from countertop 1",
    "go to microwave 1",
    "heat apple 2 with microwave 1",
    "go to fridge 1",
    "open fridge 1",
    "move apple 2 to fridge 1",
)


@pytest.fixture(scope="module")
def kitchen():
    return Game(KITCHEN.game())


@pytest.fixture
def simulator(kitchen):
    return Simulator(kitchen)


def told(simulator, *actions):
    """The observations after some actions from the start."""
    simulator.reset()
    return [simulator.step(action) for action in actions]


def test_the_first_observation_lists_the_room_and_names_the_task(simulator):
    assert simulator.reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a countertop 1,"
        " a fridge 1, a microwave 1, and a sinkbasin 1.\n\n"
        "Your task is to: put a hot apple in fridge."
    )


def test_a_way_to_success_reads_as_in_alfworld(simulator):
    assert told(simulator, *WAY) == [
        "You arrive at countertop 1. On the countertop 1, you see a apple 2, and a knife 1.",
        "You pick up the apple 2 from the countertop 1.",
        "You arrive at microwave 1. The microwave 1 is closed.",
        "You heat the apple 2 using the microwave 1.",
        "You arrive at fridge 1. The fridge 1 is closed.",
        "You open the fridge 1. The fridge 1 is open. In it, you see a apple 1.",
        "You move the apple 2 to the fridge 1.",
    ]
    assert simulator.won
    assert simulator.done


def test_what_is_held_can_be_looked_at(simulator):
    told(simulator, *WAY[:2])
    assert simulator.step("inventory") == "You are carrying: a apple 2."
    assert simulator.step("examine apple 2") == "There's nothing special about apple 2."
    for action in WAY[2:4]:
        simulator.step(action)
    assert simulator.step("examine apple 2") == "This is a hot apple 2."


def test_what_was_left_behind_is_missed_where_it_lay(simulator):
    assert told(simulator, *WAY[:2], "look")[-1] == (
        "You are facing the countertop 1. Next to it, you see nothing."
    )


def test_admissible_actions_are_sorted_and_accepted_by_the_simulator(simulator):
    told(simulator, "go to countertop 1")
    assert simulator.admissible_actions == [
        "examine countertop 1",
        "go to fridge 1",
        "go to microwave 1",
        "go to sinkbasin 1",
        "help",
        "inventory",
        "look",
        "take apple 2 from countertop 1",
        "take knife 1 from countertop 1",
    ]


def test_a_knife_slices_what_lies_beside(simulator):
    observation = told(simulator, "go to countertop 1", "take knife 1 from countertop 1")
    assert "slice apple 2 with knife 1" in simulator.admissible_actions
    observation = simulator.step("slice apple 2 with knife 1")
    assert observation == "You sliced the apple 2 with the knife 1."


@pytest.mark.parametrize(
    "action",
    ["", "Look", "go to  fridge 1", "go to fridge 2", "open fridge 1", "look\x00", "ｌｏｏｋ"],
)
def test_what_is_not_admissible_changes_nothing(simulator, action):
    simulator.reset()
    before = vars(true_view(simulator))
    assert simulator.step(action) == "Nothing happens."
    assert vars(true_view(simulator)) == before
    assert not simulator.done


def test_space_around_a_command_does_not_count(simulator):
    assert told(simulator, " \tgo to fridge 1\n") == told(simulator, "go to fridge 1")


def test_after_success_the_last_state_repeats(simulator):
    last = told(simulator, *WAY)[-1]
    admissible = list(simulator.admissible_actions)
    for action in ("look", "close fridge 1", "nonsense", "take apple 2 from fridge 1"):
        assert simulator.step(action) == last
        assert simulator.admissible_actions == admissible
        assert simulator.won


def test_sessions_of_a_game_share_nothing_that_changes(kitchen):
    one, other = Simulator(kitchen), Simulator(kitchen)
    before = vars(true_view(other))
    told(one, *WAY)
    assert vars(true_view(other)) == before
    assert told(other, *WAY) == told(one, *WAY)


def test_the_true_view_is_in_the_names_of_commands(simulator):
    told(simulator, *WAY[:4])
    view = true_view(simulator)
    assert view.held == "apple 2"
    assert view.here == {"microwave 1"}
    assert view.where == {"apple 1": "fridge 1", "knife 1": "countertop 1", "bowl 1": "sinkbasin 1"}
    assert view.closed == {"fridge 1", "microwave 1"}
    assert view.states == {"apple 2": ("hot",)}
