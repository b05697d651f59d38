"""WebShop's catalogue on disk: seconds to build and to open, and process memory.

    python benchmarks/webshop_catalogue.py
    python benchmarks/webshop_catalogue.py --products 1000 100000 1180000

Every measurement runs in a separate process; seconds are processor time. ``opened`` is the time
from the call to the first page of search results, including the checksums of all files. Memory is
split into private memory, and memory shared between all processes that open the store.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from trca.envs.webshop.data.sources import generated_source, open_store

_ASKED = 1000
_COLUMNS = (
    "products",
    "built, s",
    "build peak, MiB",
    "on disk, MiB",
    "opened, s",
    "search, ms",
    "product, ms",
    "private, MiB",
    "shared, MiB",
)


def main() -> None:
    """Measures each size and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--products", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure is not None:
        print(json.dumps(measure(asked.measure, asked.folder)))
        return
    table = Table(*_COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for count in asked.products:
            built, opened = in_process(count, folder), in_process(count, folder)
            table.add_row(
                f"{count:,}",
                f"{built['opened']:.1f}",
                f"{built['peak']:.0f}",
                f"{disk_mib(Path(folder)):.0f}",
                f"{opened['opened']:.2f}",
                f"{opened['search']:.2f}",
                f"{opened['product']:.3f}",
                f"{opened['private']:.0f}",
                f"{opened['shared']:.0f}",
            )
    Console(width=120).print(table)


def in_process(count: int, folder: str) -> dict[str, float]:
    """Runs `measure` in a fresh process, and returns its result."""
    command = [sys.executable, __file__, "--measure", str(count), "--folder", folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(count: int, folder: Path) -> dict[str, float]:
    """Opens a catalogue, building it if needed, and measures products and searches."""
    started = time.process_time()
    catalogue = open_store(generated_source(count), folder)
    catalogue.search("a jute rug", 50)
    opened = time.process_time() - started
    positions = range(0, count, max(count // _ASKED, 1))
    started = time.process_time()
    titles = [catalogue[position].title for position in positions]
    product = (time.process_time() - started) / len(titles)
    started = time.process_time()
    for title in titles:
        catalogue.search(f"i am looking for {title} in red", 50)
    search = (time.process_time() - started) / len(titles)
    fields = dict(
        line.split(":")
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":" in line
    )
    mib = {name: int(value.split()[0]) / 1024 for name, value in fields.items() if " kB" in value}
    return {
        "opened": opened,
        "search": search * 1000,
        "product": product * 1000,
        "private": mib["RssAnon"],
        "shared": mib["RssFile"],
        "peak": mib["VmHWM"],
    }


def disk_mib(folder: Path) -> float:
    """Returns the size of the newest store in a folder in MiB."""
    newest = max((path for path in folder.iterdir() if path.is_dir()), key=os.path.getmtime)
    return sum(path.stat().st_size for path in newest.rglob("*") if path.is_file()) / 2**20


if __name__ == "__main__":
    main()
