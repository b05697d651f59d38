"""Processor time and memory of this process, for the benchmarks."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(act: Callable[[], T]) -> tuple[float, T]:
    """Returns the processor time of a call in seconds, and its result."""
    started = time.process_time()
    result = act()
    return time.process_time() - started, result


def resident_mib() -> float:
    """Returns the memory of this process in MiB; off Linux, the peak memory."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
