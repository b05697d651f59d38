"""Memory of this process."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any


def own_memory_mb(process: Any = None) -> float:
    """Megabytes of memory that this process alone holds now; off Linux, the most it has held.

    What it shares does not count: files it maps, and Ray's object store, whose pages a process
    gathers one by one as it reads objects, until it has seen the whole store.

    Args:
        process: Ignored: what RLlib's ``foreach_learner`` and the like pass.
    """
    try:
        resident, shared = map(int, Path("/proc/self/statm").read_text("ascii").split()[1:3])
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 2**20
