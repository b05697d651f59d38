"""Progress of something that is built: a bar in a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES: Final = 15.0


@contextmanager
def progress(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Shows on standard error how building goes, and says how long it took.

    Args:
        what: What is built, such as ``the tiny policy``.

    Yields:
        A function to call with what is being done, how much is done, and of how much.
    """
    console = Console(stderr=True)
    start = time.monotonic()
    console.print(f"Building {what}; it is kept for the next time.", highlight=False)
    with _bar(console) if console.is_terminal else _lines() as tick:
        yield tick
    seconds = time.monotonic() - start
    console.print(f"Built {what} in {seconds:.0f} s.", highlight=False)


@contextmanager
def _bar(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tick(doing: str, done: int, total: int) -> None:
            if done <= 1:
                bar.reset(task)
            bar.update(task, description=doing, completed=done, total=total)

        yield tick


@contextmanager
def _lines() -> Iterator[Callable[[str, int, int], None]]:
    last = time.monotonic()

    def tick(doing: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            print(f"  {doing}: {done} of {total}", file=sys.stderr, flush=True)

    yield tick
