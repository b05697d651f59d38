"""Calls in threads run in order, and a call that never returns blocks no other call."""

import asyncio
import signal
import sys
import threading

import pytest

from trca.common.threads import StuckError, Threads, run_to_end


@pytest.fixture
def threads():
    threads = Threads(1, "test")
    yield threads
    threads.close()


def here(word):
    return word, threading.current_thread()


def test_calls_in_turn_share_a_thread_and_an_error_stays_with_its_call(threads):
    calls = [(here, 0), (int, "one"), (here, 2)]
    first, second, third = run_to_end(threads.run(calls, str))
    assert isinstance(second.exception(), ValueError)
    assert (first.result()[0], third.result()[0]) == (0, 2)
    assert first.result()[1] is third.result()[1] is not threading.current_thread()


def test_calls_after_a_call_that_never_returns_run_in_another_thread(threads):
    over = threading.Event()
    calls = [(here, "a"), (over.wait,), (here, "b"), (here, "c")]
    made = run_to_end(threads.run(calls, lambda number: f"call {number}", 1.0))
    with pytest.raises(StuckError, match=r"call 1 has not returned for 1 s, at threading.py"):
        made[1].result()
    (a, first), (b, second), (c, third) = (made[k].result() for k in (0, 2, 3))
    assert (a, b, c) == ("a", "b", "c")
    assert first is not second is third
    over.set()  # the abandoned call ends: its thread takes no more calls
    assert threads.submit(here, "d").result() == ("d", third)


def test_a_cancellation_replaces_the_thread_of_a_call_that_never_returns(threads):
    over, late = threading.Event(), []

    async def cancel():
        calls = [(over.wait,), (late.append, "not started")]
        async with asyncio.timeout(0.1):
            await threads.run(calls, str)

    with pytest.raises(TimeoutError):
        run_to_end(cancel())
    assert threads.submit(here, "next").result(300)[0] == "next"
    assert not late
    over.set()


def test_an_exit_in_a_call_is_an_error_of_the_call(threads):
    [call] = run_to_end(threads.run([(sys.exit, "no licence")], str))
    with pytest.raises(RuntimeError, match="no licence"):
        call.result()


def test_closed_threads_refuse_calls():
    threads = Threads(1, "test")
    threads.submit(here, "a").result()
    threads.close()
    with pytest.raises(RuntimeError, match="the threads test are closed"):
        threads.submit(here, "b")


async def name_of_thread():
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_a_coroutine_runs_in_the_thread_of_its_caller_or_beside_the_loop_of_the_caller():
    """A notebook calls from a thread that has an event loop."""

    async def cell():
        return run_to_end(name_of_thread())

    assert run_to_end(name_of_thread()) == threading.current_thread().name
    assert asyncio.run(cell()) == "trca-loop"


@pytest.mark.parametrize("in_notebook", [False, True])
def test_an_interrupt_cancels_the_coroutine(in_notebook):
    main, ended = threading.main_thread(), threading.Event()

    async def endless():
        threading.Timer(0.2, signal.pthread_kill, (main.ident, signal.SIGINT)).start()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def cell():
        return run_to_end(endless())

    loop = asyncio.new_event_loop()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(cell()) if in_notebook else run_to_end(endless())
    assert ended.wait(300)
    loop.close()
