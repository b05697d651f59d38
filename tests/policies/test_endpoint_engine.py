"""The engine of an endpoint: text in the shape of ids, bounded, and many requests at once."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.common.test_chat_endpoint import body, reply
from tests.envs.retrieval.servers import replying, serving
from trca.common.chat_endpoint import Answer, Usage
from trca.envs.responses import ACTION_FORMAT
from trca.envs.searchqa.search_r1 import SEARCH_R1_FORMAT, SEARCH_R1_GROWING_FORMAT
from trca.policies.agents.react import REACT_FORMAT
from trca.policies.engines import ENGINES
from trca.policies.engines.endpoint import byte_tokenizer
from trca.policies.engines.engine import EngineSpec, Request, SamplingParams
from trca.policies.prompts import Prompter
from trca.policies.spans import read_response

SAMPLING = SamplingParams(0.5, 8, stop=("</action>", "\nObservation"))


def request(text, seed=3):
    return Request(np.frombuffer(text.encode(), np.uint8).astype(np.int32), seed)


def complete(*replies, sampling=SAMPLING, **options):
    with replying(*replies) as (url, requests):
        engine = ENGINES.get("openai").open(EngineSpec("m", options={"base_url": url, **options}))
        completion = engine.submit(request("né?", 2**40 + 3), sampling).result()
        engine.close()
    return completion, body(requests[0]), engine


@given(st.text())
def test_ids_are_the_bytes_of_any_text(text):
    tokenizer = byte_tokenizer()
    ids = tokenizer.backend_tokenizer.encode(text).ids
    assert bytes(ids) == text.encode()
    assert tokenizer.decode(ids) == text
    assert read_response(ids, tokenizer).text == text


def test_a_completion_is_what_the_endpoint_wrote():
    counts = {"prompt_tokens": 4, "completion_tokens": 5}
    completion, asked, engine = complete(reply("<action>gö</action> and", usage=counts))
    assert bytes(completion.ids.tolist()).decode() == "<action>gö</action>"
    assert (completion.finish_reason, completion.version) == ("stop", 0)
    assert np.isnan(completion.logprobs).all()
    assert completion.logprobs.shape == completion.ids.shape
    assert asked == {
        "model": "m",
        "messages": [{"role": "user", "content": "né?"}],
        "temperature": 0.5,
        "max_tokens": 8,
        "seed": 3,
    }
    assert engine.usage == Usage(requests=1, prompt_tokens=4, completion_tokens=5)


def test_the_first_stop_string_ends_an_answer():
    completion, _, _ = complete(reply("a\nObservation 2: b <action>c</action>"))
    assert bytes(completion.ids.tolist()) == b"a\nObservation"


THOUGHTS = [
    (ACTION_FORMAT, "<think>not <action>help</action>.</think>\n<action>look</action> x", "look"),
    (ACTION_FORMAT, "I must close </action>.\n</think><action>look</action>", "look"),
    (
        ACTION_FORMAT,
        "<think>a</think><think><action>b</action></think><action>look</action>",
        "look",
    ),
    (ACTION_FORMAT, "<think>I could write <action>help</action>", ""),
    (ACTION_FORMAT, "<action>look</action><think>or <action>help</action></think>", "look"),
    (REACT_FORMAT, "<think>\nAction: help\nObservation 1</think>\nAction: look", "look"),
    (SEARCH_R1_FORMAT, "<think>a </search></think><search>Ada</search>", "search[Ada]"),
    (SEARCH_R1_GROWING_FORMAT, "so <answer>x</answer>.</think><search>Ada</search>", "search[Ada]"),
]


@pytest.mark.parametrize(("response_format", "text", "action"), THOUGHTS)
def test_the_action_follows_the_thought_of_a_reasoning_model(response_format, text, action):
    sampling = SamplingParams(0.5, 99, stop=response_format.stop)
    completion, _, _ = complete(reply(text), sampling=sampling)
    assert read_response(completion.ids, byte_tokenizer(), response_format).action == action
    written = bytes(completion.ids.tolist()).decode()
    assert text.startswith(written)
    assert Prompter(byte_tokenizer()).thought == "unknown"


def test_an_answer_that_ignores_its_limit_is_cut():
    completion, _, _ = complete(reply("é" * 1000))
    assert len(completion.ids) == 16 * 8
    assert completion.finish_reason == "length"


def test_other_readers_of_an_answer_read_after_the_thought():
    for text in ("<think>a {</think>{}", "a {</think>{}", "{}"):
        assert Answer(text, "stop").after_thought == "{}"


def test_half_a_character_of_json_is_no_error():
    completion, _, _ = complete(reply("a\ud800"))
    assert bytes(completion.ids.tolist()) == b"a?"


def test_fields_of_a_request_can_be_set_and_left_out():
    _, asked, _ = complete(
        reply(), request={"max_tokens": None, "max_completion_tokens": 99, "seed": None}
    )
    assert asked["max_completion_tokens"] == 99
    assert not {"max_tokens", "seed"} & asked.keys()


def test_requests_are_under_way_at_once_and_no_more_than_allowed():
    under_way, most, lock = 0, [], threading.Lock()
    together = threading.Barrier(3)

    async def app(scope, receive, send):
        nonlocal under_way
        if scope["type"] == "lifespan":
            return
        import asyncio

        under_way += 1
        most.append(under_way)
        await asyncio.to_thread(together.wait, 300)
        with lock:
            under_way -= 1
        content = reply("ok").partition(b"\r\n\r\n")[2]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": content})

    with serving(app) as url:
        options = {"base_url": url, "concurrency": 3}
        engine = ENGINES.get("openai").open(EngineSpec("m", options=options))
        futures = [engine.submit(request(str(k)), SAMPLING) for k in range(9)]
        assert {bytes(f.result(300).ids.tolist()) for f in futures} == {b"ok"}
        engine.close()
    assert max(most) == 3


def test_wrong_options_and_pushed_weights_are_refused():
    with pytest.raises(ValueError, match=r"needs engine_config\.base_url"):
        ENGINES.get("openai").open(EngineSpec("m"))
    with pytest.raises(ValueError, match="unexpected keyword argument 'speed'"):
        ENGINES.get("openai").open(EngineSpec("m", options={"base_url": "http://a.b", "speed": 1}))
    engine = ENGINES.get("openai").open(EngineSpec("m", options={"base_url": "http://a.b"}))
    with pytest.raises(RuntimeError, match="weights of EndpointEngine cannot be set"):
        engine.load_weights({}, 1)
