"""Memory of this process."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any


def resident_mb(process: Any = None) -> float:
    """Megabytes of memory that this process holds now; the most it has held, off Linux.

    Args:
        process: Ignored: what RLlib's ``foreach_learner`` and the like pass.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
