"""How alike texts are: cosines of their weighted words (TF-IDF)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags_array

_WORD: Final = re.compile(r"\b\w\w+\b")


def cosines(texts: Sequence[str], others: Sequence[str]) -> NDArray[np.float64]:
    """The cosine of every text with every other, in the usual weights.

    A word that a text has n times weighs n (ln((1 + N) / (1 + N_w)) + 1), where N_w of all the N
    distinct texts have it. Words are of two letters or more, in lower case.

    Args:
        texts: The texts.
        others: What each is compared with.

    Returns:
        float64 (len(texts), len(others)), from 0 to 1; 0 for a text without words.
    """
    distinct = list(dict.fromkeys([*texts, *others]))
    words: dict[str, int] = {}
    columns: list[int] = []
    starts = [0]
    for text in distinct:
        columns += [words.setdefault(w, len(words)) for w in _WORD.findall(text.lower())]
        starts.append(len(columns))
    shape = (len(distinct), max(len(words), 1))
    counts = csr_matrix((np.ones(len(columns)), columns, starts), shape=shape)
    counts.sum_duplicates()
    having = np.bincount(counts.indices, minlength=shape[1])
    weights = counts @ diags_array(np.log((1 + shape[0]) / (1 + having)) + 1)
    lengths = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
    units = diags_array(1 / np.where(lengths > 0, lengths, 1)) @ weights
    place = {text: row for row, text in enumerate(distinct)}
    rows, against = ([place[text] for text in group] for group in (texts, others))
    alike = csr_matrix(units)
    found: NDArray[np.float64] = (alike[rows] @ alike[against].T).toarray()
    return np.minimum(found, 1.0)
