"""The client of a chat endpoint against a real socket: retries, errors and hidden keys."""

import json

import pytest

from tests.envs.retrieval.servers import http, replying
from trca.common.chat_endpoint import KEY_VARIABLE, ChatEndpoint, EndpointError, Usage

KEY = "sk-very-secret-01"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)


def reply(content="fine", finish_reason="stop", **more):
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    return http(json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], **more}))


def limited(after):
    return http("slow down", f"429 Too Many Requests\r\nRetry-After: {after}")


def asked(*replies, attempts=1, timeout=10.0):
    """The answer or the error message, and the requests."""
    answer, _, requests = counted(*replies, attempts=attempts, timeout=timeout)
    return answer, requests


def counted(*replies, attempts=1, timeout=10.0):
    """The answer or the error message, the usage, and the requests."""
    with (
        replying(*replies) as (url, requests),
        ChatEndpoint(url, "m", attempts=attempts, timeout=timeout) as endpoint,
    ):
        try:
            answer = endpoint.ask("Hello?", max_tokens=5, seed=None)
        except EndpointError as error:
            answer = str(error).replace(url, "URL")
        return answer, endpoint.usage, requests


def body(request):
    return json.loads(request.partition(b"\r\n\r\n")[2])


def test_one_message_is_sent_and_answered():
    reported = {"prompt_tokens": 7, "completion_tokens": 2}
    answer, usage, [request] = counted(reply(usage=reported))
    assert (answer.text, answer.finish_reason) == ("fine", "stop")
    assert usage == Usage(requests=1, prompt_tokens=7, completion_tokens=2)
    assert body(request) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello?"}],
        "max_tokens": 5,
    }
    assert f"Bearer {KEY}" in request.decode()


@pytest.mark.parametrize(
    "usage", [None, {}, [], {"prompt_tokens": -1, "completion_tokens": 2}, {"prompt_tokens": "7"}]
)
def test_unreported_tokens_are_counted_as_unreported(usage):
    _, used, _ = counted(reply(usage=usage))
    assert used == Usage(requests=1, uncounted=1)


def test_tokens_of_a_refused_answer_are_counted_for_they_are_billed():
    reported = {"prompt_tokens": 100, "completion_tokens": 1}
    _, used, _ = counted(reply("", "content_filter", usage=reported))
    assert used == Usage(failures=1, prompt_tokens=100, completion_tokens=1)


def test_a_cost_is_tokens_times_the_prices_of_a_million():
    usage = Usage(prompt_tokens=2_000_000, completion_tokens=500_000)
    assert usage.cost(2.5, 10.0) == pytest.approx(10.0)


def test_nothing_and_a_limit_are_answers():
    answer, _ = asked(reply(None, "length"))
    assert (answer.text, answer.finish_reason) == ("", "length")


@pytest.mark.parametrize("bad", [limited("0.01"), http("oops", "503 Unavailable"), b""])
def test_temporary_failures_are_retried(bad):
    answer, used, requests = counted(bad, reply(), attempts=2)
    assert (answer.text, used.retries, len(requests)) == ("fine", 1, 2)


def test_a_rate_limit_that_takes_too_long_is_an_error_at_once():
    answer, requests = asked(limited(86_400), reply(), attempts=4)
    assert answer == "URL: HTTP 429: slow down"
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (http("<html>sorry</html>"), "this is not JSON: <html>sorry</html>"),
        (http('{"choices"'), "this is not JSON"),
        (http("[" * 100_000), "this is not JSON"),
        (http("{}"), "this is not a completion: {}"),
        (http("null"), "this is not a completion: None"),
        (http('{"choices": []}'), "this is not a completion"),
        (http('{"choices": [7]}'), "this is not a completion"),
        (http('{"choices": [{"message": null}]}'), "this is not a completion"),
        (reply(["fine"]), "this is not a completion"),
        (reply("", "content_filter"), "this is not a completion"),
        (reply("x" * (5 << 20)), "the reply is longer than 4194304 bytes"),
        (http("oops", "500 Internal Server Error"), "HTTP 500: oops"),
        (http("half", length=900), "Error"),
        (b"", "Connection error"),
    ],
)
def test_a_reply_without_an_answer_is_an_error(bad, words):
    answer, _ = asked(bad)
    assert answer.startswith("URL: ")
    assert words in answer
    assert len(answer) < 320


def test_a_reply_that_never_comes_is_an_error():
    answer, _ = asked(None, timeout=0.2)
    assert "timed out" in answer.lower()


def test_a_refused_key_is_not_tried_again():
    with replying(http("no", "401 Unauthorized")) as (url, requests):
        endpoint = ChatEndpoint(url, "m")
        for _ in range(3):
            with pytest.raises(EndpointError, match="HTTP 401: no"):
                endpoint.ask("Hello?")
        assert len(requests) == 1


@pytest.mark.parametrize("status", ["403 Forbidden", "404 Not Found"])
def test_a_refusal_is_for_good_only_before_the_first_answer(status):
    with replying(reply(), http("no", status), reply()) as (url, requests):
        endpoint = ChatEndpoint(url, "m")
        assert endpoint.ask("Hello?").text == "fine"
        with pytest.raises(EndpointError, match=status[:3]):
            endpoint.ask("Something that is moderated")
        assert endpoint.ask("Hello?").text == "fine"
    with replying(http("no", status), reply()) as (url, requests):
        endpoint = ChatEndpoint(url, "m")
        for _ in range(2):
            with pytest.raises(EndpointError, match=status[:3]):
                endpoint.ask("Hello?")
        assert len(requests) == 1


def test_a_key_that_the_endpoint_repeats_is_hidden():
    answer, _ = asked(reply(f"You are {KEY}."))
    assert answer.text == "You are ***."
    answer, _ = asked(http(f"bad key {KEY}", "401 Unauthorized"))
    assert answer == "URL: HTTP 401: bad key ***"
    answer, _ = asked(http(json.dumps({"authorization": KEY})))
    assert "'authorization': '***'" in answer


def test_a_short_key_for_a_local_server_does_not_rewrite_answers(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "key")
    answer, _ = asked(reply("take key 1 from desk 1"))
    assert answer.text == "take key 1 from desk 1"
    answer, _ = asked(http("bad key", "401 Unauthorized"))
    assert answer == "URL: HTTP 401: bad ***"


def test_a_key_out_of_a_file_loses_its_line_end_and_another_is_refused_unseen(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, f"{KEY}\r\n")
    answer, [request] = asked(reply())
    assert answer.text == "fine"
    assert f"Bearer {KEY}\r\n" in request.decode()
    for odd in (f"{KEY}\n{KEY}", f"{KEY}\x07", f"{KEY}\u20ac"):
        with pytest.raises(EndpointError, match=f"the key in {KEY_VARIABLE}") as error:
            ChatEndpoint("http://127.0.0.1:9/v1", "m", api_key=odd)
        assert KEY not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://a:b/v1",
        "http://a:99999/v1",
        "http://a b/v1",
        "",
        "example.com/v1",
        "ftp://example.com",
        "http://me:pw@example.com/v1",
        "http://a.b/?key=1",
    ],
)
def test_a_url_that_is_none_or_has_a_secret_is_refused(url):
    with pytest.raises(ValueError, match="base URL") as error:
        ChatEndpoint(url, "m")
    assert "pw" not in str(error.value)
    assert "key=1" not in str(error.value)
