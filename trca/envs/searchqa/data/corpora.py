"""Opens the retriever over a corpus, once per process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from trca.common.cache import cache_folder, digest
from trca.common.files import FileVersion, versions
from trca.common.progress import progress_bar
from trca.common.shared import named
from trca.envs.retrieval.bm25 import BM25Retriever
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
    """Opens a retriever. Equal arguments return the same object until a file changes.

    Args:
        retriever: Name of the retriever, or a mapping of ``name`` and options.
        corpus: A folder with an index, or a corpus file, which ``bm25`` indexes into the cache on
            first use. None for a retriever with a corpus, such as a server.
        count: Number of passages of the generated world. ``bm25`` searches this world if ``corpus``
            is None.
        seed: Seed of the generated world.

    Raises:
        ValueError: If the retriever or an option is unknown, or the retriever has no corpus.
        CorpusError: If a line of the corpus is malformed.
        StoredDataError: If an index is incomplete or damaged.
        RetrievalError: If the retriever cannot be opened.
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
    """The cached folder of the BM25 index of a corpus file; builds a missing index.

    Raises:
        CorpusError: If a line of the corpus is malformed.
    """
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
