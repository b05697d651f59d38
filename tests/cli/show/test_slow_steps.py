"""A step that takes long is named on the console while it runs."""

import logging
import threading
from pathlib import Path

import pytest

from tests.toy import Rooms
from trca.algorithms.rollouts import env_pool
from trca.algorithms.rollouts.env_pool import EnvPool
from trca.cli.show.slow_steps import slow_steps_shown
from trca.common.threads import run_to_end
from trca.envs import make


@pytest.mark.parametrize("waiting", [False, True])
def test_a_slow_step_is_named_with_its_action_and_line(waiting, tmp_path, monkeypatch):
    monkeypatch.setattr(env_pool, "SLOW_S", 0.2)
    log = tmp_path / "output.log"
    handler = logging.FileHandler(log)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("trca").addHandler(handler)
    lines, named = [], threading.Event()

    class Slow(Rooms):
        waits = waiting

        def take_action(self, action):
            named.wait(600.0)
            return super().take_action(action)

    def say(text):
        lines.append(text)
        named.set()

    pool = EnvPool(lambda split: make(Slow, split=split))
    env = run_to_end(pool.take("train"))
    run_to_end(pool.reset(env, 0, {"task": "train-0"}))
    try:
        with slow_steps_shown(Path(log), say):
            observation, *_ = run_to_end(pool.step(env, "go"))
    finally:
        logging.getLogger("trca").removeHandler(handler)
        run_to_end(pool.close())
    [line] = lines
    assert line.startswith("environment Slow: step('go') is still running after 0.2 s, at ")
    assert observation == "You are in room 1. A key is here."
