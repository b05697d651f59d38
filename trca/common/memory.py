"""Process memory."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any


def own_memory_mb(process: Any = None) -> float:
    """Returns the unshared memory of this process in megabytes; off Linux, the peak memory.

    Shared memory does not count: mapped files and Ray's object store. A process gathers the pages
    of the object store as it reads objects, which would look like growing memory.

    Args:
        process: Ignored; an argument of RLlib's ``foreach_learner`` and similar methods.
    """
    try:
        resident, shared = map(int, Path("/proc/self/statm").read_text("ascii").split()[1:3])
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 2**20
