import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich.console import Console

from trca.cli.run.training import make_auth_token, stopping_politely
from trca.cli.show.progress import Progress


def test_the_first_interrupt_is_a_wish_and_the_second_is_not():
    out = io.StringIO()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with stopping_politely(Progress(Console(file=out), "run", 3)) as asked:
        assert not asked()
        os.kill(os.getpid(), signal.SIGINT)
        assert asked()
        assert "stopping after this iteration" in out.getvalue()
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


START_LATE = """
import os, psutil, ray, subprocess, threading, time
from trca.cli.run import training

def kill_the_first(count):
    killed = set()
    while len(killed) < count:
        for child in psutil.Process().children():
            if child.pid not in killed and child.name() == "raylet":
                child.kill()
                killed.add(child.pid)
        time.sleep(0.05)

threading.Thread(target=kill_the_first, args=(LATE,), daemon=True).start()
"""


def start_late(code, late):
    """Runs code in a process whose first starts of Ray lose their raylet, as if it came late."""
    with TemporaryDirectory(prefix="ray") as folder:
        environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
        done = subprocess.run(
            [sys.executable, "-c", START_LATE.replace("LATE", str(late)) + code],
            env={**environment, "RAY_TMPDIR": folder},
            capture_output=True,
            text=True,
        )
    return done, done.stdout.splitlines()


@pytest.mark.slow
def test_ray_is_started_again_with_a_line_of_progress_each_time_it_came_late():
    """Four starts come late; one more than a run had before it ended."""
    done, lines = start_late(
        """
training.init_ray(1, print)
print(ray.get(ray.remote(lambda: "up").remote()))
servers = ["pgrep", "-c", "-P", str(os.getpid()), "gcs_server"]
print(subprocess.run(servers, capture_output=True, text=True).stdout.strip())
""",
        late=4,
    )
    *progress, up, servers = lines or ["", ""]
    assert (up, servers) == ("up", "1"), done.stdout + done.stderr
    assert len(progress) == 4
    for number, (line, pause) in enumerate(zip(progress, (2, 4, 8, 16), strict=True), 1):
        assert line.startswith(f"Ray did not start in 30 s on this busy machine (try {number}, ")
        assert line.endswith(f" of 600 s): trying again in {pause} s")


@pytest.mark.slow
def test_ray_that_never_starts_ends_the_run_with_the_reason():
    code = "training._PATIENCE_S = 20.0\ntraining.init_ray(1, print)\n"
    done, lines = start_late(code, late=1)
    assert (done.returncode, lines) == (1, [])
    assert "1 tries of 30 s: this machine is too busy. End other programs" in done.stderr
