"""Progress of long work on standard error: a bar in a terminal, otherwise a few lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

Report = Callable[[str, int, int], None]
"""Progress callback: ``(stage, done, total)``; an unknown ``total`` is 0."""

_SECONDS_BETWEEN_LINES: Final = 15.0
_SECONDS_BETWEEN_DRAWINGS: Final = 0.1


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """Shows the progress of a build of ``what`` on standard error, and its duration at the end.

    Yields the progress callback.
    """
    from rich.console import Console

    console = Console(stderr=True)
    start = time.monotonic()
    console.print(f"Building {what}; the cache keeps the result.", highlight=False)
    with _bar(console) if console.is_terminal else nullcontext(_lines()) as report:
        yield report
    seconds = time.monotonic() - start
    console.print(f"Built {what} in {seconds:.0f} s.", highlight=False)


@contextmanager
def progress_bar(in_bytes: bool = False) -> Iterator[Report]:
    """Shows a bar if standard error is a terminal; ``done`` and ``total`` may be bytes.

    Yields the progress callback.
    """
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console

    with _bar(Console(stderr=True), in_bytes) as report:
        yield report


@contextmanager
def _bar(console: Console, in_bytes: bool = False) -> Iterator[Report]:
    from rich import progress as rich

    columns = [
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        *([rich.DownloadColumn()] if in_bytes else []),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    ]
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        shown, last = "", 0.0

        def report(stage: str, done: int, total: int) -> None:
            nonlocal shown, last
            now = time.monotonic()
            if stage == shown and done != total and now - last < _SECONDS_BETWEEN_DRAWINGS:
                return
            if stage != shown:
                bar.reset(task)
            shown, last = stage, now
            bar.update(task, description=stage, completed=done, total=total or None)

        yield report


def _lines() -> Report:
    last = time.monotonic()

    def report(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            of = f" of {total}" if total else ""
            print(f"  {stage}: {done}{of}", file=sys.stderr, flush=True)

    return report
