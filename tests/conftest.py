"""Settings of the whole suite, and the one Ray cluster of its tests."""

import os
import signal
import socket
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.pop("COLUMNS", None)  # rich reads it once; tests set their own
# In the background of a shell Ctrl-C is ignored, by children too; some tests send it to them.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    import ray

    ray.shutdown()  # RLlib starts one where a test that asks for none builds an algorithm
    with TemporaryDirectory(prefix="ray") as folder:  # short: Ray's sockets lie in it
        ray.init(
            num_cpus=6,
            resources={"place": 1},  # a node that joins has another
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=folder,
        )
        yield
        ray.shutdown()
