"""BM25: scores, order and storage; the numbers are Lucene's."""

import gzip
import json
import math
import multiprocessing
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from trca.envs.retrieval import bm25, postings
from trca.envs.retrieval.analysis import lucene_tokens
from trca.envs.retrieval.bm25 import BM25
from trca.envs.retrieval.postings import LENGTHS, length_codes
from trca.envs.retrieval.storage import StoredDataError

WEBSHOP = Path(__file__).parents[4] / "shared" / "data" / "webshop"
FRUIT = ["a red apple", "the green apple tree", "red bricks", "", "of the"]


def made_texts(count, seed=0):
    """Texts of generated words with frequencies that fall as in language."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(400)]
    odds = [1 / (rank + 1) for rank in range(400)]
    return [" ".join(rng.choices(words, odds, k=rng.randrange(0, 60))) for _ in range(count)]


def by_the_formula(texts, query):
    """Every document with a score, by the textbook formula in double precision."""
    bags = [Counter(lucene_tokens(text)) for text in texts]
    filled = [bag.total() for bag in bags if bag]
    average = sum(filled) / len(filled)
    scores = Counter()
    for term, count in Counter(lucene_tokens(query)).items():
        having = [number for number, bag in enumerate(bags) if term in bag]
        idf = math.log(1 + (len(filled) - len(having) + 0.5) / (len(having) + 0.5))
        for number in having:
            length = LENGTHS[length_codes(np.array([bags[number].total()]))][0]
            norm = 0.9 * (1 - 0.4 + 0.4 * length / average)
            scores[number] += count * idf * bags[number][term] / (bags[number][term] + norm)
    return scores


def answers(index, queries, limit=10):
    """The results of each query, in a form for comparison."""
    results = (index.search(query, limit) for query in queries)
    return [(documents.tolist(), scores.tolist()) for documents, scores in results]


def test_documents_with_the_words_come_in_order_of_score():
    documents, scores = BM25.build(FRUIT).search("red apples", 10)
    assert documents.tolist() == [0, 2, 1]
    assert documents.dtype == np.int32
    assert scores.dtype == np.float32
    idf = math.log(1 + (3 - 2 + 0.5) / 2.5)
    norm = 0.9 * (0.6 + 0.4 * 2 / (7 / 3))
    assert scores[0] == pytest.approx(2 * idf / (1 + norm))


def test_the_limit_counts_documents():
    index = BM25.build(FRUIT)
    assert index.search("red apples", 2)[0].tolist() == [0, 2]
    assert len(index) == 5


@pytest.mark.parametrize("query", ["", "  ", "the of", "unknown", "\x00"])
def test_a_query_without_known_words_finds_nothing(query):
    documents, scores = BM25.build(FRUIT).search(query, 3)
    assert documents.shape == scores.shape == (0,)


def test_half_a_surrogate_pair_stands_between_words():
    index = BM25.build(["a\ud800x apple", "apple"])
    assert index.search("x\udfff", 3)[0].tolist() == [0]


def test_the_limit_is_positive():
    with pytest.raises(ValueError, match="limit is 0"):
        BM25.build(FRUIT).search("apple", 0)


def test_an_index_of_nothing_is_an_index(tmp_path):
    for texts in ([], ["", "the"]):
        index = BM25.build(texts)
        index.save(tmp_path / str(len(texts)))
        assert len(BM25.load(tmp_path / str(len(texts))).search("apple", 3)[0]) == 0


def test_a_query_of_100_kb_is_answered():
    index = BM25.build(FRUIT)
    assert index.search("red apple " * 10_000, 1)[0].tolist() == [0]


def test_equals_come_by_id_else_by_number():
    texts = ["same words"] * 4
    assert BM25.build(texts).search("same", 3)[0].tolist() == [0, 1, 2]
    assert BM25.build(texts, ids=["c", "b", "d", "a"]).search("same", 3)[0].tolist() == [3, 1, 0]


def test_ids_are_one_a_text():
    with pytest.raises(ValueError, match="2 texts but 1 ids"):
        BM25.build(["a", "b"], ids=["x"])


def test_scores_are_those_of_the_formula():
    texts = made_texts(300)
    index = BM25.build(texts)
    for query in made_texts(30, seed=1):
        expected = by_the_formula(texts, query)
        documents, scores = index.search(query, 300)
        assert dict(zip(documents.tolist(), scores.tolist(), strict=True)) == pytest.approx(
            expected, rel=1e-5
        )


def test_pruning_changes_nothing(monkeypatch):
    index = BM25.build(made_texts(3000))
    rng = random.Random(2)
    queries = [" ".join(f"w{rng.randrange(400)}" for _ in range(6)) for _ in range(200)]
    queries += [f"{query} w0 w1 w2" for query in queries]
    usual = answers(index, queries)
    monkeypatch.setattr(bm25, "_WORTH_PRUNING", 0)
    assert answers(index, queries) == usual


def test_blocks_change_nothing(monkeypatch):
    texts = made_texts(500)
    queries = made_texts(20, seed=3)
    whole = answers(BM25.build(texts), queries)
    monkeypatch.setattr(postings, "BLOCK_SIZE", 7)
    assert answers(BM25.build(iter(texts)), queries) == whole


def test_length_codes_are_exact_to_39_and_keep_four_bits_above():
    assert LENGTHS[length_codes(np.arange(41))].tolist() == [*range(40), 40]
    assert LENGTHS[length_codes(np.array([41, 57, 1000]))].tolist() == [40, 56, 984]
    assert (np.diff(LENGTHS) > 0).all()


def test_an_index_is_the_same_after_saving(tmp_path):
    texts, queries = made_texts(200), made_texts(20, seed=1)
    index = BM25.build(texts, ids=[f"{number:03}" for number in range(200)])
    index.save(tmp_path / "deep" / "index")
    index.save(tmp_path / "deep" / "index")
    assert answers(BM25.load(tmp_path / "deep" / "index"), queries) == answers(index, queries)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["index"]


def test_a_folder_of_something_else_is_kept(tmp_path):
    BM25.build(FRUIT).save(tmp_path / "index")
    with pytest.raises(FileExistsError, match="choose another folder"):
        BM25.build(FRUIT[:2]).save(tmp_path / "index")
    assert len(BM25.load(tmp_path / "index")) == 5


def test_a_missing_cut_or_changed_index_is_refused(tmp_path):
    with pytest.raises(StoredDataError, match="no BM25 index here"):
        BM25.load(tmp_path / "none")
    BM25.build(FRUIT).save(tmp_path / "index")
    file = tmp_path / "index" / "documents.npy"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"\x7f")
    with pytest.raises(StoredDataError, match=r"documents\.npy was changed"):
        BM25.load(tmp_path / "index")
    file.write_bytes(content[:-1])
    with pytest.raises(StoredDataError, match=r"documents\.npy is missing or truncated"):
        BM25.load(tmp_path / "index")


def test_another_version_is_refused(tmp_path, monkeypatch):
    BM25.build(FRUIT).save(tmp_path / "index")
    monkeypatch.setattr(bm25, "_VERSION", 99)
    with pytest.raises(StoredDataError, match="version 1, not a BM25 index of version 99"):
        BM25.load(tmp_path / "index")


def test_threads_share_an_index():
    index, queries = BM25.build(made_texts(500)), made_texts(50, seed=1)
    alone = answers(index, queries)
    with ThreadPoolExecutor(8) as pool:
        assert all(each == alone for each in pool.map(lambda _: answers(index, queries), range(16)))


def build_and_search(folder):
    """Builds, saves and opens an index, like simultaneous processes of a cluster."""
    BM25.build(made_texts(300)).save(folder)
    return answers(BM25.load(folder), made_texts(5, seed=1))


def test_processes_may_build_the_same_index_at_once(tmp_path):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        first, *others = pool.map(build_and_search, [tmp_path / "index"] * 3)
    assert all(other == first for other in others)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def webshop_text(product):
    """The text of a product in the original shop's index."""
    bullets = product["small_description"]
    groups = {
        name.lower(): [value["value"].strip().replace("/", " | ").lower() for value in values]
        for name, values in (product["customization_options"] or {}).items()
        if values is not None
    }
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in groups.items())
    bullet = bullets if isinstance(bullets, str) else bullets[0] if bullets else ""
    return " ".join([product["name"], product["full_description"], bullet, options]).lower()


@pytest.mark.skipif(not WEBSHOP.exists(), reason="needs the recordings in ../shared/data/webshop")
def test_the_shop_finds_what_lucene_found():
    with gzip.open(WEBSHOP / "catalog_1000.jsonl.gz", "rt") as file:
        products = [json.loads(line) for line in file]
    ids = [product["asin"] for product in products]
    index = BM25.build(map(webshop_text, products), ids)
    for line in (WEBSHOP / "lucene_top50.jsonl").read_text().splitlines():
        recorded = json.loads(line)
        documents, scores = index.search(recorded["query"], 50)
        assert [ids[number] for number in documents] == [asin for asin, _ in recorded["hits"]]
        assert scores.tolist() == pytest.approx([s for _, s in recorded["hits"]], abs=1e-3)
