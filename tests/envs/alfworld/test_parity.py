"""Parity: the original ALFWorld and this package answer the same actions equally at every step.

``benchmarks/alfworld_parity.py`` compares all official validation games; this test compares a
sample.
"""

import json
import re
import sys
import tarfile
from pathlib import Path

import pytest

from trca.envs.alfworld.data import generate
from trca.envs.alfworld.data.generate import Scene
from trca.envs.alfworld.data.official import GAME_FILE
from trca.envs.alfworld.resources import TASK_TYPES

ROOT = Path(__file__).parents[3]
ARCHIVE = ROOT / ".." / "shared" / "data" / "alfworld" / "json_2.1.1.tar.xz"


@pytest.fixture(scope="module")
def parity():
    pytest.importorskip("alfworld")
    sys.path.append(str(ROOT / "benchmarks"))
    try:
        import alfworld_parity

        yield alfworld_parity
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture
def differences(parity, tmp_path, monkeypatch):
    """Plays a game in both simulators and returns the differences."""
    monkeypatch.setattr(sys, "argv", sys.argv)  # The original's translator overwrites this file.

    def play(game, walks=2, steps=60):
        path = tmp_path / GAME_FILE
        path.write_text(json.dumps(game))
        outcome = parity.compare(path, parity.Plan(walks=walks, steps=steps))
        assert outcome.steps > 2
        return outcome.differences

    return play


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_generated_games_are_played_as_by_stock(differences, task_type):
    assert differences(generate.draw("small", "valid_unseen", task_type, 1).game()) == []


def with_quirks(problem):
    """A room with features of official games that generated games lack."""
    receptacles = re.findall(r"\(receptacleType (\w+)", problem)
    objects = re.findall(r"\(pickupable (\w+)", problem)
    place = dict(re.findall(r"\(receptacleAtLocation (\w+) (\w+)\)", problem))
    facts = [
        *(f"opened {r}" for r in re.findall(r"\(openable (\w+)\)", problem)[::2]),
        *(f"isCool {thing}" for thing in objects[::2]),
        *(f"isClean {thing}" for thing in objects[1::3]),
        *(f"isSliced {thing}" for thing in objects[2::3]),
        *(f"inReceptacle {thing} {receptacles[0]}" for thing in objects[::3]),
        *(f"inReceptacleObject {objects[0]} {thing}" for thing in objects[:4]),
        *(f"objectAtLocation {thing} {place[receptacles[-1]]}" for thing in objects[::4]),
    ]
    first, last = place[receptacles[0]], place[receptacles[-1]]
    problem = problem.replace(f"{receptacles[-1]} {last})", f"{receptacles[-1]} {first})")
    problem = problem.replace("agent1 loc_bar_0)", f"agent1 {first})")
    return problem.replace("(:init", "(:init\n" + "\n".join(f"({fact})" for fact in facts))


def test_things_open_cold_shared_or_in_two_places_are_played_as_by_stock(differences):
    game = generate.draw("small", "train", "Heat", 5).game()
    assert differences({**game, "pddl_problem": with_quirks(game["pddl_problem"])}) == []


KITCHEN = ("CounterTop", "Fridge", "Microwave", "SinkBasin", "StoveBurner")


def test_every_treatment_reads_as_in_stock(differences):
    scene = Scene("kitchen", KITCHEN, (("Apple", 0), ("Knife", 0)), "Heat", "Apple", "Fridge", 0)
    treat = {
        "heat": ["go to microwave 1", "heat apple 1 with microwave 1"],
        "cool": ["go to fridge 1", "cool apple 1 with fridge 1"],
        "clean": ["go to sinkbasin 1", "clean apple 1 with sinkbasin 1"],
    }
    orders = [
        ("heat",),
        ("cool",),
        ("clean",),
        ("heat", "cool", "clean"),
        ("cool", "heat", "clean"),
    ]
    for sliced in (False, True):
        for order in orders:
            way = ["go to countertop 1", "take knife 1 from countertop 1"]
            way += ["slice apple 1 with knife 1"] if sliced else []
            way += ["examine knife 1", "move knife 1 to countertop 1"]
            way += ["take apple 1 from countertop 1", "examine apple 1"]
            for verb in order:
                way += [*treat[verb], "examine apple 1", "look", "inventory"]
            way += [*treat["heat"], "go to fridge 1", "open fridge 1", "move apple 1 to fridge 1"]
            assert differences({**scene.game(), "walkthrough": way}, walks=0) == []


def test_what_was_heated_is_no_longer_cool(differences):
    scene = Scene("kitchen", KITCHEN, (("Apple", 4),), "Cool", "Apple", "CounterTop", 0)
    cool = ["go to fridge 1", "cool apple 1 with fridge 1"]
    put = ["go to countertop 1", "move apple 1 to countertop 1"]
    way = ["go to stoveburner 1", "take apple 1 from stoveburner 1", *cool]
    way += ["go to microwave 1", "heat apple 1 with microwave 1", *put]
    way += ["take apple 1 from countertop 1", *cool, *put]
    assert differences({**scene.game(), "walkthrough": way}, walks=0) == []


def test_two_things_are_asked_for_and_not_one_twice(differences):
    things = (("Apple", 0), ("Apple", 0), ("Apple", 4))
    scene = Scene("kitchen", KITCHEN, things, "Pick2", "Apple", "Fridge", 0)
    way = [
        *(
            "go to fridge 1",
            "open fridge 1",
            "go to countertop 1",
            "take apple 2 from countertop 1",
        ),
        *("go to fridge 1", "move apple 2 to fridge 1", "examine fridge 1"),
        *("take apple 2 from fridge 1", "move apple 2 to fridge 1", "close fridge 1"),
        *("go to countertop 1", "take apple 3 from countertop 1", "go to fridge 1"),
        *("open fridge 1", "move apple 3 to fridge 1"),
    ]
    assert differences({**scene.game(), "walkthrough": way}, walks=0) == []


def test_what_moved_within_a_place_is_seen_beside_as_in_stock(differences):
    things = (("Apple", 0), ("Apple", 0), ("Apple", 0), ("Bowl", 0))
    scene = Scene("kitchen", KITCHEN, things, "Pick2", "Apple", "Fridge", 0)
    game = scene.game()
    game["pddl_problem"] = game["pddl_problem"].replace(" loc_bar_2)", " loc_bar_1)")
    way = ["go to fridge 1", "open fridge 1"]
    for thing in ("bowl 1", "apple 3", "apple 1"):
        way += [f"take {thing} from countertop 1", "look", f"move {thing} to fridge 1", "look"]
    assert differences({**game, "walkthrough": way}, walks=0) == []


def test_official_games_are_played_as_by_stock(differences):
    if not ARCHIVE.exists():
        pytest.skip(f"the official games are not next to the repository, at {ARCHIVE}")
    games = {}
    with tarfile.open(ARCHIVE) as archive:
        for entry in archive:
            match = re.search(rf"/valid_\w+/([a-z_]+)-[^/]*/[^/]*/{GAME_FILE}$", entry.name)
            if match and match[1] not in games:
                games[match[1]] = json.load(archive.extractfile(entry))
            if len(games) == 3:
                break
    assert len(games) == 3
    for game in games.values():
        assert differences(game, walks=1, steps=30) == []
