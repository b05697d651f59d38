"""Similarity of texts: cosines of weighted words (TF-IDF)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.arithmetic import joint_codes

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_WORD: Final = re.compile(r"\b\w\w+\b")


def cosines(
    texts: Sequence[str],
    text: NDArray[np.int64],
    collection: NDArray[np.int64],
    against: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The TF-IDF cosines of documents with chosen documents of the collection.

    A document is a text in a collection. A word that occurs n times has the weight
    n (ln((1 + N) / (1 + N_w)) + 1), if N_w of the N documents of the collection have the word.
    Words have two letters or more, in lower case.

    Args:
        texts: The texts.
        text: int64 (D,), the text of each document; distinct within a collection.
        collection: int64 (D,), the collection of each, from 0.
        against: int64 (C, J), the documents of the comparison, for each collection.

    Returns:
        float64 (D, J), from 0 to 1; 0 for a document without words.
    """
    from scipy.sparse import csr_matrix  # takes half a second, which refusals do not have

    documents = _word_counts(texts)[text]
    document = np.repeat(np.arange(len(text)), np.diff(documents.indptr))
    word = joint_codes(collection[document], documents.indices.astype(np.int64))
    size, having = np.bincount(collection), np.bincount(word)
    rarity = np.log((1 + size[collection[document]]) / (1 + having[word])) + 1
    weight = documents.data * rarity
    length = np.sqrt(np.bincount(document, np.square(weight), len(text)))
    units = csr_matrix((weight / length[document], word, documents.indptr))
    targets = np.zeros((len(having), against.shape[1]))
    for place, chosen in enumerate(against.T):
        of_chosen = units[chosen]
        targets[of_chosen.indices, place] = of_chosen.data
    cosine: NDArray[np.float64] = units @ targets
    return np.minimum(cosine, 1.0)


def _word_counts(texts: Sequence[str]) -> csr_matrix:
    """Counts of words in texts, (texts, words)."""
    from scipy.sparse import csr_matrix

    numbers: dict[str, int] = {}
    words: list[int] = []
    ends = [0]
    for text in texts:
        words += [numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text.lower())]
        ends.append(len(words))
    counts = csr_matrix((np.ones(len(words)), words, ends), shape=(len(texts), len(numbers)))
    counts.sum_duplicates()
    return counts
