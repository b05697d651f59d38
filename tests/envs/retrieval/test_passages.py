"""Passages: read from files, stored in folders, and retrieved."""

import gzip
import json
import lzma

import pytest

from trca.envs.retrieval.bm25 import BM25, BM25Retriever
from trca.envs.retrieval.passages import (
    CorpusError,
    Passage,
    StoredPassages,
    read_corpus,
    store_passages,
)
from trca.envs.retrieval.retriever import RETRIEVERS, open_retriever

FRUIT = [
    Passage("b", '"Apple"\nAn apple is a fruit.'),
    Passage("a", '"Pear"\nA pear is a fruit too.'),
    Passage("é", "No title \ud800"),
]


def test_contents_are_title_and_text():
    assert (FRUIT[0].title, FRUIT[0].text) == ("Apple", "An apple is a fruit.")
    assert (FRUIT[2].title, FRUIT[2].text) == ("", "No title \ud800")


def test_stored_passages_are_the_same(tmp_path):
    store_passages(tmp_path / "fruit", iter(FRUIT))
    stored = StoredPassages(tmp_path / "fruit")
    assert list(stored) == FRUIT
    assert stored[-1] == FRUIT[-1]
    assert stored[1:] == FRUIT[1:]
    with pytest.raises(IndexError):
        stored[3]


def test_no_passages_are_stored_too(tmp_path):
    store_passages(tmp_path / "none", [])
    assert list(StoredPassages(tmp_path / "none")) == []


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_a_corpus_is_read_compressed_or_not(tmp_path, suffix, opener):
    path = tmp_path / f"corpus.jsonl{suffix}"
    with opener(path, "wt") as file:
        for passage in FRUIT:
            file.write(json.dumps({"id": passage.id, "contents": passage.contents}) + "\n")
    assert list(read_corpus(path)) == FRUIT


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{broken", "not JSON"),
        ("", "not JSON"),
        ("[1]", "found list"),
        ('{"id": 1, "text": "x"}', "found id, text"),
        ('{"id": 1, "contents": null}', "expected"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path, line, problem):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": 1, "contents": "fine"}\n' + line + "\n")
    with pytest.raises(CorpusError, match=rf"corpus\.jsonl:2: .*{problem}"):
        list(read_corpus(path))


def test_bm25_finds_passages_with_scores():
    [passages, nothing] = BM25Retriever.of(FRUIT).search(["an apple", "stone"], 3)
    assert [passage.id for passage in passages] == ["b"]
    assert passages[0].contents == FRUIT[0].contents
    assert passages[0].score > 0
    assert nothing == []


def test_an_index_is_opened_once_a_process(tmp_path):
    store_passages(tmp_path / "passages", FRUIT)
    BM25.build([passage.contents for passage in FRUIT]).save(tmp_path / "bm25")
    retriever = open_retriever("bm25", index=str(tmp_path))
    assert [passage.id for passage in retriever.search(["fruit"], 5)[0]] == ["b", "a"]
    assert open_retriever("bm25", index=tmp_path) is retriever


def test_unknown_retrievers_are_told_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown retriever 'google': choose bm25, lucene"):
        open_retriever("google")
    with pytest.raises(ValueError, match=r"'path'.*the bm25 retriever takes index"):
        open_retriever("bm25", index="x", path="x")
    assert RETRIEVERS[0] == "bm25"


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:20] + b"?" * 99])
def test_a_broken_compressed_corpus_is_named(tmp_path, suffix, pack, damage):
    lines = [json.dumps({"id": str(k), "contents": f"title {k}\ntext"}) for k in range(500)]
    path = tmp_path / f"corpus.jsonl{suffix}"
    path.write_bytes(damage(pack("\n".join(lines).encode())))
    with pytest.raises(CorpusError, match=f"corpus.jsonl{suffix}:.*broken or truncated"):
        list(read_corpus(path))
