"""Prepares the data of SearchQA: indices over corpora of any size, and checked question files.

For example::

    plan = plan_index(Path("wiki-18.jsonl.gz"), Path("wiki"))
    build_index(plan)
    counts = prepare_questions([Path("FlashRAG")], Path("questions"))
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from filelock import FileLock

from trca.common.json_lines import decompressed
from trca.common.progress import Report, silent
from trca.envs.retrieval.indexing import index_corpus
from trca.envs.retrieval.passages import StoredPassages, read_corpus
from trca.envs.searchqa.data.datasets import DATASETS, read_datasets
from trca.envs.searchqa.data.questions import (
    Question,
    QuestionFileError,
    read_questions,
    write_questions,
)

_SAMPLE: Final = 2_000
"""Number of lines for estimating the size of a corpus."""
_WORKER_BYTES: Final = 300 * 2**20
_JOINING_BYTES: Final = 80
"""Bytes of memory per passage while blocks are merged."""
_DISK_PER_TEXT: Final = 2.0
"""Bytes on disk per byte of the uncompressed corpus, including the temporary blocks."""
_SOURCE: Final = "corpus.json"

SOURCES: Final = {
    "questions": "https://huggingface.co/datasets/RUC-NLPIR/FlashRAG_datasets",
    "corpus": "https://huggingface.co/datasets/PeterJinGo/wiki-18-corpus",
}
"""Publications of the questions of all seven datasets, and of the 21 million passages of 2018."""


class CapacityError(Exception):
    """There is too little space on the disk."""


@dataclass(frozen=True)
class IndexPlan:
    """The estimated cost of indexing a corpus.

    Attributes:
        corpus: The corpus.
        folder: Folder of the index.
        passages: Estimated number of passages.
        disk: Estimated bytes on disk during the build.
        memory: Estimated bytes of memory during the build.
        workers: Number of processes.
    """

    corpus: Path
    folder: Path
    passages: int
    disk: int
    memory: int
    workers: int


def plan_index(corpus: Path, folder: Path, workers: int = 1) -> IndexPlan:
    """Estimates the cost of indexing from the beginning of the corpus.

    Args:
        corpus: A corpus, compressed or not.
        folder: Folder of the index.
        workers: Number of processes, at least 1.

    Raises:
        ValueError: For fewer than 1 worker.
        OSError: If the corpus cannot be read.
        CapacityError: If the disk has too little space.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}: give 1 or more")
    passages, text = _estimate(corpus)
    plan = IndexPlan(
        corpus=corpus,
        folder=folder,
        passages=passages,
        disk=int(_DISK_PER_TEXT * text),
        memory=max(workers * _WORKER_BYTES, _WORKER_BYTES + _JOINING_BYTES * passages),
        workers=workers,
    )
    place = folder.absolute()
    existing = next(each for each in (place, *place.parents) if each.exists())
    stored = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    free = shutil.disk_usage(existing).free + stored
    if free < plan.disk:
        raise CapacityError(
            f"{folder}: an index of {corpus} takes about {plan.disk / 2**30:,.1f} GiB, and"
            f" {free / 2**30:,.1f} GiB are free: choose a folder on another disk"
        )
    return plan


def build_index(plan: IndexPlan, report: Report = silent) -> int:
    """Builds the index. Resumes a partial build; does nothing if the index is complete.

    Args:
        plan: The plan of the index.
        report: Progress callback.

    Returns:
        The number of passages.

    Raises:
        CorpusError: If a line of the corpus is malformed. The message names the file and line.
        FileExistsError: If the folder has the index of another corpus.
    """
    plan.folder.mkdir(parents=True, exist_ok=True)
    stat = plan.corpus.stat()
    identity = {"name": plan.corpus.name, "bytes": stat.st_size, "changed_ns": stat.st_mtime_ns}
    source = plan.folder / _SOURCE
    with FileLock(plan.folder / ".source.lock"):
        stored = (plan.folder / "passages").exists() and source.exists()
        if stored and json.loads(source.read_text()) != identity:
            raise FileExistsError(
                f"{plan.folder} has the index of another corpus, or of an earlier"
                f" {plan.corpus.name}: delete it or choose another folder"
            )
        source.write_text(json.dumps(identity))
    index_corpus(plan.folder, read_corpus(plan.corpus), plan.workers, report)
    return len(StoredPassages(plan.folder / "passages", verify=False))


def prepare_questions(sources: Iterable[Path], folder: Path) -> dict[str, Counter[str]]:
    """Reads questions, checks every row, and writes one file per dataset.

    Args:
        sources: Files of questions, and folders of datasets.
        folder: Target folder; its files ``<dataset>.jsonl`` are replaced.

    Returns:
        Dataset -> split -> number of questions, in the order of the paper's table.

    Raises:
        QuestionFileError: If a file is missing or malformed. The message names the file and line.
            In this case, no file is written.
    """
    by_dataset: dict[str, list[Question]] = {}
    for path in sources:
        path = path.expanduser()
        for question in read_datasets(path) if path.is_dir() else read_questions(path):
            name = question.dataset
            if Path(name).name != name or name.startswith("."):
                raise QuestionFileError(path, f"dataset {name[:80]!r} is not a name for a file")
            by_dataset.setdefault(name, []).append(question)
    folder.mkdir(parents=True, exist_ok=True)
    names = [*(name for name in DATASETS if name in by_dataset), *by_dataset]
    for name in dict.fromkeys(names):
        write_questions(folder / f"{name}.jsonl", by_dataset[name])
    return {name: Counter(q.split for q in by_dataset[name]) for name in dict.fromkeys(names)}


def _estimate(corpus: Path) -> tuple[int, int]:
    """Estimated number of lines of a corpus, and of bytes without compression."""
    size = corpus.stat().st_size
    with corpus.open("rb") as raw:
        lines = list(islice(decompressed(raw, corpus.suffix), _SAMPLE))
        text = sum(map(len, lines))
        if len(lines) < _SAMPLE:
            return len(lines), text
        read = raw.tell() if corpus.suffix in (".gz", ".xz") else text
    scale = size / min(read, size)
    return int(len(lines) * scale), int(text * scale)
