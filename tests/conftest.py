"""Settings of all tests, and their shared Ray cluster."""

import gc
import os
import signal
import socket
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib.util import find_spec
from random import SystemRandom
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pytest
from hypothesis import settings

gc.disable()  # until all libraries are imported
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_worker_register_timeout_seconds", "600")  # the machine may be busy
os.environ.pop("COLUMNS", None)  # rich reads it only once; tests set a width

# A background job of a shell and its children ignore Ctrl-C; some tests send Ctrl-C to children.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-ray", action="store_true", help="leave out the tests that start Ray")


def pytest_configure(config: pytest.Config) -> None:
    """Imports the algorithms, unless this process only hands out the tests to others."""
    hands_out = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    without_ray = find_spec("ray") is None or config.getoption("no_ray")
    if hands_out or without_ray:
        return
    import trca.algorithms.catalog  # noqa: F401
    from trca.cli.run.training import make_auth_token

    make_auth_token()  # before several processes start Ray at once


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("no_ray"):
        tests = [item for item in items if isinstance(item, pytest.Function)]
        left_out = [test for test in tests if "cluster" in test.fixturenames]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Spares garbage collections the objects of all imported libraries."""
    gc.collect()
    gc.freeze()
    gc.enable()


_outside: list[str] = []
"""Errors outside of tests, which end a process of the tests."""


def pytest_internalerror(excrepr: object) -> None:
    _outside.append(str(excrepr))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Tells the cause last, because often only the end of a log is kept."""
    if _outside and not hasattr(config, "workerinput"):
        print("", "An error outside of the tests:", *_outside[0].splitlines()[-20:], sep="\n")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """A report with half of a surrogate pair would end the process of the tests."""
    return _encodable((yield))


def _encodable(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _encodable(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(map(_encodable, data))
    return data.encode(errors="backslashreplace").decode() if isinstance(data, str) else data


STUCK_S = 900
"""Seconds after which a test is stuck."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """A test that is stuck fails with its stack, and the other tests run."""
    signal.signal(signal.SIGALRM, _stuck)
    signal.setitimer(signal.ITIMER_REAL, STUCK_S, 60)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _stuck(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"the test is stuck: no end after {STUCK_S} s")


@pytest.fixture
def free_port() -> int:
    return unused_port()


def unused_port() -> int:
    """A port outside of those that Linux and Ray give away, so that it is still free later."""
    while True:
        port = SystemRandom().randrange(21_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    from trca.cli.run.training import start_ray

    ray.shutdown()  # RLlib starts a cluster if a test without this fixture builds an algorithm
    with TemporaryDirectory(prefix="ray") as folder:  # short, because it holds Ray's sockets

        def start() -> object:
            return ray.init(
                num_cpus=6,
                resources={"place": 1},  # a second node has another resource
                include_dashboard=False,
                log_to_driver=False,
                _temp_dir=folder,
            )

        start_ray(start, print)
        yield
        ray.shutdown()
