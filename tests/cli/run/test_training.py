import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich.console import Console

from trca.algorithms.learner.group import LearnersLostError
from trca.cli.run import training
from trca.cli.run.training import make_auth_token, stopping_politely
from trca.cli.show.progress import Progress


def test_the_first_interrupt_is_a_wish_and_the_second_is_not():
    told = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with stopping_politely(lambda: told.append(1)) as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_set()
        assert told == [1]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder without a token of Ray."""
    for name in os.environ:
        if name.startswith("RAY_AUTH_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_of_several_first_starts_at_once_one_alone_writes_the_token(home, monkeypatch):
    token = home / ".ray" / "auth_token"
    make_auth_token()
    written = token.read_text()
    assert len(written) == 64
    monkeypatch.setattr(Path, "exists", lambda path: False)  # both starts looked before one wrote
    make_auth_token()
    assert token.read_text() == written
    assert list(token.parent.iterdir()) == [token]


def test_a_token_of_the_environment_stays_the_only_token(home, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    make_auth_token()
    assert not list(home.iterdir())


@pytest.mark.slow
def test_a_run_starts_a_ray_of_its_own_beside_a_cluster_of_someone_else():
    code = (
        "from trca.cli.run.training import init_ray;"
        " print(init_ray(3, print).address_info['gcs_address'])"
    )
    with TemporaryDirectory(prefix="ray") as folder:  # short: Ray's sockets lie in it
        (Path(folder) / "ray").mkdir()
        (Path(folder) / "ray/ray_current_cluster").write_text("127.0.0.1:1")
        environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**environment, "RAY_TMPDIR": folder},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() != "127.0.0.1:1"


@pytest.mark.parametrize("losses", [3, 4])
def test_a_run_continues_after_three_losses_and_ends_after_the_fourth(monkeypatch, losses):
    starts = []

    def losing(*arguments):
        starts.append(arguments)
        if len(starts) <= losses:
            raise LearnersLostError("a learner was lost")

    monkeypatch.setattr(training, "_train", losing)
    output = io.StringIO()
    progress = Progress(Console(file=output), "run", 3)
    if losses == 4:
        with pytest.raises(LearnersLostError):
            training.train(None, None, progress)
    else:
        training.train(None, None, progress)
    assert len(starts) == 4
    assert output.getvalue().count("the run continues from its last checkpoint") == 3
