"""The pool of environments: kept, stepped in order, and side by side where they wait."""

import asyncio
import threading

import gymnasium
import pytest

from trca.algorithms.rollouts.env_pool import EnvPool
from trca.common.threads import StuckError, run_to_end
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
        self.everyone.wait(timeout=300)
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
    """A shop that looks up the goods of a turn together."""

    calls: list = []  # noqa: RUF012

    @classmethod
    def prefetch(cls, pairs):
        cls.calls.append([(env, list(env.actions), action) for env, action in pairs])
        if any(action == "unknown goods" for _, action in pairs):
            raise ConnectionError("the warehouse is closed")


def step(pool, *actions):
    """What each step returned, or the error that it raised."""

    async def steps():
        made = (pool.step(env, action) for env, action in actions)
        return await asyncio.gather(*made, return_exceptions=True)

    return run_to_end(steps())


def taken(pool, *splits, **kwargs):
    async def take():
        return [await pool.take(split, **kwargs) for split in splits]

    return run_to_end(take())


def test_32_environments_that_wait_take_one_wait_a_turn():
    pool = EnvPool(lambda split: Remote())
    environments = taken(pool, *["train"] * 32)
    for turn in range(2):  # a step that waited for its turn would break the barrier
        results = step(pool, *[(env, f"{turn}/{k}") for k, env in enumerate(environments)])
        assert [result[0] for result in results] == [f"did {turn}/{k}" for k in range(32)]
    assert all(len(env.env.unwrapped.actions) == 2 for env in environments)
    run_to_end(pool.close())


def test_environments_that_do_not_wait_step_in_one_thread():
    pool = EnvPool(lambda split: Shop())
    results = step(pool, *[(env, "buy") for env in taken(pool, *["train"] * 3)])
    assert len({result[-1]["thread"] for result in results}) == 1


@pytest.mark.parametrize("env_class", [Shop, Remote])
def test_the_error_of_a_step_is_raised_in_its_place(env_class, monkeypatch):
    monkeypatch.setattr(Remote, "everyone", threading.Barrier(3))
    pool = EnvPool(lambda split: env_class())
    one, other, last = taken(pool, *["train"] * 3)
    first, second, third = step(pool, (one, "a"), (other, "break"), (last, "b"))
    assert (first[0], third[0]) == ("did a", "did b")
    assert isinstance(second, RuntimeError)
    assert str(second) == "the till is broken"


@pytest.mark.parametrize("waits", [False, True])
def test_a_class_looks_up_a_turn_at_once_before_its_steps(waits, monkeypatch):
    monkeypatch.setattr(Shop, "waits", waits, raising=False)
    Wholesale.calls.clear()
    pool = EnvPool(lambda split: Wholesale() if split == "train" else Shop())
    environments = taken(pool, "train", "valid", "train")
    step(pool, *[(env, "tea") for env in environments])
    one, _, other = (env.env.unwrapped for env in environments)
    assert Wholesale.calls == [[(one, [], "tea"), (other, [], "tea")]]


def test_steps_continue_where_looking_up_together_fails(caplog):
    pool = EnvPool(lambda split: Wholesale())
    one, other = taken(pool, "train", "train")
    results = step(pool, (one, "tea"), (other, "unknown goods"))
    assert [result[0] for result in results] == ["did tea", "did unknown goods"]
    assert "the warehouse is closed" in caplog.text


def test_environments_are_kept_by_split_and_broken_ones_closed():
    pool = EnvPool(lambda split: Shop())
    train, valid, broken = taken(pool, "train", "valid", "train")
    pool.give_back(train)
    pool.give_back(valid)
    pool.give_back(broken, broken=True)
    run_to_end(pool.close_broken())
    assert broken.env.unwrapped.closed
    assert taken(pool, "train") == [train]
    assert taken(pool, "train")[0] not in (train, broken)
    run_to_end(pool.close())
    assert valid.env.unwrapped.closed


def test_seconds_are_counted_until_taken():
    pool = EnvPool(lambda split: Shop())
    [env] = taken(pool, "train")
    assert run_to_end(pool.reset(env, 3, {"task": "t"})) == ("seed 3, {'task': 't'}", {})
    step(pool, (env, "buy"))
    seconds = pool.take_seconds()
    assert seconds["environment"] > 0
    assert seconds["judging"] == seconds["generation"] == 0
    assert set(pool.take_seconds().values()) == {0.0}


@pytest.mark.parametrize("env_class", [Closed, RemoteClosed])
def test_a_call_that_never_returns_is_given_up_and_named(env_class):
    pool = EnvPool(lambda split: env_class(), timeout_s=1.0)
    one, stays, other = taken(pool, *["train"] * 3)
    first, stuck, third = step(pool, (one, "tea"), (stays, "stay"), (other, "milk"))
    assert (first[0], third[0]) == ("did tea", "did milk")
    assert isinstance(stuck, StuckError)
    words = "step('stay') has not returned for 1 s, at threading.py"
    assert f"environment {env_class.__name__}: {words}" in str(stuck)
    pool.give_back(stays, broken=True)
    run_to_end(pool.close_broken())
    assert not stays.env.unwrapped.closed  # that could wait for ever too
    assert step(pool, (one, "more tea"))[0][0] == "did more tea"
    with pytest.raises(StuckError, match=f"environment {env_class.__name__}: reset"):
        run_to_end(pool.reset(one, 1, {"task": "queue"}))
    [fresh] = taken(pool, "train", fresh=True)
    assert run_to_end(pool.reset(fresh, 1, {"task": "tea"}))[0].startswith("seed 1")


def test_the_seconds_of_a_judged_step_are_split():
    pool = EnvPool(lambda split: make("alfworld", games="small", split=split))
    [env] = taken(pool, "train")
    _, info = run_to_end(pool.reset(env, 0, {}))
    pool.take_seconds()
    step(pool, (env, info["admissible_actions"][0]))
    seconds = pool.take_seconds()
    assert 0 < seconds["judging"] < seconds["environment"] + seconds["judging"]
    assert isinstance(env.env, RubricAnnotation)  # no wrapper above the rubric
    run_to_end(pool.close())
