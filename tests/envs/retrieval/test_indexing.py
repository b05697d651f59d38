"""Indexing corpora: equal indices for any number of workers and after a resume."""

import pytest

from trca.envs.retrieval import indexing
from trca.envs.retrieval.bm25 import BM25Retriever
from trca.envs.retrieval.indexing import index_corpus


@pytest.fixture(scope="module")
def some(corpus):
    return corpus[-700:]


def finds_the_same(folder, corpus, questions):
    opened = BM25Retriever.open(folder).search(questions, 10)
    return opened == BM25Retriever.of(corpus).search(questions, 10)


def test_an_index_in_a_folder_finds_what_one_in_memory_finds(tmp_path, some, questions):
    index_corpus(tmp_path / "index", iter(some))
    assert finds_the_same(tmp_path / "index", some, questions)
    assert {path.name for path in (tmp_path / "index").iterdir()} == {"passages", "bm25", ".lock"}


def test_workers_change_nothing(tmp_path, some, questions, monkeypatch):
    monkeypatch.setattr(indexing, "BLOCK_SIZE", 200)
    index_corpus(tmp_path, some, workers=2)
    assert finds_the_same(tmp_path, some, questions)


def test_it_tells_how_far_it_is(tmp_path, some, questions, monkeypatch):
    monkeypatch.setattr(indexing, "BLOCK_SIZE", 200)
    progress = []
    index_corpus(tmp_path, some, report=lambda *news: progress.append(news))
    assert finds_the_same(tmp_path, some, questions)
    blocks = -(-len(some) // 200)
    assert progress[0] == ("storing passages", 0, 0)
    assert progress[-2:] == [("indexing blocks", blocks, blocks), ("joining blocks", 0, 0)]


def test_what_was_stopped_goes_on(tmp_path, some, questions, monkeypatch):
    monkeypatch.setattr(indexing, "BLOCK_SIZE", 100)

    def stop(stage, done, total):
        if done == 2 and stage == "indexing blocks":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_corpus(tmp_path, some, report=stop)
    (tmp_path / ".bm25-left").mkdir()
    progress = []
    index_corpus(tmp_path, (), report=lambda *news: progress.append(news))
    assert progress[0][:2] == ("indexing blocks", 2)
    assert finds_the_same(tmp_path, some, questions)
    assert {path.name for path in tmp_path.iterdir()} == {"passages", "bm25", ".lock"}


def test_a_whole_index_is_not_built_again(tmp_path, some):
    index_corpus(tmp_path, some[:10])
    index_corpus(tmp_path, None, report=lambda *news: pytest.fail(f"{news}"))
