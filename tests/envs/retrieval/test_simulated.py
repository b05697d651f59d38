"""ZeroSearch's engine: its curriculum, its prompt, and a real server with a tiny model."""

import json

import pytest

from tests.envs.retrieval.openai_server import MODEL, create_app
from tests.envs.retrieval.servers import http, replying, serving
from trca.envs.retrieval.retriever import RetrievalError, open_retriever
from trca.envs.retrieval.simulated import documents, noise_share


@pytest.fixture(scope="module")
def asked():
    return []


@pytest.fixture(scope="module")
def engine(asked):
    with serving(create_app(asked)) as base:
        retriever = open_retriever("simulated", url=f"{base}/v1", model=MODEL)
        yield retriever
        retriever.close()


def chat(content):
    """A raw reply with the text of a model."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    return http(json.dumps({**reply, "choices": [choice]}))


def test_noise_grows_from_start_to_end():
    assert noise_share(0, 0.1, 0.5) == pytest.approx(0.1)
    assert noise_share(0.5, 0, 0.5) == pytest.approx(1 / 6)
    assert noise_share(1, 0, 0.5) == pytest.approx(0.5)


@pytest.mark.parametrize("noise", [0.5, [0.1], (0.1, 0.2, 0.3), (0.5, 2.0)])
def test_noise_is_two_probabilities(noise):
    with pytest.raises(ValueError, match="give two probabilities from 0 to 1"):
        open_retriever("simulated", url="http://x/v1", model="m", noise=noise)


def test_a_model_invents_passages(engine):
    [first, second] = engine.search(["who wrote Emma", "red apple"], 2)
    assert 1 <= len(first) <= 2
    assert all(passage.contents for passage in first + second)
    assert engine.search(["who wrote Emma"], 2) == [first]
    assert engine.search([], 2) == []


def test_the_model_is_told_the_question_and_its_answer(engine, asked):
    asked.clear()
    engine.about("Who wrote Emma?", ["Jane Austen", "Austen"], 0.0, seed=1).search(["emma"], 5)
    prompt = asked[0].messages[0].content
    assert "answer the question: Who wrote Emma? whose answer is Jane Austen or Austen." in prompt
    assert "generate 5 useful documents" in prompt
    assert prompt.endswith("Query: emma\nUseful Output:\n")


def test_without_being_told_it_knows_only_the_query(engine, asked):
    asked.clear()
    engine.search(["emma"], 5)
    assert "whose answer is" not in asked[0].messages[0].content


def test_noise_comes_at_its_share_and_again_for_the_same_seed():
    queries = [f"query {number}" for number in range(20)]

    def noisy(progress, seed):
        with replying(chat("Doc 1: fine")) as (url, requests):
            engine = open_retriever("simulated", url=url, model="m", noise=(0.0, 1.0))
            engine.about("Q?", ["A"], progress, seed).search(queries, 1)
            bodies = (json.loads(request.partition(b"\r\n\r\n")[2]) for request in requests)
            prompts = [body["messages"][0]["content"] for body in bodies]
        return {p.splitlines()[-2] for p in prompts if p.endswith("Noisy Output:\n")}

    half = noisy(0.66, seed=1)
    assert 3 <= len(half) <= 17
    assert noisy(0.66, seed=1) == half
    assert noisy(0.66, seed=2) != half
    assert len(noisy(1.0, seed=1)) == 20
    assert noisy(0.0, seed=1) == set()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Doc 1: one.\nDoc 2: two.\n", ["one.", "two."]),
        ("Sure!\n\nDocument 1. one\nmore\n\n**Doc 2:** two", ["one more", "two"]),
        ("1. one\n2) two\n[3] three", ["one", "two", "three"]),
        ("Doc 1\nbelow\nDoc 2\nbelow too", ["below", "below too"]),
        ("no numbers\n\nat all", ["no numbers", "at all"]),
        ("In 1999 it was so.", ["In 1999 it was so."]),
        (" \n", []),
    ],
)
def test_documents_are_taken_out_of_what_was_written(written, expected):
    assert [passage.contents for passage in documents(written)] == expected


@pytest.mark.parametrize("bad", [http("oops", "500 Internal Server Error"), b""])
def test_a_failing_server_is_asked_again(bad):
    with replying(bad, chat("Doc 1: fine")) as (url, requests):
        engine = open_retriever("simulated", url=url, model="m", attempts=2)
        assert [passage.contents for passage in engine.search(["q"], 3)[0]] == ["fine"]
        assert len(requests) == 2


@pytest.mark.parametrize("bad", ["<html>", "{", "{}", '{"choices": []}', "null"])
def test_what_is_no_completion_is_an_error(bad):
    with (
        replying(http(bad)) as (url, _),
        pytest.raises(RetrievalError, match="gave no completion"),
    ):
        open_retriever("simulated", url=url, model="m", attempts=1).search(["q"], 3)


def test_a_model_that_writes_nothing_is_an_error():
    with (
        replying(chat(" ")) as (url, _),
        pytest.raises(RetrievalError, match="m wrote no documents"),
    ):
        open_retriever("simulated", url=url, model="m").search(["q"], 3)


def test_a_dead_endpoint_is_an_error(free_port):
    url = f"http://127.0.0.1:{free_port}/v1"
    with pytest.raises(RetrievalError, match="Connection error"):
        open_retriever("simulated", url=url, model="m", attempts=1).search(["q"], 3)


def test_what_is_missing_or_wrong_is_said(monkeypatch):
    with pytest.raises(ValueError, match="give two probabilities from 0 to 1"):
        open_retriever("simulated", url="x", model="m", noise=(0, 2))
    monkeypatch.setattr("trca.common.extras.find_spec", lambda name: None)
    with pytest.raises(RetrievalError, match="pip install '"):
        open_retriever("simulated", url="x", model="m")
