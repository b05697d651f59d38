"""A step that takes long is named on the console while it runs."""

import logging
import threading
import time
from pathlib import Path

import pytest

from tests.toy import Rooms
from trca.algorithms.rollouts import env_pool
from trca.algorithms.rollouts.env_pool import EnvPool
from trca.cli.show.slow_steps import slow_steps_shown
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
            named.wait(60.0)
            return super().take_action(action)

    def say(text):
        lines.append(text)
        named.set()

    pool = EnvPool(lambda split: make(Slow, split=split))
    env = pool.take("train")
    pool.reset(env, 0, {"task": "train-0"})()
    try:
        with slow_steps_shown(Path(log), say):
            [step] = pool.step([(env, "go")])
            while not step.done():
                pool.give_up_stuck()
                time.sleep(0.05)
    finally:
        logging.getLogger("trca").removeHandler(handler)
        pool.close()
    [line] = lines
    assert line.startswith("environment Slow: step('go') is still running after 0.2 s, at ")
    assert step.result()[0] == "You are in room 1. A key is here."
