"""The pool of environments: kept, stepped in order, and side by side where they wait."""

import threading

import gymnasium
import pytest

from trca.algorithms.rollouts.env_pool import EnvPool
from trca.common.threads import StuckError
from trca.envs import make
from trca.envs.annotate import RubricAnnotation


class Shop(gymnasium.Env):
    """An environment that writes down what happens to it."""

    max_steps = 4

    def __init__(self):
        self.actions, self.closed = [], False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return f"seed {seed}, {options}", {}

    def step(self, action):
        if action == "break":
            raise RuntimeError("the till is broken")
        self.actions.append(action)
        return f"did {action}", 0.0, False, False, {"thread": threading.current_thread()}

    def close(self):
        self.closed = True


class Remote(Shop):
    """A shop whose steps end once all its environments are in theirs: its network waits."""

    waits = True
    everyone = threading.Barrier(32)

    def step(self, action):
        self.everyone.wait(timeout=20)
        return super().step(action)


class Closed(Shop):
    """A shop that keeps some customers for ever."""

    over = threading.Event()

    def reset(self, *, seed=None, options=None):
        if options == {"task": "queue"}:
            self.over.wait()
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if action == "stay":
            self.over.wait()
        return super().step(action)


class RemoteClosed(Closed):
    waits = True


class Wholesale(Shop):
    """A shop that looks up a turn's goods together."""

    calls: list = []  # noqa: RUF012

    @classmethod
    def prefetch(cls, pairs):
        cls.calls.append([(env, list(env.actions), action) for env, action in pairs])
        if any(action == "unknown goods" for _, action in pairs):
            raise ConnectionError("the warehouse is closed")


def step(pool, actions):
    """What each step returned, or the error that it raised."""
    return [future.exception() or future.result() for future in pool.step(actions)]


def taken(env_class, count):
    pool = EnvPool(lambda split: env_class())
    return pool, [pool.take("train") for _ in range(count)]


def test_32_environments_that_wait_take_one_wait_a_turn():
    pool, environments = taken(Remote, 32)
    for turn in range(2):  # a step that waited for its turn would break the barrier
        results = step(pool, [(env, f"{turn}/{k}") for k, env in enumerate(environments)])
        assert [result[0] for result in results] == [f"did {turn}/{k}" for k in range(32)]
    assert all(len(env.env.unwrapped.actions) == 2 for env in environments)
    pool.close()


def test_environments_that_do_not_wait_step_in_one_thread():
    pool, environments = taken(Shop, 3)
    results = step(pool, [(env, "buy") for env in environments])
    assert len({result[-1]["thread"] for result in results}) == 1


@pytest.mark.parametrize("env_class", [Shop, Remote])
def test_the_error_of_a_step_stands_in_its_place(env_class, monkeypatch):
    monkeypatch.setattr(Remote, "everyone", threading.Barrier(3))
    pool, environments = taken(env_class, 3)
    first, second, third = step(pool, list(zip(environments, ["a", "break", "b"], strict=True)))
    assert (first[0], third[0]) == ("did a", "did b")
    assert isinstance(second, RuntimeError)
    assert str(second) == "the till is broken"
    pool.close()


def test_a_class_looks_up_a_turn_at_once_before_its_steps():
    Wholesale.calls.clear()
    pool = EnvPool(lambda split: Wholesale() if split == "train" else Shop())
    environments = [pool.take(split) for split in ("train", "valid", "train")]
    step(pool, [(env, "tea") for env in environments])
    one, _, other = (env.env.unwrapped for env in environments)
    assert Wholesale.calls == [[(one, [], "tea"), (other, [], "tea")]]


def test_steps_go_on_where_looking_up_together_fails(caplog):
    pool, environments = taken(Wholesale, 2)
    results = step(pool, list(zip(environments, ["tea", "unknown goods"], strict=True)))
    assert [result[0] for result in results] == ["did tea", "did unknown goods"]
    assert "the warehouse is closed" in caplog.text


def test_environments_are_kept_by_split_and_broken_ones_closed():
    pool = EnvPool(lambda split: Shop())
    train, valid, broken = (pool.take(split) for split in ("train", "valid", "train"))
    pool.give_back(train)
    pool.give_back(valid)
    pool.give_back(broken, broken=True)
    assert broken.env.unwrapped.closed
    assert pool.take("train") is train
    assert pool.take("train") not in (train, broken)
    pool.close()
    assert valid.env.unwrapped.closed


def test_seconds_are_counted_until_taken():
    pool, (env,) = taken(Shop, 1)
    assert pool.reset(env, 3, {"task": "t"})() == ("seed 3, {'task': 't'}", {})
    pool.step([(env, "buy")])
    seconds = pool.take_seconds()
    assert seconds["environment"] > 0
    assert seconds["judging"] == 0
    assert pool.take_seconds() == {"environment": 0.0, "judging": 0.0}


@pytest.mark.parametrize("env_class", [Closed, RemoteClosed])
def test_a_step_that_never_returns_is_given_up_and_named(env_class):
    pool = EnvPool(lambda split: env_class(), timeout_s=0.1)
    environments = [pool.take("train") for _ in range(3)]
    first, stuck, third = pool.step(list(zip(environments, ["tea", "stay", "milk"], strict=True)))
    while not stuck.done():
        pool.give_up_stuck()
    assert (first.result()[0], third.result()[0]) == ("did tea", "did milk")
    words = rf"{env_class.__name__}: step\('stay'\) has not returned for 0.1 s, at threading.py"
    with pytest.raises(StuckError, match=words):
        stuck.result()
    pool.give_back(environments[1], broken=True)
    assert not environments[1].env.unwrapped.closed  # that could wait for ever too
    assert step(pool, [(environments[0], "more tea")])[0][0] == "did more tea"
    pool.close()


@pytest.mark.parametrize("env_class", [Closed, RemoteClosed])
def test_a_reset_that_never_returns_is_given_up(env_class):
    pool = EnvPool(lambda split: env_class(), timeout_s=0.1)
    with pytest.raises(StuckError, match=f"environment {env_class.__name__}: reset"):
        pool.reset(pool.take("train"), 1, {"task": "queue"})()
    assert pool.reset(pool.take("train", fresh=True), 1, {"task": "tea"})()[0].startswith("seed 1")
    pool.close()


def test_the_seconds_of_a_judged_step_are_split():
    pool = EnvPool(lambda split: make("alfworld", games="small", split=split))
    env = pool.take("train")
    _, info = pool.reset(env, 0, {})()
    pool.take_seconds()
    pool.step([(env, info["admissible_actions"][0])])
    seconds = pool.take_seconds()
    assert 0 < seconds["judging"] < seconds["environment"] + seconds["judging"]
    assert isinstance(env.env, RubricAnnotation)  # no wrapper above the rubric
    pool.close()
