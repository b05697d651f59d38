"""The rewards of StepSearch's public code (`qa_step.py`, `main_ppo.py`), from their definition."""

import math
import re
import string
from collections import Counter

PASSAGE = re.compile(r"^\[\d+\] (?:[^:\n]*: )?(.+)$", re.MULTILINE)
"""A listed passage without its title, as the public code reads it."""
STEP_WEIGHT = 0.6
ALIASED = 1 + STEP_WEIGHT
"""The scaled scores are added to a view of the tensor that holds the scores already."""


def public_text(text):
    """Lower case, no punctuation, no articles, single spaces."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def public_f1(answer, aliases):
    """F1 of the words of `public_text`, as often as they occur; rounded to four digits."""
    best = 0.0
    for alias in aliases:
        given, gold = public_text(answer).split(), public_text(alias).split()
        common = sum((Counter(given) & Counter(gold)).values())
        best = max(best, 2 * common / (len(given) + len(gold)) if common else 0.0)
    return round(best, 4)


def public_cosines(found, golds):
    """Cosines of a passage with each gold passage, by TF-IDF over these documents."""
    documents = [Counter(re.findall(r"\b\w\w+\b", text)) for text in (found, *golds)]

    def weights(document):
        having = {word: sum(word in other for other in documents) for word in document}
        return {
            word: count * (math.log((1 + len(documents)) / (1 + having[word])) + 1)
            for word, count in document.items()
        }

    def cosine(one, other):
        length = math.sqrt(sum(x * x for x in one.values()) * sum(x * x for x in other.values()))
        return sum(x * other.get(word, 0.0) for word, x in one.items()) / length if length else 0.0

    first, *others = map(weights, documents)
    return [cosine(first, other) for other in others]


def public_gains(pages, golds):
    """G of each step of a rollout, from the passages of each step."""
    golds = [public_text(gold) for gold in golds]
    best, gains = [0.0] * len(golds), []
    for page in pages:
        cosines = [public_cosines(public_text(found), golds) for found in page]
        now = [max((of[j] for of in cosines), default=0.0) for j in range(len(golds))]
        gains.append(sum(max(n - b, 0.0) for n, b in zip(now, best, strict=True)) / len(golds))
        best = [max(pair) for pair in zip(now, best, strict=True)]
    return gains


def public_penalties(pages):
    """P of each step: a passage counts as known from its first place on, on the same page too."""
    known, penalties = set(), []
    for page in pages:
        penalties.append(0.0)
        for found in page:
            penalties[-1] += (found in known) / len(page)
            known.add(found)
    return penalties


def public_rollout_rewards(pages, golds, f1, answered):
    """Rewards of a rollout's steps, of which the last one gives the answer, if any does."""
    if not answered:
        return [0.0] * (len(pages) - 1) + [-1.0]
    gains, penalties = public_gains(pages, golds), public_penalties(pages)
    steps = [ALIASED * (g - p) for g, p in zip(gains, penalties, strict=True)]
    return [*steps[:-1], f1]
