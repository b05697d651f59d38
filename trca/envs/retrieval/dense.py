"""A retriever with FAISS, which compares vectors of passages and queries.

Needs the extra ``dense``. FAISS holds the index in memory. With a width of 768, ``Flat``
(exact) takes 3 kB per passage and ``SQfp16`` half of that.

An encoder of Hugging Face makes the vectors, as in Search-R1: a text gets the prefix of its model
and is cut to a number of tokens; its hidden states are pooled and scaled to norm 1.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from trca.common import files
from trca.common.cache import digest
from trca.common.extras import missing_extra
from trca.common.progress import Report, silent
from trca.common.shared import Shared
from trca.envs.retrieval.passages import Passage, StoredPassages, store_passages
from trca.envs.retrieval.retriever import RetrievalError
from trca.envs.retrieval.storage import read_arrays, writing

Pooling = Literal["mean", "cls", "pooler"]
POOLINGS: Final[tuple[str, ...]] = get_args(Pooling)

_PREFIXES: Final = {
    "e5": ("query: ", "passage: "),
    "bge": ("Represent this sentence for searching relevant passages: ", ""),
}
"""Prefixes of queries and of passages, by a part of the model's name."""
_KIND: Final = "dense index"
_VERSION: Final = 1
_FILE: Final = "index.faiss"
_BLOCK: Final = 50_000
_SAMPLE: Final = 500_000
"""Largest number of vectors for training an index."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """Settings of an encoder.

    Attributes:
        model: Folder or hub name of the encoder.
        pooling: ``mean`` of all tokens (E5), ``cls`` for the state of the first token (BGE), or
            ``pooler`` for the model's pooler.
        query_prefix: Prefix of every query.
        passage_prefix: Prefix of every passage.
        length: Largest number of tokens of a text.
    """

    model: str
    pooling: Pooling = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""
    length: int = 256

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise ValueError(f"unknown pooling {self.pooling!r}: choose {', '.join(POOLINGS)}")

    @classmethod
    def usual(cls, model: str) -> Encoding:
        """The recommended settings of a model, by the family in its name."""
        name = Path(model).name.lower()
        family = next((each for each in _PREFIXES if each in name), "")
        query, passage = _PREFIXES.get(family, ("", ""))
        return cls(model, "cls" if family == "bge" else "mean", query, passage)


class Encoder:
    """A loaded encoder. All threads may use it."""

    def __init__(self, encoding: Encoding, device: str | None = None, batch: int = 64) -> None:
        """Loads the model, by default on a GPU if available. A GPU computes in float16."""
        import torch
        from transformers import AutoModel, AutoTokenizer

        self.encoding = encoding
        self._batch = batch
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = torch.float32 if self._device == "cpu" else torch.float16
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(encoding.model)
            model: Any = AutoModel.from_pretrained(encoding.model, dtype=dtype)
        except (OSError, ValueError) as error:
            raise RetrievalError(
                f"the encoder {encoding.model} cannot be loaded: {error}"
            ) from None
        self._model = model.to(self._device).eval()

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of queries with norm 1, shape ``(texts, width)``."""
        return self._encode([self.encoding.query_prefix + text for text in texts])

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of passages with norm 1, shape ``(texts, width)``."""
        return self._encode([self.encoding.passage_prefix + text for text in texts])

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        vectors = [np.empty((0, self._model.config.hidden_size), dtype=np.float32)]
        with torch.inference_mode():
            for start in range(0, len(texts), self._batch):
                tokens = self._tokenizer(
                    texts[start : start + self._batch],
                    padding=True,
                    truncation=True,
                    max_length=self.encoding.length,
                    return_tensors="pt",
                ).to(self._device)
                pooled = self._pooled(self._model(**tokens), tokens["attention_mask"]).float()
                unit = torch.nn.functional.normalize(pooled, dim=-1)
                vectors.append(unit.cpu().numpy())
        return np.concatenate(vectors)

    def _pooled(self, output: Any, mask: Any) -> Any:
        if self.encoding.pooling == "pooler":
            return output.pooler_output
        if self.encoding.pooling == "cls":
            return output.last_hidden_state[:, 0]
        mask = mask[..., None].to(output.last_hidden_state.dtype)
        return (output.last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1)


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
