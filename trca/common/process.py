"""The memory of this process, and crashes and hangs of native code in the log of a run.

A crash of a native library, such as a segmentation fault, ends a process without an exception. A
native library that holds the interpreter stops all Python threads, time limits included. In both
cases `faulthandler` writes the traceback of each thread, without the help of the interpreter.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import resource
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

SILENT_S: Final = 30.0
"""Seconds without any Python code after which the tracebacks are written."""
_BEAT_S: Final = 1.0


def log_crashes(file: int) -> Callable[[], None]:
    """Writes tracebacks of this process to a file after a crash, and after `SILENT_S` of silence.

    Returns a function that ends the watch for silence.
    """
    faulthandler.enable(file=file)
    ended = threading.Event()

    def beat() -> None:
        while not ended.is_set():  # a thread that gets no turn cannot renew the alarm
            faulthandler.dump_traceback_later(SILENT_S, file=file)
            ended.wait(_BEAT_S)
        faulthandler.cancel_dump_traceback_later()

    thread = threading.Thread(target=beat, name="trca-heartbeat", daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join()

    return end


def log_process(path: Path) -> None:
    """Appends warnings of this process with their tracebacks, crashes and hangs to a log.

    The log is ``logs/output.log`` of a run folder; a machine without the folder writes nothing.
    """
    if not path.parent.parent.is_dir():
        return
    path.parent.mkdir(exist_ok=True)
    file = path.open("a", encoding="utf-8")
    handler = logging.StreamHandler(file)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("trca").addHandler(handler)
    log_crashes(file.fileno())


def link_errors(link: Path) -> None:
    """Links to the file with the standard error of this process, if it is a file.

    Ray writes the standard error of an actor to a file that is named by the actor's process.
    """
    with suppress(OSError):
        target = Path("/proc/self/fd/2").readlink()
        if target.is_file() and link.parent.is_dir():
            link.unlink(missing_ok=True)
            link.symlink_to(target)


def last_errors(link: Path, lines: int = 30) -> str:
    """Returns the last lines of a process that `link_errors` linked; empty on another machine."""
    try:
        with link.open(encoding="utf-8", errors="replace") as file:
            return "".join(deque(file, maxlen=lines))
    except OSError:
        return ""


def own_memory_mb(process: Any = None) -> float:
    """Returns the unshared memory of this process in megabytes; off Linux, the peak memory.

    Shared memory does not count: mapped files and Ray's object store. A process gathers the pages
    of the object store as it reads objects, which would look like growing memory. RLlib's
    ``foreach_learner`` and similar methods pass a ``process``, which is ignored.
    """
    try:
        resident, shared = map(int, Path("/proc/self/statm").read_text("ascii").split()[1:3])
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 2**20
