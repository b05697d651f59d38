"""The retrieval server: requests by the client and by hand, simultaneous, invalid and early."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.envs.retrieval.servers import serving
from trca.envs.retrieval import server as server_module
from trca.envs.retrieval.bm25 import BM25Retriever
from trca.envs.retrieval.http import HttpRetriever
from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import RetrievalError
from trca.envs.retrieval.server import create_app

FRUIT = [Passage(f"p{number}", f'"Apple {number}"\nan apple') for number in range(10)]
CLIENT = httpx.Client(timeout=600, limits=httpx.Limits(max_keepalive_connections=0))


def until_ready(base):
    """Waits for the server's index, like a user's script."""
    while (reply := CLIENT.get(f"{base}/health")).status_code == 503:
        pass
    return reply


def until_waiting(base, count):
    """Waits until the server has this number of queries without reply."""
    while CLIENT.get(f"{base}/health").json()["waiting"] < count:
        pass


class Recording:
    """A retriever that records its queries. The first search blocks until released."""

    def __init__(self):
        self.retriever = BM25Retriever.of(FRUIT)
        self.asked = []
        self.searching, self.go = threading.Event(), threading.Event()

    def search(self, queries, limit):
        self.asked.append(list(queries))
        self.searching.set()
        assert self.go.wait(300)
        if "poison" in queries:
            raise RetrievalError("cannot swallow this")
        return self.retriever.search(queries, limit)

    def close(self):
        self.asked.append("closed")


@pytest.fixture(scope="module")
def base():
    with serving(create_app(lambda: BM25Retriever.of(FRUIT))) as url:
        assert until_ready(url).json() == {"status": "ready", "waiting": 0}
        yield url


def ask(base, **body):
    return CLIENT.post(f"{base}/retrieve", json=body)


@pytest.mark.parametrize("shape", ["batch", "single"])
def test_our_client_gets_what_the_retriever_finds(base, shape):
    client = HttpRetriever(f"{base}/retrieve", shape=shape)
    queries = ["apple 7", "stone", "apple"]
    assert client.search(queries, 4) == BM25Retriever.of(FRUIT).search(queries, 4)


def test_more_queries_than_a_request_takes_are_asked_in_portions(base):
    queries = [f"apple {number % 10}" for number in range(server_module.MOST_QUERIES + 1)]
    results = HttpRetriever(f"{base}/retrieve").search(queries, 1)
    assert [passages[0].id for passages in results] == [f"p{n % 10}" for n in range(len(queries))]


def test_both_shapes_are_answered_as_asked(base):
    [[hit]] = ask(base, queries=["apple 7"], topk=1, return_scores=True).json()["result"]
    assert hit["document"] == {"id": "p7", "contents": FRUIT[7].contents}
    assert ask(base, queries=["apple 7"], topk=1).json()["result"] == [[hit["document"]]]
    assert ask(base, query="apple 7", topk=1).json()["result"] == [hit["document"]]
    assert len(ask(base, query="apple").json()["result"]) == 3
    assert ask(base, queries=[]).json()["result"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"queries": "apple"},
        {"queries": [1]},
        {"query": None},
        {"query": "x", "topk": 0},
        {"query": "x", "topk": 10**6},
        {"queries": ["x"] * (server_module.MOST_QUERIES + 1)},
        {"query": "x" * (server_module.LONGEST_QUERY + 1)},
    ],
)
def test_bad_requests_are_refused_with_the_reason(base, body):
    reply = ask(base, **body)
    assert reply.status_code == 422
    assert reply.json()["detail"][0]["msg"]


def test_what_is_no_json_or_too_large_is_refused(base, monkeypatch):
    assert CLIENT.post(f"{base}/retrieve", content=b"{oops").status_code == 422
    monkeypatch.setattr(server_module, "LARGEST_BODY", 1000)
    reply = CLIENT.post(f"{base}/retrieve", content=b"x" * 2000)
    assert reply.status_code == 413
    assert "1000 bytes" in reply.text


def test_health_waits_for_the_index():
    go = threading.Event()

    def load():
        assert go.wait(300)
        return BM25Retriever.of(FRUIT)

    with serving(create_app(load)) as base:
        assert CLIENT.get(f"{base}/health").status_code == 503
        assert ask(base, query="apple").status_code == 503
        go.set()
        assert until_ready(base).status_code == 200
        assert ask(base, query="apple").status_code == 200


def test_an_index_that_cannot_be_opened_is_said():
    def load():
        raise RetrievalError("the folder is gone")

    with serving(create_app(load)) as base:
        reply = until_ready(base)
    assert reply.status_code == 500
    assert "the folder is gone" in reply.text


def test_concurrent_requests_are_searched_together():
    retriever = Recording()
    with serving(create_app(lambda: retriever)) as base, ThreadPoolExecutor(9) as pool:
        until_ready(base)
        first = pool.submit(ask, base, query="apple 0", topk=1)
        assert retriever.searching.wait(300)
        others = [pool.submit(ask, base, query=f"apple {n}", topk=n) for n in range(1, 9)]
        until_waiting(base, 9)
        retriever.go.set()
        assert first.result().json()["result"][0]["id"] == "p0"
        for number, other in enumerate(others, 1):
            documents = other.result().json()["result"]
            assert documents[0]["id"] == f"p{number}"
            assert len(documents) == number
    assert [len(asked) for asked in retriever.asked[:-1]] == [1, 8]
    assert retriever.asked[-1] == "closed"


def test_a_failing_query_fails_alone():
    retriever = Recording()
    with serving(create_app(lambda: retriever)) as base, ThreadPoolExecutor(4) as pool:
        until_ready(base)
        first = pool.submit(ask, base, query="apple 0")
        assert retriever.searching.wait(300)
        good, bad = (pool.submit(ask, base, query=query) for query in ("apple 1", "poison"))
        until_waiting(base, 3)
        retriever.go.set()
        assert first.result().status_code == good.result().status_code == 200
        assert bad.result().status_code == 502
        assert "cannot swallow this" in bad.result().text


def test_too_many_waiting_queries_are_sent_away(monkeypatch):
    monkeypatch.setattr(server_module, "MOST_WAITING", 2)
    retriever = Recording()
    with serving(create_app(lambda: retriever)) as base, ThreadPoolExecutor(2) as pool:
        until_ready(base)
        first = pool.submit(ask, base, queries=["a", "b"])
        assert retriever.searching.wait(300)
        reply = ask(base, query="c")
        assert reply.status_code == 503
        assert reply.headers["Retry-After"] == "1"
        retriever.go.set()
        assert first.result().status_code == 200


def test_a_server_killed_and_restarted_is_found_again(free_port):
    client = HttpRetriever(f"http://127.0.0.1:{free_port}/retrieve", pause=0.01, cooldown=0.0)
    for _ in range(2):
        with serving(create_app(lambda: BM25Retriever.of(FRUIT)), free_port) as base:
            until_ready(base)
            assert len(client.search(["apple"], 3)[0]) == 3
        with pytest.raises(RetrievalError):
            client.search(["apple"], 3)
