"""The command that serves a retriever, as a process."""

import subprocess
import sys

import httpx
import pytest

from tests.cli.calls import refused
from trca.envs.retrieval.http import HttpRetriever
from trca.envs.retrieval.indexing import index_corpus
from trca.envs.retrieval.passages import Passage


def start(*arguments):
    command = [sys.executable, "-m", "trca", "serve-retriever", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def index(tmp_path):
    index_corpus(tmp_path / "index", [Passage("a", '"Apple"\nA fruit.')])
    return tmp_path / "index"


def test_a_served_index_is_searched_over_http(index, free_port):
    server = start("bm25", "--index", index, "--port", free_port, "--topk", 1)
    try:
        assert server.stdout.readline() == f"ready: bm25 over {index}\n"
        retriever = HttpRetriever(f"http://127.0.0.1:{free_port}/retrieve")
        [[found]] = retriever.search(["fruit"], 3)
        assert (found.id, found.title) == ("a", "Apple")
        health = httpx.get(f"http://127.0.0.1:{free_port}/health", timeout=300)
        assert health.status_code == 200
    finally:
        server.terminate()
        server.communicate()


def test_an_index_that_is_not_there_ends_the_command(tmp_path, free_port):
    server = start("bm25", "--index", tmp_path / "none", "--port", free_port)
    _, said = server.communicate(timeout=600)
    assert server.returncode == 1
    assert "there is no store of passages here: build" in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["google", "--index", "x"], "choose bm25, lucene"),
        (["bm25"], "Missing option '--index'"),
    ],
)
def test_wrong_arguments_are_named(arguments, problem):
    assert problem in refused("serve-retriever", *arguments)
