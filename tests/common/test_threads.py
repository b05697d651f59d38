"""Calls in threads run in order, and a call that never returns blocks no other call."""

import threading

import pytest

from trca.common.threads import StuckError, Threads, wait


@pytest.fixture
def threads():
    threads = Threads(1, "test")
    yield threads
    threads.close()


def here(word):
    return word, threading.current_thread()


def test_calls_in_turn_share_a_thread_and_keep_their_order(threads):
    tasks = threads.submit_in_turn([(here, (k,)) for k in range(5)])
    wait(tasks, 10.0, str)
    words, places = zip(*[task.result() for task in tasks], strict=True)
    assert words == (0, 1, 2, 3, 4)
    assert len(set(places)) == 1


def test_an_error_stays_with_its_call(threads):
    first, second, third = threads.submit_in_turn([(int, ("1",)), (int, ("one",)), (int, ("3",))])
    wait([first, second, third], 10.0, str)
    assert (first.result(), third.result()) == (1, 3)
    assert isinstance(second.exception(), ValueError)


def test_calls_after_a_call_that_never_returns_run_in_another_thread(threads):
    over = threading.Event()
    calls = [(here, ("a",)), (over.wait, ()), (here, ("b",)), (here, ("c",))]
    tasks = threads.submit_in_turn(calls)
    wait(tasks, 0.2, lambda place: f"call {place}")
    with pytest.raises(StuckError, match=r"call 1 has not returned for 0.2 s, at threading.py"):
        tasks[1].result()
    (a, first), (b, second), (c, third) = (tasks[k].result() for k in (0, 2, 3))
    assert (a, b, c) == ("a", "b", "c")
    assert first is not second is third
    over.set()  # the abandoned call may end: its thread takes no more calls
    assert threads.submit(here, "d").result() == ("d", third)


def test_a_call_that_is_given_up_before_it_starts_is_not_made(threads):
    over, made = threading.Event(), []
    _, second = threads.submit_in_turn([(over.wait, ()), (made.append, ("second",))])
    second.give_up(StuckError("not wanted any more"))
    over.set()
    threads.submit(made.append, "third").result()
    assert made == ["third"]
