"""A retriever with FAISS, which compares vectors of passages and queries.

    index_dense(Path("wiki"), read_corpus(corpus), Encoding.usual("intfloat/e5-base-v2"))
    retriever = open_retriever("dense", index="wiki")

Needs the extra ``dense``. FAISS holds the index in memory. With a width of 768, ``Flat``
(exact) takes 3 kB per passage and ``SQfp16`` half of that.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from filelock import FileLock

from trca.common import files
from trca.common.cache import digest
from trca.common.extras import missing_extra
from trca.common.progress import Report, silent
from trca.common.shared import Shared
from trca.envs.retrieval.encoder import Encoder, Encoding
from trca.envs.retrieval.passages import Passage, StoredPassages, store_passages
from trca.envs.retrieval.retriever import RetrievalError
from trca.envs.retrieval.storage import read_arrays, writing

_KIND: Final = "dense index"
_VERSION: Final = 1
_FILE: Final = "index.faiss"
_BLOCK: Final = 50_000
_SAMPLE: Final = 500_000
"""Largest number of vectors for training an index."""


class DenseRetriever(Shared):
    """A `Retriever` that ranks passages by the inner product of vectors."""

    def __init__(
        self, index: str | Path, model: str | None = None, device: str | None = None
    ) -> None:
        """Opens an index.

        Args:
            index: A folder of `index_dense`.
            model: Current path or name of the encoder; None if unchanged since indexing.
            device: Device of the encoder; None for a GPU if available.

        Raises:
            RetrievalError: If FAISS is missing, or the encoder cannot be loaded or has another
                width.
            StoredDataError: If the folder is incomplete, damaged or of another version.
        """
        faiss = _faiss()
        folder = Path(index)
        self._passages = StoredPassages(folder / "passages")
        _, facts = read_arrays(folder / "dense", _KIND, _VERSION)
        self._index: Any = faiss.read_index(str(folder / "dense" / _FILE))
        encoding = Encoding(**facts["encoding"])
        self._encoder = Encoder(replace(encoding, model=model or encoding.model), device)
        width = self._encoder.queries([""]).shape[1]
        if width != self._index.d:
            raise RetrievalError(
                f"{folder} has vectors of width {self._index.d}, but {encoding.model} gives"
                f" {width}: use the encoder of the index"
            )

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """The best passages for each query; see `Retriever.search`."""
        if not queries:
            return []
        scores, numbers = self._index.search(self._encoder.queries(queries), limit)
        return [
            [
                replace(self._passages[number], score=score)
                for number, score in zip(row, row_scores, strict=True)
                if number >= 0
            ]
            for row, row_scores in zip(numbers.tolist(), scores.tolist(), strict=True)
        ]

    def close(self) -> None:
        """Does nothing."""


def index_dense(
    folder: Path,
    passages: Iterable[Passage],
    encoding: Encoding,
    kind: str = "Flat",
    device: str | None = None,
    report: Report = silent,
) -> None:
    """Stores passages and the index of their vectors in a folder.

    Resumes a partial build: existing passages and blocks of vectors are kept.

    Args:
        folder: The folder.
        passages: The passages; ignored if the folder already has passages.
        encoding: The encoding of texts as vectors.
        kind: The FAISS index as a factory string: ``Flat``, ``SQfp16``, ``HNSW64``, ...
        device: Device of the encoder; None for a GPU if available.
        report: Progress callback.

    Raises:
        RetrievalError: If FAISS is missing, or the encoder cannot be loaded.
    """
    faiss = _faiss()
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        if not (folder / "passages").exists():
            store_passages(folder / "passages", passages)
        if (folder / "dense").exists():
            return
        encoder = Encoder(encoding, device)
        blocks = list(_vectors(folder, encoder, report))
        index = faiss.index_factory(
            encoder.queries([""]).shape[1], kind, faiss.METRIC_INNER_PRODUCT
        )
        if not index.is_trained:
            share = max(1, _SAMPLE // max(len(blocks), 1))
            samples = [np.load(block, mmap_mode="r")[:share] for block in blocks]
            index.train(np.concatenate(samples))
        for block in blocks:
            index.add(np.load(block))
        with writing(folder / "dense", _KIND, _VERSION) as writer:
            faiss.write_index(index, str(writer.path / _FILE))
            writer.facts |= {"encoding": asdict(encoding), "kind": kind}
        shutil.rmtree(folder / ".vectors", ignore_errors=True)


def _vectors(folder: Path, encoder: Encoder, report: Report) -> Iterable[Path]:
    """Encodes the remaining passages; yields the file of each block of vectors, in order."""
    stored = StoredPassages(folder / "passages", verify=False)
    vectors = folder / ".vectors" / digest(asdict(encoder.encoding))
    vectors.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(stored), _BLOCK):
        report("encoding passages", start, len(stored))
        path = vectors / f"{start:012}.npy"
        if not path.exists():
            texts = [passage.contents for passage in stored[start : start + _BLOCK]]
            with files.writing(path, binary=True) as file:
                np.save(file, encoder.passages(texts))
        yield path


def _faiss() -> Any:
    if lack := missing_extra("faiss", "the dense retriever", "dense"):
        raise RetrievalError(lack)
    import faiss

    return faiss
