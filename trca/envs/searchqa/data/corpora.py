"""Opens the retriever over a corpus, once a process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from trca.common.cache import cache_folder, digest
from trca.common.progress import progress_bar
from trca.envs.retrieval.bm25_retriever import BM25Retriever
from trca.envs.retrieval.indexing import index_corpus
from trca.envs.retrieval.passages import read_corpus
from trca.envs.retrieval.retriever import Retriever, open_retriever
from trca.envs.searchqa.data.generate import generated


def open_search(
    retriever: str | Mapping[str, Any],
    corpus: str | Path | None = None,
    count: int | None = None,
    seed: int = 0,
) -> Retriever:
    """Opens a retriever; equal arguments give the same one.

    Args:
        retriever: Its name, or a mapping of ``name`` and its options.
        corpus: A folder with an index, or a corpus that ``bm25`` indexes into the cache the first
            time; None where the retriever knows its corpus, as a server does.
        count: Number of passages of the generated world, which ``bm25`` then searches when no
            corpus is given.
        seed: Seed of the generated world.

    Raises:
        ValueError: When the retriever or an option is unknown, or it has no corpus.
        CorpusError: When a line of the corpus is malformed.
        StoredDataError: When an index is not whole.
        RetrievalError: When the retriever cannot be opened.
    """
    options = {"name": retriever} if isinstance(retriever, str) else dict(retriever)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"retriever is {retriever}: give its name, or a mapping with a name")
    if name == "bm25" and corpus is None and count is not None and "index" not in options:
        if options:
            raise ValueError(f"bm25 takes no {', '.join(options)}: give index or nothing")
        return _over_generated(count, seed)
    if corpus is not None and "index" not in options:
        place = Path(corpus).expanduser().resolve()
        options["index"] = str(indexed(place) if name == "bm25" and place.is_file() else place)
    if name in ("bm25", "lucene") and "index" not in options:
        raise ValueError(
            f"{name} has nothing to search: give corpus, the path of an index or a corpus;"
            " `trca data searchqa` builds one"
        )
    return _opened(name, json.dumps(options, sort_keys=True, default=str))


def indexed(corpus: Path) -> Path:
    """The folder of the BM25 index of a corpus file in the cache; it is built when it is missing.

    Raises:
        CorpusError: When a line of the corpus is malformed.
    """
    stat = corpus.stat()
    name = digest(str(corpus), stat.st_size, stat.st_mtime_ns)
    folder = cache_folder() / "searchqa" / name
    with progress_bar() as report:
        index_corpus(folder, read_corpus(corpus), report=report)
    return folder


@lru_cache(maxsize=4)
def _over_generated(count: int, seed: int) -> Retriever:
    return BM25Retriever.of(generated(count, seed).passages)


@lru_cache(maxsize=16)
def _opened(name: str, options: str) -> Retriever:
    return open_retriever(name, **json.loads(options))
