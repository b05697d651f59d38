"""Demonstrations of environments with tools, whose actions are not listed."""

import random

from tests.envs.test_tool_env import Safe
from trca.envs import make
from trca.envs.check import random_player
from trca.envs.demonstrations import DEMONSTRATION, Demonstrations
from trca.envs.tool_calls import read_calls, write_calls


class Demonstrated(Safe):
    def demonstrator_action(self):
        return write_calls([("open", {})])

    def random_action(self, rng):
        return write_calls([("dial", {"number": int(rng.integers(100))})])


def test_a_demonstrator_with_tools_also_takes_random_calls():
    env = Demonstrations(make(Demonstrated), randomness=0.5, draw=random.Random(0))
    drawn = [env.reset()[1][DEMONSTRATION] for _ in range(40)]
    names = {(each.random, read_calls(each.action)[0].name) for each in drawn}
    assert names == {(True, "dial"), (False, "open")}


def test_a_random_player_with_tools_also_calls_unknown_tools_and_writes_no_call():
    env = make(Demonstrated)
    player = random_player(env.unwrapped, "seed")
    info = env.reset()[1]
    actions = [player(info) for _ in range(100)]
    names = [call.name for action in actions for call in read_calls(action)]
    assert {"dial", "abracadabra"} == set(names)
    assert "" in actions
