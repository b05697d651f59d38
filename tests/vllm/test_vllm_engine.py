"""The vLLM engine samples from its first model, and after a push from the new weights."""

import re
import shutil
import signal
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from transformers import GenerationConfig

from trca.policies.engines import ENGINES
from trca.policies.engines.engine import EngineSpec, Request, SamplingParams
from trca.policies.engines.stops import end_ids
from trca.policies.lora import add_lora
from trca.policies.models import load_model, load_tokenizer
from trca.policies.spans import token_bytes
from trca.policies.weights import export_weights, import_weights

pytest.importorskip("vllm", reason="vLLM is not installed here: make test-vllm")

SAMPLING = SamplingParams(0.7, 24)


def open_vllm(folder, **spec):
    return ENGINES.get("vllm").open(EngineSpec(str(folder), "float32", max_tokens=256, **spec))


@pytest.fixture(scope="module", params=["tied", "untied"])
def folder(request):
    return Path(request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def engine(folder):
    engine = open_vllm(folder)
    yield engine
    engine.close()


def requests(folder, count):
    vocabulary, draw = len(load_tokenizer(str(folder))), np.random.default_rng(3)
    sizes = draw.integers(1, 120, count)
    return [
        Request(draw.integers(0, vocabulary, n).astype(np.int32), 5 + k)
        for k, n in enumerate(sizes)
    ]


def generate(engine, asked, sampling):
    futures = [engine.submit(request, sampling) for request in asked]
    engine.flush()
    return [future.result(timeout=600) for future in futures]


def distance(model, vocabulary, asked, completions):
    """The largest difference from the model's log-probabilities."""
    worst = 0.0
    for request, completion in zip(asked, completions, strict=True):
        ids = torch.tensor([[*request.prompt_ids, *completion.ids]], dtype=torch.long)
        with torch.no_grad():
            logits = model(ids).logits[0, len(request.prompt_ids) - 1 : -1, :vocabulary]
        scores = (logits / SAMPLING.temperature).log_softmax(-1)
        expected = scores[torch.arange(len(completion.ids)), ids[0, len(request.prompt_ids) :]]
        worst = max(worst, float(np.abs(expected.numpy() - completion.logprobs).max()))
    return worst


def moved(model, seed, scale=0.02):
    """The model with clearly different trained weights."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(scale * torch.randn_like(parameter))
    return model


def test_logprobs_are_those_of_the_sampling_distribution(engine, folder):
    asked, vocabulary = requests(folder, 12), len(load_tokenizer(str(folder)))
    completions = generate(engine, asked, SAMPLING)
    assert distance(load_model(str(folder)), vocabulary, asked, completions) < 1e-4
    assert max(len(c.ids) for c in completions) == SAMPLING.max_new_tokens


def test_a_completion_depends_on_its_seed_and_not_on_its_company(engine, folder):
    asked = requests(folder, 8)
    together = generate(engine, asked, SAMPLING)
    alone = [generate(engine, [request], SAMPLING)[0] for request in asked]
    assert [c.ids.tolist() for c in alone] == [c.ids.tolist() for c in together]
    other = [Request(r.prompt_ids, r.seed + 100) for r in asked]
    assert [c.ids.tolist() for c in generate(engine, other, SAMPLING)] != [
        c.ids.tolist() for c in together
    ]


def test_ids_that_the_tokenizer_does_not_have_are_never_sampled(engine, folder):
    vocabulary = len(load_tokenizer(str(folder)))
    hot = SamplingParams(2.0, 64)
    completions = np.concatenate([c.ids for c in generate(engine, requests(folder, 12), hot)])
    assert len(completions) > 500
    assert completions.max() < vocabulary


def test_both_model_runners_of_vllm_take_the_limit_on_ids():
    from vllm.v1.worker.gpu.sample.logits_processor import loader

    from trca.policies.engines.vllm_worker import KnownIds

    (found,) = loader._load_v2_logitsprocs_by_fqcns([f"{KnownIds.__module__}:KnownIds"])
    config = SimpleNamespace(additional_config={"known_ids": 3})
    for processor in (found(config, None), KnownIds(config, torch.device("cpu"), False)):
        expected = [0.0, 0.0, 0.0, -np.inf, -np.inf]
        assert processor.apply(torch.zeros(1, 5)).tolist() == [expected]
        assert processor.apply(torch.zeros(1, 5), None).tolist() == [expected]


def test_a_response_ends_with_the_token_that_completes_a_stop_string(engine, folder):
    pieces = token_bytes(load_tokenizer(str(folder)))
    asked, free = requests(folder, 24), SamplingParams(1.0, 24)
    ends = 0
    for request, whole in zip(asked, generate(engine, asked, free), strict=True):
        match = re.search(rb"[!-~]{2}", b"".join(pieces[i] for i in whole.ids[2:20]))
        if match is None or whole.finish_reason == "stop":
            continue
        stop = match[0].decode()
        ends += 1
        stopped = generate(engine, [request], SamplingParams(1.0, 24, stop=(stop,)))[0]
        completions = [pieces[i] for i in stopped.ids]
        assert stop.encode() in b"".join(completions)
        assert stop.encode() not in b"".join(completions[:-1])
        assert stopped.ids.tolist() == whole.ids[: len(completions)].tolist()
        assert len(stopped.logprobs) == len(completions)
        assert stopped.finish_reason == "stop"
    assert ends > 5


def test_a_stop_string_in_a_native_thought_does_not_end_a_response(engine, folder):
    vocabulary, asked = len(load_tokenizer(str(folder))), requests(folder, 12)
    stopping = SamplingParams(SAMPLING.temperature, 24, stop=("e", "a", "o"))
    cut = generate(engine, asked, stopping)
    thinking = generate(engine, asked, replace(stopping, thought="open"))
    assert sum(len(c.ids) < len(t.ids) for c, t in zip(cut, thinking, strict=True)) > 5
    assert max(len(t.ids) for t in thinking) == 24
    for each, longer in zip(cut, thinking, strict=True):
        assert longer.ids[: len(each.ids)].tolist() == each.ids.tolist()
    assert distance(load_model(str(folder)), vocabulary, asked, thinking) < 1e-4


def test_a_prompt_that_does_not_fit_fails_alone(engine, folder):
    good = requests(folder, 3)
    long = engine.submit(Request(np.zeros(300, np.int32), 1), SAMPLING)
    assert all(len(c.ids) for c in generate(engine, good, SAMPLING))
    from vllm.exceptions import VLLMValidationError

    with pytest.raises(VLLMValidationError, match="256"):
        long.result(timeout=600)


def test_pushed_weights_arrive_each_time(engine, folder):
    model, vocabulary = load_model(str(folder)), len(load_tokenizer(str(folder)))
    asked = requests(folder, 6)
    before = generate(engine, asked, SAMPLING)
    for version in (1, 2, 3):
        engine.load_weights(export_weights(moved(model, version)), version)
        completions = generate(engine, asked, SAMPLING)
        assert {c.version for c in completions} == {version}
        assert distance(model, vocabulary, asked, completions) < 1e-4
        assert [c.ids.tolist() for c in completions] != [c.ids.tolist() for c in before]
        before = completions


def test_weights_that_do_not_fit_are_refused_and_the_old_ones_stay(engine, folder):
    asked = requests(folder, 3)
    before = generate(engine, asked, SAMPLING)
    weights = export_weights(load_model(str(folder)))
    first = next(iter(weights))
    with pytest.raises(ValueError, match=f"missing {first}"):
        engine.load_weights({k: v for k, v in weights.items() if k != first}, 9)
    with pytest.raises(ValueError, match=f"wrong shapes {first}"):
        engine.load_weights({**weights, first: weights[first][:-1]}, 9)
    after = generate(engine, asked, SAMPLING)
    assert [c.ids.tolist() for c in after] == [c.ids.tolist() for c in before]


def test_a_push_in_the_middle_of_generation_changes_the_tokens_after_it(engine, folder):
    long = SamplingParams(1.0, 120)
    asked = requests(folder, 24)
    engine.load_weights(export_weights(load_model(str(folder))), 20)
    whole = generate(engine, asked, long)
    weights = export_weights(moved(load_model(str(folder)), 5))
    futures = [engine.submit(request, long) for request in asked]
    engine.load_weights(weights, 21)
    completions = [future.result(timeout=600) for future in futures]
    assert {c.version for c in completions} == {20}
    assert [c.ids.tolist() for c in completions] != [c.ids.tolist() for c in whole]


def test_a_pushed_adapter_arrives_each_time(tied):
    model, vocabulary = load_model(str(tied)), len(load_tokenizer(str(tied)))
    add_lora(model, rank=4, alpha=8)
    engine, asked = open_vllm(tied, lora_rank=4, lora_alpha=8), requests(tied, 6)
    before = generate(engine, asked, SAMPLING)
    assert distance(model, vocabulary, asked, before) < 1e-4
    for version in (1, 2, 3):
        engine.load_weights(export_weights(moved(model, version, scale=0.2)), version)
        completions = generate(engine, asked, SAMPLING)
        assert distance(model, vocabulary, asked, completions) < 1e-4
        assert [c.ids.tolist() for c in completions] != [c.ids.tolist() for c in before]
        before = completions
    engine.close()


@pytest.mark.parametrize("in_process", [True, False])
def test_a_request_keeps_its_adapter_over_later_pushes(tied, in_process):
    """vLLM evicts the adapter at each push and reads its folder again for the running requests."""
    model, vocabulary = load_model(str(tied)), len(load_tokenizer(str(tied)))
    add_lora(model, rank=4, alpha=8)
    pushed = [export_weights(moved(model, seed, scale=0.2)) for seed in range(5)]
    options = {"in_process": in_process}
    engine = open_vllm(tied, lora_rank=4, lora_alpha=8, options=options)
    asked, long = requests(tied, 24), replace(SAMPLING, max_new_tokens=120)
    engine.load_weights(pushed[0], 1)
    futures = [engine.submit(request, long) for request in asked]
    for version, weights in enumerate(pushed[1:], 2):
        engine.load_weights(weights, version)
    completions = [future.result(timeout=600) for future in futures]
    import_weights(model, pushed[0])
    assert {c.version for c in completions} == {1}
    assert distance(model, vocabulary, asked, completions) < 1e-4
    del futures
    assert len(list(engine._folder.iterdir())) == 1
    engine.close()


def test_other_weights_of_the_same_version_arrive(tied):
    model, vocabulary = load_model(str(tied)), len(load_tokenizer(str(tied)))
    add_lora(model, rank=4, alpha=8)
    engine, asked = open_vllm(tied, lora_rank=4, lora_alpha=8), requests(tied, 6)
    for seed in (1, 2):
        engine.load_weights(export_weights(moved(model, seed, scale=0.2)), 1)
        completions = generate(engine, asked, SAMPLING)
        assert distance(model, vocabulary, asked, completions) < 1e-4
    engine.close()


@pytest.mark.parametrize("prompts", [True, False])
def test_one_adapter_on_a_cpu_adds_what_vllm_adds_token_by_token(prompts):
    from vllm.lora.layers.utils import LoRAMapping
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    from trca.policies.engines import vllm_worker

    assert PunicaWrapperCPU.add_lora_linear is vllm_worker.add_adapter
    torch.manual_seed(0)
    widths, tokens = (24, 8, 8), 6
    wrapper = PunicaWrapperCPU(64, 8, "cpu")
    a = tuple(torch.randn(1, 1, 4, 16) for _ in widths)
    b = tuple(torch.randn(1, 1, width, 4) for width in widths)
    x, before = torch.randn(tokens, 16), torch.randn(tokens, sum(widths))
    for adapters in ((1,) * tokens, (1, 1, 1, 0, 0, 0)):
        mapping = LoRAMapping(adapters, adapters, is_prefill=prompts)
        wrapper.update_metadata(mapping, [1], 1, 64)
        y, expected = before.clone(), before.clone()
        wrapper.add_lora_linear(y, x, a, b, 0.5, widths)
        vllm_worker.vllm_add_adapters(wrapper, expected, x, a, b, 0.5, widths)
        torch.testing.assert_close(y, expected)


def test_an_engine_in_processes_of_its_own_says_the_same(engine, tied):
    model, vocabulary = load_model(str(tied)), len(load_tokenizer(str(tied)))
    asked = requests(tied, 6)
    separate = open_vllm(tied, options={"in_process": False, "sleep": True})
    for version in (1, 2):
        separate.sleep()
        separate.load_weights(export_weights(moved(model, version)), version)
        assert distance(model, vocabulary, asked, generate(separate, asked, SAMPLING)) < 1e-4
    separate.close()


@pytest.fixture
def separate(tied):
    """An engine in a process of its own, and this process."""
    before = set(psutil.Process().children(recursive=True))
    engine = open_vllm(tied, options={"in_process": False})
    started = set(psutil.Process().children(recursive=True)) - before
    yield engine, max(started, key=lambda process: process.memory_info().rss)
    engine.close()


def test_ctrl_c_does_not_end_the_requests_of_an_engine_in_its_own_process(separate, tied):
    engine, process = separate
    long = SamplingParams(1.0, 120)
    futures = [engine.submit(request, long) for request in requests(tied, 24)]
    process.send_signal(signal.SIGINT)
    completions = [future.result(timeout=600) for future in futures]
    assert max(len(c.ids) for c in completions) == long.max_new_tokens
    assert generate(engine, requests(tied, 2), SAMPLING)


@pytest.mark.parametrize("reason", ["abort", "error", None])
def test_a_request_that_vllm_ends_early_is_an_error_and_no_completion(
    engine, folder, reason, monkeypatch
):
    ended = Future()
    monkeypatch.setattr(engine._server, "submit", lambda *arguments: ended)
    future = engine.submit(requests(folder, 1)[0], SAMPLING)
    sampled = SimpleNamespace(
        finish_reason=reason, token_ids=[1], logprobs=SimpleNamespace(logprobs=[-1.0])
    )
    ended.set_result(SimpleNamespace(outputs=[sampled]))
    with pytest.raises(RuntimeError, match=f"vLLM ended a request early: {reason}"):
        future.result(timeout=600)


@pytest.mark.parametrize("in_process", [True, False])
def test_a_closed_engine_loses_its_running_requests_and_refuses_others(tied, in_process):
    engine = open_vllm(tied, options={"in_process": in_process})
    asked = requests(tied, 24)
    futures = [engine.submit(request, SamplingParams(1.0, 120)) for request in asked]
    engine.close()
    engine.close()
    # Some requests may end before the engine is closed, and none is left without an outcome.
    errors = [future.exception(timeout=600) for future in futures]
    assert any(errors)
    with pytest.raises(RuntimeError, match="VLLMEngine is closed"):
        engine.submit(asked[0], SAMPLING)
    with pytest.raises(RuntimeError, match="VLLMEngine is closed"):
        engine.load_weights(export_weights(load_model(str(tied))), 1)


def test_a_push_to_a_dead_process_is_an_error(separate, tied):
    engine, process = separate
    process.kill()
    with pytest.raises(Exception, match=r"died|EngineCore"):
        engine.load_weights(export_weights(load_model(str(tied))), 1)


def test_no_time_is_spent_on_the_text_of_sampled_tokens(engine, folder):
    from trca.policies.engines.vllm_server import sampling_params

    params = sampling_params(SamplingParams(1.0, 8, stop=("</never>",)), 3, [])
    output = engine._server.submit([1, 2, 3], params, "salt", None).result(timeout=600)
    logprobs = output.outputs[0].logprobs
    assert len(logprobs.logprobs) == 8
    assert set(logprobs.decoded_tokens) == {None}


def test_an_engine_that_slept_says_the_same_and_takes_a_push(tied):
    model, vocabulary = load_model(str(tied)), len(load_tokenizer(str(tied)))
    engine, asked = open_vllm(tied, options={"sleep": True}), requests(tied, 6)
    before = generate(engine, asked, SAMPLING)
    engine.sleep()
    assert engine._server._engine.is_sleeping()
    after = generate(engine, asked, SAMPLING)
    assert not engine._server._engine.is_sleeping()
    assert [c.ids.tolist() for c in after] == [c.ids.tolist() for c in before]
    engine.sleep()
    engine.load_weights(export_weights(moved(model, 1)), 1)
    assert distance(model, vocabulary, asked, generate(engine, asked, SAMPLING)) < 1e-4
    engine.close()


def test_the_end_tokens_are_those_of_the_other_engine(tied, tmp_path):
    folder = shutil.copytree(tied, tmp_path / "model")
    GenerationConfig(eos_token_id=[3, 7]).save_pretrained(folder)
    engine = open_vllm(folder)
    assert set(engine._ends) == end_ids(load_model(str(folder)), load_tokenizer(str(folder)))
    assert {3, 7} < set(engine._ends)
    engine.close()


def test_an_engine_sleeps_only_where_it_is_set(engine):
    engine.sleep()
    assert not engine._server._engine.is_sleeping()
