"""Episodes of a player."""

from tests.toy import Rooms
from trca.envs import make
from trca.envs.playing import play


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
