"""Parity: pages and scores equal those of the original WebShop."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DATA = ROOT / ".." / "shared" / "data" / "webshop"


@pytest.fixture(scope="module")
def parity():
    sys.path.append(str(ROOT / "benchmarks"))
    try:
        import webshop_parity

        yield webshop_parity
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def recordings(parity):
    if not DATA.exists():
        pytest.skip(f"the recordings are not next to the repository, at {DATA}")
    return parity.Recordings.open(DATA)


def test_prices_are_drawn_as_by_the_original(parity, recordings):
    assert list(parity.price_differences(recordings)) == []


@pytest.mark.parametrize("kind", ["human", "synthetic"])
def test_goals_their_bounds_and_their_order_are_the_originals(parity, recordings, kind):
    assert list(parity.goal_differences(recordings, kind)) == []


@pytest.mark.parametrize("own_search", [False, True])
def test_episodes_go_as_in_the_original_step_by_step(parity, recordings, own_search):
    assert list(parity.walk_differences(recordings, own_search)) == []


def test_scores_and_their_parts_are_the_originals(parity, recordings):
    assert list(parity.score_differences(recordings, every=5)) == []


def test_the_clean_environment_differs_from_the_recordings_only_by_design(parity, recordings):
    goals = recordings.goals("human")
    episodes = recordings.recorded("episodes_human")
    quirky = {place.split(":")[0] for name, places in recordings.recorded("quirks").items()
              for place in places}  # fmt: skip
    plain = [e for e in episodes if e["id"] not in quirky and e["obs_mode"] == "text"]
    assert len(plain) > 10
    for episode in plain:
        simulator = parity.Simulator(recordings.catalogue, goals, "text", "clean", "recorded")
        simulator.reset(episode["goal"]["index"])
        for step in episode["steps"]:
            observation, reward, done = simulator.step(step["action"])
            assert (reward, done) == (step["reward"], step["done"])
            if not done:
                pages = observation.replace(" [SEP] Next >", ""), step["obs"]
                assert pages[0] == pages[1].replace(" [SEP] Next >", "")
