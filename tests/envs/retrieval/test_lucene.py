"""Lucene, and its agreement with BM25 in process; in a separate process, for Java."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec

import pytest

from trca.envs.retrieval import lucene
from trca.envs.retrieval.bm25 import BM25Retriever
from trca.envs.retrieval.retriever import RetrievalError, open_retriever


def reason_to_skip():
    """The missing part of Lucene; empty if Lucene is complete."""
    try:
        lucene.preflight()
    except RetrievalError as error:
        return str(error)
    return "" if find_spec("jnius") else "Lucene needs pyjnius"


needs_lucene = pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip() or "-")


def search(folder, queries, limit):
    """Opens the index and searches it, in a process that starts Java."""
    retriever = open_retriever("lucene", index=folder)
    results = retriever.search(queries, limit)
    retriever.close()
    return results


@pytest.fixture(scope="module")
def java():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def index(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lucene") / "index"
    lucene.build_lucene(folder, corpus)
    return folder


@pytest.mark.slow
@needs_lucene
def test_bm25_finds_what_lucene_finds(corpus, questions, index, java):
    ours = BM25Retriever.of(corpus).search(questions, 10)
    theirs = java.submit(search, index, questions, 10).result()
    for mine, real in zip(ours, theirs, strict=True):
        assert [each.id for each in mine] == [each.id for each in real]
        assert [each.contents for each in mine] == [each.contents for each in real]
        assert [e.score for e in mine] == pytest.approx([e.score for e in real], abs=2e-4)


@needs_lucene
def test_odd_queries_are_answered(index, java):
    odd = ["", "the", '("', "zqxj*", " ".join(f"word{number}" for number in range(3000))]
    results = java.submit(search, index, odd, 3).result()
    assert [len(passages) for passages in results] == [0, 0, 0, 0, 3]


@needs_lucene
def test_what_is_no_index_is_named(tmp_path, java):
    with pytest.raises(RetrievalError, match="no Lucene index here"):
        java.submit(search, tmp_path / "none", ["a"], 3).result()
    with pytest.raises(RetrievalError, match="cannot open this index"):
        java.submit(search, tmp_path, ["a"], 3).result()


@needs_lucene
def test_an_index_is_not_overwritten(index):
    with pytest.raises(FileExistsError, match="choose another folder"):
        lucene.build_lucene(index, [])


@needs_lucene
def test_missing_java_is_said_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RetrievalError, match=r"not on the PATH: install Java 11 .* apt-get"):
        lucene.preflight()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RetrievalError, match="not in JAVA_HOME="):
        lucene.preflight()


@needs_lucene
def test_an_old_java_is_refused(monkeypatch, tmp_path):
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(RetrievalError, match=r'too old for anserini.*version "1.8.0_292".*Java 11'):
        lucene.preflight()


def test_a_missing_jar_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setattr(lucene, "find_spec", lambda name: None)
    with pytest.raises(RetrievalError, match="pip install --no-deps pyserini"):
        lucene.preflight()
