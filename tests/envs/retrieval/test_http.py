"""The HTTP client: both request formats, and servers that fail, lie or are slow."""

import json

import pytest

import trca.envs.retrieval.http as module
from tests.envs.retrieval.servers import dripping, http, replying
from trca.envs.retrieval.http import HttpRetriever
from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import RetrievalError, open_retriever
from trca.envs.retrieval.wire import ReplyError, read_reply

HIT = {"document": {"id": "7", "contents": '"T"\ntext'}, "score": 1.5}
FOUND = Passage("7", '"T"\ntext', 1.5)
GOOD = http(json.dumps({"result": [[HIT]]}))
GZIP = http("no gzip").replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n", 1)
BROKEN = http("oops", "500 Internal Server Error")


def client(*urls, **options):
    return HttpRetriever(urls, **{"pause": 0.01, "timeout": 60.0, **options})


def test_a_batch_is_asked_as_search_r1_does():
    with replying(http(json.dumps({"result": [[HIT, HIT], []]}))) as (url, requests):
        retriever = open_retriever("http", urls=url)
        assert retriever.search(["a", "b"], 1) == [[FOUND], []]
    body = json.loads(requests[0].partition(b"\r\n\r\n")[2])
    assert body == {"queries": ["a", "b"], "topk": 1, "return_scores": True}


def test_single_queries_are_asked_as_verl_agent_does():
    replies = [http(json.dumps({"result": result})) for result in ([HIT], [])]
    with replying(*replies) as (url, requests):
        asking = client(url, shape="single")
        assert [asking.search([query], 3) for query in "ab"] == [[[FOUND]], [[]]]
    bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in requests]
    assert [body["query"] for body in bodies] == ["a", "b"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"contents": "plain"}, Passage("", "plain")),
        ({"id": 3, "title": "T", "text": "x"}, Passage("3", '"T"\nx')),
        ({"text": "x"}, Passage("", "x")),
        ({"document": {"contents": "x"}, "score": 2}, Passage("", "x", 2.0)),
    ],
)
def test_documents_are_read_as_servers_send_them(document, expected):
    assert read_reply({"result": [[document]]}, 1, "batch") == [[expected]]
    assert read_reply({"result": [document]}, 1, "single") == [[expected]]
    assert read_reply({"result": [[document]]}, 1, "single") == [[expected]]


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        {"error": "x"},
        {"result": "x"},
        {"result": [[], []]},
        {"result": [None]},
        {"result": [["x"]]},
        {"result": [[{"document": {"title": "x"}}]]},
        {"result": [[{"document": {"contents": "x"}, "score": "high"}]]},
    ],
)
def test_what_is_no_reply_is_refused(reply):
    with pytest.raises(ReplyError, match="expected"):
        read_reply(reply, 1, "batch")


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(BROKEN, id="error"),
        pytest.param(http("<html>Bad gateway</html>"), id="html"),
        pytest.param(http('{"result": [[{"docu'), id="truncated JSON"),
        pytest.param(http('{"result"', length=500), id="cut off"),
        pytest.param(b"", id="closed"),
        pytest.param(http("slow down", "429 Too Many Requests"), id="busy"),
        pytest.param(http('{"result": []}'), id="wrong number"),
        pytest.param(http("[" * 100_000), id="nested"),
        pytest.param(http(json.dumps({"result": [[{**HIT, "score": 10**400}]]})), id="score"),
        pytest.param(GZIP, id="gzip"),
    ],
)
def test_a_bad_reply_is_asked_for_again_and_never_an_empty_result(bad):
    with replying(bad, bad, GOOD) as (url, requests):
        assert client(url).search(["a"], 3) == [[FOUND]]
        assert len(requests) == 3
    with replying(bad) as (url, requests):
        with pytest.raises(RetrievalError, match=r"no answer in 4 attempts: http"):
            client(url).search(["a"], 3)
        assert len(requests) == 4


def test_a_refusal_is_not_asked_for_again():
    with replying(http('{"detail": "topk"}', "422 Unprocessable")) as (url, requests):
        with pytest.raises(RetrievalError, match=r"refuses the request: HTTP 422.*topk"):
            client(url).search(["a"], 3)
        assert len(requests) == 1


def test_a_server_that_is_too_slow_is_given_up():
    with (
        replying(None) as (url, _),
        pytest.raises(RetrievalError, match=r"in 2 attempts: .*ReadTimeout"),
    ):
        client(url, timeout=0.05, attempts=2).search(["a"], 3)


def test_a_server_that_drips_or_floods_is_given_up(monkeypatch):
    body = b"x" * 3_000_000
    flood = b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + body
    monkeypatch.setattr(module, "_LONGEST_REPLY", 1 << 20)
    with (
        replying(flood) as (url, _),
        pytest.raises(RetrievalError, match="the reply has over 1 MiB"),
    ):
        client(url, attempts=1).search(["a"], 3)
    with (
        dripping() as url,
        pytest.raises(RetrievalError, match=r"the reply took over 2 s"),
    ):
        client(url, timeout=2.0, attempts=1).search(["a"], 3)


def test_a_dead_server_is_an_error(free_port):
    url = f"http://127.0.0.1:{free_port}/retrieve"
    with pytest.raises(RetrievalError, match="ConnectError"):
        client(url).search(["a"], 3)


def test_servers_take_turns():
    with replying(GOOD) as (first, asked_first), replying(GOOD) as (second, asked_second):
        retriever = client(first, second)
        for _ in range(6):
            retriever.search(["a"], 3)
        assert (len(asked_first), len(asked_second)) == (3, 3)


def test_one_dead_server_of_two_costs_nothing_for_long():
    with replying(BROKEN) as (bad, asked_bad), replying(GOOD) as (good, asked_good):
        retriever = client(bad, good, cooldown=1000)
        for _ in range(20):
            assert retriever.search(["a"], 3) == [[FOUND]]
        assert (len(asked_bad), len(asked_good)) == (5, 20)


def test_a_dead_server_is_left_alone_then_tried_once():
    with replying(*[BROKEN] * 6, GOOD) as (url, requests):
        retriever = client(url, cooldown=1000, attempts=1)
        for _ in range(5):
            with pytest.raises(RetrievalError, match="HTTP 500"):
                retriever.search(["a"], 3)
        for _ in range(3):
            with pytest.raises(RetrievalError, match=r"no retrieval server is left \(http"):
                retriever.search(["a"], 3)
        assert len(requests) == 5
        retriever._cooldown = 0.0
        retriever._servers[0].closed_until = 0.0
        with pytest.raises(RetrievalError, match="HTTP 500"):
            retriever.search(["a"], 3)
        for _ in range(3):
            assert retriever.search(["a"], 3) == [[FOUND]]
        assert len(requests) == 9


def test_no_queries_are_no_request(free_port):
    assert client(f"http://127.0.0.1:{free_port}").search([], 3) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"urls": []}, "needs a URL"), ({"urls": "x", "shape": "tree"}, "choose batch, single")],
)
def test_wrong_options_are_named(options, problem):
    with pytest.raises(ValueError, match=problem):
        open_retriever("http", **options)
