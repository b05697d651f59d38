"""Encodes texts as vectors with an encoder of Hugging Face, as in Search-R1.

A text gets the prefix of its model and is cut to a number of tokens. Its hidden states are pooled
and scaled to norm 1. The similarity of two texts is the inner product of their vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from trca.envs.retrieval.retriever import RetrievalError

Pooling = Literal["mean", "cls", "pooler"]
POOLINGS: Final[tuple[str, ...]] = get_args(Pooling)

_PREFIXES: Final = {
    "e5": ("query: ", "passage: "),
    "bge": ("Represent this sentence for searching relevant passages: ", ""),
}
"""Prefixes of queries and of passages, by a part of the model's name."""


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
