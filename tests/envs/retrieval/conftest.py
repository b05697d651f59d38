"""Passages for searches: generated passages, and real passages if the shared data is present."""

import json
import lzma
import random
from pathlib import Path

import pytest

from trca.envs.retrieval.passages import Passage

SEARCHQA = Path(__file__).parents[4] / "shared" / "data" / "searchqa"
WORDS = (
    *("Élise’s", "café", "日本語", "カタカナ", "ひらがな", "★", "™", "👍🏽", "U.S.A.", "3.14"),
    *("2,500", "x_y", "re-election", "organisations", "happily", "İzmir", "ΟΔΟΣ", 'צה"ל'),
    *("don't", "The", "of", "generational", "5\u202f000", "O'Neill"),
)


def made_passages(count, seed=0):
    """Passages of common and rare words."""
    rng = random.Random(seed)
    words = [*WORDS, *(f"word{number}s" for number in range(200))]
    odds = [1 / (rank + 1) for rank in range(len(words))]
    rng.shuffle(words)
    return [
        Passage(f"m{number}", f'"Title {number}"\n{" ".join(rng.choices(words, odds, k=40))}')
        for number in range(count)
    ]


@pytest.fixture(scope="session")
def corpus():
    """Passages: real passages first, then generated passages."""
    passages = []
    if SEARCHQA.exists():
        with lzma.open(SEARCHQA / "corpus.jsonl.xz", "rt") as file:
            rows = [json.loads(next(file)) for _ in range(1500)]
        passages = [Passage(row["id"], row["contents"]) for row in rows]
    return passages + made_passages(500)


@pytest.fixture(scope="session")
def questions():
    """Questions that each share words with some passage."""
    real = []
    if SEARCHQA.exists():
        for name in ("hotpotqa", "nq"):
            lines = (SEARCHQA / f"{name}.jsonl").read_text().splitlines()[:80]
            real += [json.loads(line)["question"] for line in lines]
    return real + [passage.text[:60] for passage in made_passages(60, seed=1)]
