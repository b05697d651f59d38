"""Corpora: opens retrievers over them, once per process, and builds indices of any size."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from filelock import FileLock

from trca.common.cache import cache_folder, digest
from trca.common.files import FileVersion, versions
from trca.common.json_lines import decompressed
from trca.common.progress import Report, progress_bar, silent
from trca.common.shared import named
from trca.envs.retrieval.bm25 import BM25Retriever
from trca.envs.retrieval.indexing import index_corpus
from trca.envs.retrieval.passages import StoredPassages, read_corpus
from trca.envs.retrieval.retriever import Retriever, open_retriever
from trca.envs.searchqa.data.generate import generated

_SAMPLE: Final = 2_000
"""Number of lines for estimating the size of a corpus."""
_WORKER_BYTES: Final = 300 * 2**20
_JOINING_BYTES: Final = 80
"""Bytes of memory per passage while blocks are merged."""
_DISK_PER_TEXT: Final = 2.0
"""Bytes on disk per byte of the uncompressed corpus, including the temporary blocks."""
_SOURCE: Final = "corpus.json"


def open_search(
    retriever: str | Mapping[str, Any],
    corpus: str | Path | None = None,
    count: int | None = None,
    seed: int = 0,
) -> Retriever:
    """Opens a retriever. Equal arguments return the same object until a file changes.

    ``retriever`` is a name, or a mapping of ``name`` and options. ``corpus`` is a folder with an
    index, or a corpus file, which ``bm25`` indexes into the cache on first use; None for a
    retriever with a corpus, such as a server. Without corpus, ``bm25`` searches the generated world
    with ``count`` passages.
    """
    options = {"name": retriever} if isinstance(retriever, str) else dict(retriever)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"retriever is {retriever}: give a name or a mapping with a name")
    if name == "bm25" and corpus is None and count is not None and "index" not in options:
        if options:
            raise ValueError(f"bm25 has no option {', '.join(options)}: the only option is index")
        return named(_over_generated(count, seed), _over_generated, count, seed)
    if corpus is not None and "index" not in options:
        place = Path(corpus).expanduser().resolve()
        options["index"] = str(indexed(place) if name == "bm25" and place.is_file() else place)
    if name in ("bm25", "lucene") and "index" not in options:
        raise ValueError(
            f"{name} has nothing to search: give corpus, the path of an index or a corpus;"
            " `trca data searchqa` builds one"
        )
    if "index" in options:
        options["index"] = str(Path(options["index"]).expanduser().absolute())
    paths = (Path(options[name]) for name in ("index", "model") if options.get(name))
    files = tuple(chain.from_iterable(map(versions, paths)))
    opened = _opened(name, json.dumps(options, sort_keys=True, default=str), files)
    return named(opened, open_search, {"name": name, **options})


def indexed(corpus: Path) -> Path:
    """The cached folder of the BM25 index of a corpus file; builds a missing index."""
    name = digest(*chain.from_iterable(versions(corpus)))
    folder = cache_folder() / "searchqa" / name
    with progress_bar() as report:
        index_corpus(folder, read_corpus(corpus), report=report)
    return folder


@lru_cache(maxsize=4)
def _over_generated(count: int, seed: int) -> Retriever:
    return BM25Retriever.of(generated(count, seed).passages)


@lru_cache(maxsize=16)
def _opened(name: str, options: str, files: tuple[FileVersion, ...]) -> Retriever:
    return open_retriever(name, **json.loads(options))


class CapacityError(Exception):
    """There is too little space on the disk."""


class Estimate(NamedTuple):
    """The estimated cost of indexing a corpus: passages, and bytes on disk and in memory."""

    passages: int
    disk: int
    memory: int


def estimate_index(corpus: Path, folder: Path, workers: int = 1) -> Estimate:
    """Estimates the cost of indexing from the beginning of the corpus.

    A CapacityError says that the disk has too little space.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}: give 1 or more")
    size = corpus.stat().st_size
    with corpus.open("rb") as raw:
        lines = list(islice(decompressed(raw, corpus.suffix), _SAMPLE))
        text = sum(map(len, lines))
        read = raw.tell() if corpus.suffix in (".gz", ".xz") else text
    scale = 1.0 if len(lines) < _SAMPLE else size / min(read, size)
    passages, disk = int(len(lines) * scale), int(_DISK_PER_TEXT * int(text * scale))
    place = folder.absolute()
    existing = next(each for each in (place, *place.parents) if each.exists())
    stored = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    free = shutil.disk_usage(existing).free + stored
    if free < disk:
        raise CapacityError(
            f"{folder}: an index of {corpus} takes about {disk / 2**30:,.1f} GiB, and"
            f" {free / 2**30:,.1f} GiB are free: choose a folder on another disk"
        )
    memory = max(workers * _WORKER_BYTES, _WORKER_BYTES + _JOINING_BYTES * passages)
    return Estimate(passages, disk, memory)


def build_index(corpus: Path, folder: Path, workers: int = 1, report: Report = silent) -> int:
    """Builds the index and returns the number of passages. Resumes a partial build."""
    folder.mkdir(parents=True, exist_ok=True)
    stat = corpus.stat()
    identity = {"name": corpus.name, "bytes": stat.st_size, "changed_ns": stat.st_mtime_ns}
    source = folder / _SOURCE
    with FileLock(folder / ".source.lock"):
        stored = (folder / "passages").exists() and source.exists()
        if stored and json.loads(source.read_text()) != identity:
            raise FileExistsError(
                f"{folder} has the index of another corpus, or of an earlier"
                f" {corpus.name}: delete it or choose another folder"
            )
        source.write_text(json.dumps(identity))
    index_corpus(folder, read_corpus(corpus), workers, report)
    return len(StoredPassages(folder / "passages", verify=False))
