"""A short run of ``benchmarks/arbitrary_steps.py``: environments answer any action."""

import sys
from pathlib import Path

import gymnasium
import pytest

import trca.envs  # noqa: F401 (registers the environments)

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture(scope="module")
def act_arbitrarily():
    sys.path.append(BENCHMARKS)
    try:
        from arbitrary_steps import act_arbitrarily
    finally:
        sys.path.remove(BENCHMARKS)
    return act_arbitrarily


@pytest.mark.parametrize(
    ("env_id", "settings", "steps"),
    [
        ("trca/ALFWorld-v0", {}, 3000),
        ("trca/WebShop-v0", {}, 2500),
        ("trca/WebShop-v0", {"compat": "original", "observation_mode": "text_rich"}, 1500),
        ("trca/SearchQA-v0", {}, 3000),
    ],
)
def test_arbitrary_steps_raise_nothing_and_keep_no_memory(act_arbitrarily, env_id, settings, steps):
    outcome = act_arbitrarily(gymnasium.make(env_id, **settings), steps)
    assert not outcome.exceptions, outcome.exceptions[0]
    assert (outcome.steps, outcome.episodes > 10, outcome.accepted > steps // 3) == (
        steps,
        True,
        True,
    )
    assert outcome.memory[-1] - outcome.memory[1] < 40
