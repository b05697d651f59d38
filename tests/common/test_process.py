"""Crashes and hangs of native code are in the log of a run."""

import signal
import subprocess
import sys

from trca.common.process import last_errors

CRASH = """
import ctypes
from pathlib import Path
from trca.cli.show.console import noise_to

def take_action():
    ctypes.string_at(0)

with noise_to(Path("output.log")):
    take_action()
"""
SILENCE = """
import ctypes, time
from pathlib import Path
from trca.common import process

process.SILENT_S, process._BEAT_S = 0.5, 0.05

def take_action():
    ctypes.PyDLL(None).usleep(1_500_000)  # holds the interpreter

process.log_process(Path("logs/output.log"))
time.sleep(0.2)
take_action()
"""


def run(folder, code):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=600
    )


def test_a_segmentation_fault_leaves_its_traceback_in_the_log(tmp_path):
    done = run(tmp_path, CRASH)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    log = (tmp_path / "output.log").read_text()
    assert "Segmentation fault" in log
    assert "in take_action" in log


def test_native_code_that_holds_the_interpreter_is_named_in_the_log(tmp_path):
    done = run(tmp_path, SILENCE)
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "logs" / "output.log").read_text()
    assert "Timeout (" in log
    assert "in take_action" in log


def test_a_machine_without_the_folder_of_the_run_writes_nothing(tmp_path):
    code = SILENCE.replace("1_500_000", "1").replace("logs/", "run/logs/")
    done = run(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


def test_the_last_words_of_a_lost_process_are_found_by_its_link(tmp_path):
    link = tmp_path / "logs" / "worker.err"
    link.parent.mkdir()
    code = """
import os, sys
from pathlib import Path
from trca.common.process import link_errors

link_errors(Path("logs/worker.err"))
for number in range(50):
    print("line", number, file=sys.stderr)
sys.stderr.flush()
os._exit(1)
"""
    with (tmp_path / "of-ray.err").open("w") as errors:
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stderr=errors, timeout=600)
    assert last_errors(link, 2) == "line 48\nline 49\n"
    assert last_errors(tmp_path / "another_machine.err") == ""
