"""Scores of an answer: strict normalised exact match, F1 and gold recall.

Exact match is the SQuAD definition, which Search-R1 and the paper use. F1 is HotpotQA's, over the
tokens of the same normal form. IGPO's F1 is over sets of words.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from trca.envs.retrieval.passages import Passage
from trca.envs.searchqa.data.questions import Question

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_SPACED: Final = str.maketrans(dict.fromkeys(string.punctuation, " "))
_CLOSED: Final = frozenset({"yes", "no", "noanswer"})


def normalized(text: str) -> str:
    """The normal form: lower case, no ASCII punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, aliases: Sequence[str]) -> float:
    """1 if the answer equals an alias in normal form, else 0."""
    normal_form = normalized(answer)
    return float(any(normal_form == normalized(alias) for alias in aliases))


def f1(answer: str, aliases: Sequence[str]) -> float:
    """The F1 score of the tokens for the best alias, 0 to 1."""
    text, best = normalized(answer), 0.0
    for alias in map(normalized, aliases):
        tokens, gold = text.split(), alias.split()
        common = sum((Counter(tokens) & Counter(gold)).values())
        if common and (text == alias or _CLOSED.isdisjoint((text, alias))):
            best = max(best, 2 * common / (len(tokens) + len(gold)))
    return best


def word_set_f1(answer: str, aliases: Sequence[str]) -> float:
    """IGPO's F1: over sets of words in lower case. Punctuation separates words, articles count."""
    words, *golds = (set(each.lower().translate(_SPACED).split()) for each in (answer, *aliases))
    scores = (2 * len(words & gold) / max(len(words) + len(gold), 1) for gold in golds)
    return max(scores, default=0.0)


def gold_recall(question: Question, retrieved: Iterable[Passage]) -> float | None:
    """The share of a question's gold passages among the found passages.

    Passages are compared by id, or by title if the question or the passages have no ids. None if
    neither can be compared.
    """
    passages = list(retrieved)
    gold, names = {*question.gold_ids}, {passage.id for passage in passages}
    if not gold or (passages and not any(names)):
        gold, names = {*question.gold_titles}, {passage.title for passage in passages}
    return len(gold & names) / len(gold) if gold else None
