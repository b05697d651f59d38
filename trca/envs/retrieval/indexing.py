"""Indexes a corpus of any size into a folder: in parallel, in bounded memory, and resumable.

The folder contains the passages and their index. Passages are stored first. Then blocks of passages
are inverted, each into a separate folder that stays until the index is complete, so a stopped run
can resume. A worker takes about 320 MB. The last step merges the blocks; it holds the distinct
words of every block and 80 bytes per passage in memory.
"""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from functools import partial
from itertools import starmap
from pathlib import Path

from filelock import FileLock

from trca.common.progress import Report, silent
from trca.envs.retrieval.bm25 import save_merged
from trca.envs.retrieval.passages import Passage, StoredPassages, store_passages
from trca.envs.retrieval.postings import BLOCK_SIZE, Block


def index_corpus(
    folder: Path,
    passages: Iterable[Passage],
    workers: int = 1,
    report: Report = silent,
) -> None:
    """Stores passages and their BM25 index in a folder.

    Resumes a partial build, for which the passages must be the same. Of several processes that call
    this function at once, one works and the remaining processes wait.

    The passages are read once, or ignored if the folder already has passages. ``workers`` is the
    number of processes that invert blocks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        for left in (*folder.glob(".passages-*"), *folder.glob(".bm25-*")):
            shutil.rmtree(left)
        if not (folder / "passages").exists():
            store_passages(folder / "passages", _counted(passages, report))
        if not (folder / "bm25").exists():
            _index(folder, workers, report)
        shutil.rmtree(folder / ".blocks", ignore_errors=True)


def _index(folder: Path, workers: int, report: Report) -> None:
    stored = StoredPassages(folder / "passages", verify=False)
    starts = range(0, len(stored), BLOCK_SIZE)
    places = [folder / ".blocks" / f"{start:012}" for start in starts]
    missing = [
        (start, min(start + BLOCK_SIZE, len(stored)))
        for start, place in zip(starts, places, strict=True)
        if not place.exists()
    ]
    report("indexing blocks", done := len(starts) - len(missing), len(starts))
    with ExitStack() as stack:
        each: Iterable[object] = starmap(partial(_invert, folder), missing)
        if workers > 1 and len(missing) > 1:
            spawn = multiprocessing.get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(workers, spawn))
            tasks = [pool.submit(_invert, folder, *part) for part in missing]
            each = (task.result() for task in as_completed(tasks))
        for number, _ in enumerate(each, 1):
            report("indexing blocks", done + number, len(starts))
    report("joining blocks", 0, 0)
    ids = (passage.id for passage in stored)
    save_merged(folder / "bm25", places, ids)


def _invert(folder: Path, start: int, end: int) -> None:
    stored = StoredPassages(folder / "passages", verify=False)
    block = Block.of(stored[number].contents for number in range(start, end))
    block.save(folder / ".blocks" / f"{start:012}")


def _counted(passages: Iterable[Passage], report: Report) -> Iterable[Passage]:
    for number, passage in enumerate(passages):
        if number % 10_000 == 0:
            report("storing passages", number, 0)
        yield passage
