"""Start-up times for a Gymnasium user: ``import trca.envs`` and ``gymnasium.make``.

    python benchmarks/start_up.py

The table shows the best and the median time of fresh processes. ``make`` is measured with a warm
cache of generated data, such as ALFWorld's games, and includes the first ``reset``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

IMPORT = "import trca.envs"
MAKE = "import gymnasium; gymnasium.make({name!r}).reset(seed=0)"
NAMES = ("trca/ALFWorld-v0", "trca/WebShop-v0", "trca/SearchQA-v0")
TIMED = """
import time
{before}
wall, cpu = time.perf_counter(), time.process_time()
{code}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def measure(code: str, before: str, times: int) -> list[tuple[float, float]]:
    """Returns wall-clock and processor seconds of several fresh processes."""
    program = TIMED.format(before=before, code=code)
    seconds = []
    for _ in range(times):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        wall, cpu = done.stdout.split()[-2:]
        seconds.append((float(wall), float(cpu)))
    return seconds


def main() -> None:
    """Prints one line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=7)
    times = parser.parse_args().times
    print(f"{'seconds':32}{'best':>8}{'median':>8}{'processor, best':>18}")
    rows = [("import gymnasium", "import gymnasium", ""), (IMPORT, IMPORT, "")]
    for name in NAMES:
        code = MAKE.format(name=name)
        measure(code, IMPORT, 1)  # fills the cache
        rows.append((f"make {name}", code, IMPORT))
    for title, code, before in rows:
        wall, cpu = zip(*measure(code, before, times), strict=True)
        print(f"{title:32}{min(wall):8.2f}{statistics.median(wall):8.2f}{min(cpu):18.2f}")


if __name__ == "__main__":
    main()
