"""BM25 in process and behind HTTP, Lucene, and bm25s: speed, memory and agreement.

    pip install bm25s PyStemmer
    python benchmarks/retrieval.py --corpus corpus.jsonl.xz --questions *.jsonl

Each engine builds and searches in separate processes. Seconds are processor time including child
processes, so that other work on the machine does not count. Memory is the private memory that
opening and searching the index adds to a process; mapped files belong to the page cache and count
once for all processes. Passages of random sentences of the corpus enlarge a corpus. A line of the
corpus has ``{"id", "contents"}``; a question has ``question``, ``dataset``, ``golden_answers`` and
optionally ``gold_ids``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import uvicorn
from rich.console import Console
from rich.table import Table

from trca.envs.retrieval.bm25 import BM25Retriever
from trca.envs.retrieval.http import HttpRetriever
from trca.envs.retrieval.indexing import index_corpus
from trca.envs.retrieval.lucene import LuceneRetriever, build_lucene, preflight
from trca.envs.retrieval.passages import Passage, StoredPassages, read_corpus, store_passages
from trca.envs.retrieval.retriever import RetrievalError, Retriever
from trca.envs.retrieval.server import create_app

LIMIT = 10


class Engine(Protocol):
    """A search engine under measurement."""

    def search(self, queries: Sequence[str]) -> list[list[str]]:
        """Returns passage ids for each query."""
        ...


@dataclass(frozen=True)
class Retrieved:
    """A retriever of trca as an engine."""

    retriever: Retriever

    def search(self, queries: Sequence[str]) -> list[list[str]]:
        """Returns passage ids for each query."""
        hits = self.retriever.search(queries, LIMIT)
        return [[passage.id for passage in passages] for passages in hits]


def build_bm25(folder: Path, passages: Sequence[Passage]) -> None:
    """Builds trca's BM25 index."""
    index_corpus(folder, passages)


def open_bm25(folder: Path, passages: Sequence[Passage]) -> Engine:
    """Opens trca's BM25 index."""
    del passages
    return Retrieved(BM25Retriever.open(folder))


def open_lucene(folder: Path, passages: Sequence[Passage]) -> Engine:
    """Opens Anserini's Lucene index."""
    del passages
    return Retrieved(LuceneRetriever(folder))


def open_http(folder: Path, passages: Sequence[Passage]) -> Engine:
    """Opens trca's index behind a server. Processor time includes both client and server."""
    del passages
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = create_app(lambda: BM25Retriever.open(folder))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    retriever = HttpRetriever(f"http://127.0.0.1:{port}/retrieve", attempts=10)
    retriever.search(["ready?"], 1)
    return Retrieved(retriever)


class BM25S:
    """bm25s, with the options closest to Lucene's."""

    def __init__(self, index: Any, ids: Sequence[str]) -> None:
        self.index, self.ids = index, ids

    def search(self, queries: Sequence[str]) -> list[list[str]]:
        """Returns passage ids for each query."""
        tokens = self.tokens(queries)
        hits, _ = self.index.retrieve(tokens, k=LIMIT, show_progress=False, n_threads=0)
        return [[self.ids[number] for number in row] for row in hits]

    @staticmethod
    def tokens(texts: Sequence[str]) -> Any:
        """Tokenizes texts: lower case, without bm25s's English stopwords, Porter's stems."""
        import bm25s
        import Stemmer

        return bm25s.tokenize(
            texts, stopwords="en", stemmer=Stemmer.Stemmer("porter"), show_progress=False
        )


def build_bm25s(folder: Path, passages: Sequence[Passage]) -> None:
    """Builds the index of the NumPy library bm25s."""
    import bm25s

    index = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    index.index(BM25S.tokens([passage.contents for passage in passages]), show_progress=False)
    index.save(str(folder))


def open_bm25s(folder: Path, passages: Sequence[Passage]) -> Engine:
    """Opens the index of the NumPy library bm25s."""
    import bm25s

    index = bm25s.BM25.load(str(folder), mmap=True)
    return BM25S(index, [passage.id for passage in passages])


ENGINES: dict[str, tuple[Callable[..., None], Callable[..., Engine]]] = {
    "bm25": (build_bm25, open_bm25),
    "http": (build_bm25, open_http),
    "lucene": (build_lucene, open_lucene),
    "bm25s": (build_bm25s, open_bm25s),
}


def present() -> Iterator[str]:
    """Yields the installed engines."""
    yield from ("bm25", "http")
    try:
        preflight()
        yield "lucene"
    except RetrievalError as error:
        print(f"without Lucene: {error}", file=sys.stderr)
    if find_spec("bm25s") and find_spec("Stemmer"):
        yield "bm25s"
    else:
        print("without bm25s: pip install bm25s PyStemmer", file=sys.stderr)


def cpu_seconds() -> float:
    """Returns the processor time of this process and of its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def private_mib() -> float:
    """Returns the memory of this process without mapped files, in MiB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) / 2**10


def build(engine: str, folder: Path, corpus: Path) -> float:
    """Builds an index in a fresh process and returns the seconds."""
    passages = StoredPassages(corpus)
    started = cpu_seconds()
    ENGINES[engine][0](folder, passages)
    return cpu_seconds() - started


def search(
    engine: str, folder: Path, corpus: Path, questions: Sequence[str]
) -> tuple[dict[str, float], list[list[str]]]:
    """Opens and searches an index in a fresh process.

    Returns:
        Metrics by name, and passage ids for each question.
    """
    passages = StoredPassages(corpus)
    before, started = private_mib(), cpu_seconds()
    opened = ENGINES[engine][1](folder, passages)
    loading = cpu_seconds() - started
    opened.search(questions[:200])
    started = cpu_seconds()
    for question in questions:
        opened.search([question])
    single = cpu_seconds() - started
    started = cpu_seconds()
    hits = opened.search(questions)
    batch = cpu_seconds() - started
    metrics = {
        "load, s": loading,
        "queries/s, one by one": len(questions) / single,
        "queries/s, at once": len(questions) / batch,
        "memory, MiB": private_mib() - before,
    }
    if engine == "bm25":
        metrics["memory of 64, MiB"] = of_64(folder, passages, questions[:64]) - before
    return metrics, hits


def of_64(folder: Path, passages: Sequence[Passage], questions: Sequence[str]) -> float:
    """Returns the memory with the retrievers of 63 more environments."""
    more = [open_bm25(folder, passages) for _ in range(63)]
    for engine, question in zip(more, questions, strict=False):
        engine.search([question])
    return private_mib()


def enlarged(passages: list[Passage], size: int) -> list[Passage]:
    """Cuts passages to a size, or adds passages of random sentences up to the size."""
    rng = random.Random(0)
    sentences = [each for p in passages for each in re.split(r"(?<=[.!?]) ", p.text)]
    more = (
        Passage(
            f"x{number}", f"{rng.choice(passages).title}\n{' '.join(rng.choices(sentences, k=4))}"
        )
        for number in range(size - len(passages))
    )
    return [*passages[:size], *more]


def share(hits: Sequence[float]) -> str:
    """Formats a mean with three digits."""
    return f"{sum(hits) / len(hits):.3f}" if hits else "-"


def recall(rows: Sequence[dict[str, Any]], results: Sequence[Sequence[str]], limit: int) -> str:
    """Returns the mean share of gold passages in the results, over questions with gold ids."""
    pairs = zip(rows, results, strict=True)
    gold = [({*row["gold_ids"]}, {*ids[:limit]}) for row, ids in pairs if row.get("gold_ids")]
    return share([len(wanted & ids) / len(wanted) for wanted, ids in gold])


def answered(
    rows: Sequence[dict[str, Any]], results: Sequence[Sequence[str]], by_id: dict[str, str]
) -> str:
    """Returns the share of questions with an answer in the text of the first three results."""
    hits = []
    for row, ids in zip(rows, results, strict=True):
        text = " ".join(by_id[each] for each in ids[:3]).lower()
        hits.append(float(any(answer.lower() in text for answer in row["golden_answers"])))
    return share(hits)


def compare(passages: list[Passage], rows: list[dict[str, Any]], folder: Path) -> None:
    """Measures all engines on the passages, and prints two tables."""
    store_passages(folder / "corpus", passages)
    questions = [row["question"] for row in rows]
    metrics: dict[str, dict[str, float]] = {}
    results: dict[str, list[list[str]]] = {}
    for engine in present():
        place = folder / engine
        metrics[engine] = {"build, s": isolated(partial(build, engine, place, folder / "corpus"))}
        size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        metrics[engine]["on disk, MiB"] = size / 2**20
        call = partial(search, engine, place, folder / "corpus", questions)
        more, results[engine] = isolated(call)
        metrics[engine] |= more
    table = Table(
        "", *metrics, title=f"{len(passages):,} passages, {len(rows):,} questions, one core"
    )
    for name in metrics["bm25"]:
        cells = (f"{each[name]:,.4g}" if name in each else "-" for each in metrics.values())
        table.add_row(name, *cells)
    if "lucene" in results:
        for name, same in (("same first 10 as Lucene", 10), ("same first 3 as Lucene", 3)):
            table.add_row(
                name,
                *(
                    share(
                        [a[:same] == b[:same] for a, b in zip(each, results["lucene"], strict=True)]
                    )
                    for each in results.values()
                ),
            )
    Console(width=100).print(table)
    by_id = {passage.id: passage.contents for passage in passages}
    table = Table("dataset", "questions", "engine", "gold @3", "@5", "@10", "answer @3")
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        chosen = [number for number, row in enumerate(rows) if row["dataset"] == dataset]
        some = [rows[number] for number in chosen]
        for engine, each in results.items():
            if engine == "http":
                continue
            ids = [each[number] for number in chosen]
            recalls = [recall(some, ids, limit) for limit in (3, 5, 10)]
            table.add_row(dataset, str(len(some)), engine, *recalls, answered(some, ids, by_id))
    Console(width=100).print(table)


def isolated(act: Callable[[], Any]) -> Any:
    """Calls a function in a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(act).result()


def main() -> None:
    """Prints the tables for each size of the corpus."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--questions", type=Path, nargs="+", required=True)
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of passages [default: all]")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    passages = [replace(passage, score=None) for passage in read_corpus(args.corpus)]
    rows = [json.loads(line) for path in args.questions for line in path.open()]
    for size in args.sizes or [len(passages)]:
        with tempfile.TemporaryDirectory() as folder:
            compare(enlarged(passages, size), rows, Path(folder))


if __name__ == "__main__":
    main()
