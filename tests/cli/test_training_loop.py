import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich.console import Console

from trca.cli.progress import Progress
from trca.cli.training import stopping_politely


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


@pytest.mark.slow
def test_a_run_starts_a_ray_of_its_own_beside_a_cluster_of_someone_else():
    code = "from trca.cli.training import init_ray; print(init_ray(3).address_info['gcs_address'])"
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


@pytest.mark.slow
def test_ray_is_started_again_where_it_did_not_start_in_time():
    code = """
import os, ray, subprocess, threading, time
from trca.cli.training import init_ray

def kill_the_first():
    while subprocess.run(["pkill", "-KILL", "-P", str(os.getpid()), "raylet"]).returncode:
        time.sleep(0.05)

threading.Thread(target=kill_the_first, daemon=True).start()
init_ray(1)
print(ray.get(ray.remote(lambda: "up").remote()))
servers = ["pgrep", "-c", "-P", str(os.getpid()), "gcs_server"]
print(subprocess.run(servers, capture_output=True, text=True).stdout)
"""
    with TemporaryDirectory(prefix="ray") as folder:
        environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**environment, "RAY_TMPDIR": folder},
            capture_output=True,
            text=True,
        )
    assert done.stdout.split() == ["up", "1"], done.stderr
    assert "trying again" in done.stderr
