from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from trca.policies.engines.engine import EngineLoad, Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.weights import export_weights


def requests(vocabulary, count, longest=140):
    draw = np.random.default_rng(0)
    return [
        Request(
            draw.integers(0, vocabulary, draw.integers(2, longest)).astype(np.int32),
            int(draw.integers(2**63)),
        )
        for _ in range(count)
    ]


def same(one, other):
    return (
        one.ids.tolist() == other.ids.tolist()
        and one.logprobs.tobytes() == other.logprobs.tobytes()
        and one.finish_reason == other.finish_reason
    )


def recomputed(model, request, ids, vocabulary, temperature):
    tokens = torch.tensor([[*request.prompt_ids, *ids]], dtype=torch.long)
    with torch.no_grad():
        logits = model(tokens).logits[0, len(request.prompt_ids) - 1 : -1, :vocabulary]
    scores = (logits / temperature).log_softmax(-1)
    return scores[torch.arange(len(ids)), torch.tensor(ids, dtype=torch.long)].numpy()


@pytest.mark.parametrize("name", ["tiny", "qwen", "hybrid"])
def test_a_completion_does_not_depend_on_its_batch(name, tokenizer, request):
    model = request.getfixturevalue(name)
    sampling = SamplingParams(max_new_tokens=8)
    asked = requests(len(tokenizer), 24)
    engine = TransformersEngine(model, tokenizer)
    alone = [engine.generate([r], sampling)[0] for r in asked]
    few = TransformersEngine(model, tokenizer, max_batch_rows=16)
    draw = np.random.default_rng(1)
    for size in (2, 7, 8, 9, 31, 64):
        picked = draw.integers(0, len(asked), size)
        for each in (engine, few):
            together = each.generate([asked[k] for k in picked], sampling)
            assert all(same(alone[k], c) for k, c in zip(picked, together, strict=True))


def test_the_padding_of_a_prompt_stays_within_the_positions_of_the_model(tokenizer):
    """GPT-2 looks its positions up in a table: a prefix of 97 tokens has a width of 104."""
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=100, n_embd=32, n_layer=1, n_head=2)
    engine = TransformersEngine(GPT2LMHeadModel(config), tokenizer)
    asked = Request(np.full(98, 5, dtype=np.int32), 0)
    (completion,) = engine.generate([asked], SamplingParams(max_new_tokens=2))
    assert len(completion.ids) > 0


@pytest.mark.parametrize(
    ("most", "rollouts", "padded"), [(512, 90, 96), (300, 512, 296), (5, 3, 8), (512, 600, 512)]
)
def test_rows_are_a_multiple_of_eight_within_the_limit(most, rollouts, padded):
    load = EngineLoad(1, 10.0, 0.0, rollouts, 1.0, 80e9, {"max_batch_rows": most})
    memory = TransformersEngine.memory(load)
    assert memory.cache == padded
    assert memory.rows == min(rollouts, most if most >= 8 else 8, padded)


def test_the_seed_alone_tells_equal_prompts_apart(tiny, tokenizer):
    engine = TransformersEngine(tiny, tokenizer)
    prompt = np.arange(9, dtype=np.int32)
    said = engine.generate([Request(prompt, seed) for seed in (1, 2, 1)], SamplingParams(1.0, 12))
    assert same(said[0], said[2])
    assert said[0].ids.tolist() != said[1].ids.tolist()


@pytest.mark.parametrize(
    ("name", "temperature"), [("tiny", 1.0), ("tiny", 0.6), ("qwen", 1.0), ("hybrid", 0.6)]
)
def test_logprobs_are_those_of_the_sampling_distribution(name, temperature, tokenizer, request):
    model = request.getfixturevalue(name)
    asked = requests(len(tokenizer), 12)
    sampling = SamplingParams(temperature, 110, stop=())
    for asked_for, said in zip(
        asked, TransformersEngine(model, tokenizer).generate(asked, sampling), strict=True
    ):
        expected = recomputed(model, asked_for, said.ids, len(tokenizer), temperature)
        np.testing.assert_allclose(said.logprobs, expected, atol=2e-4)


def test_samples_follow_the_distribution(tiny, tokenizer):
    prompt = np.array([5, 6, 7], dtype=np.int32)
    asked = [Request(prompt, seed) for seed in range(4000)]
    said = TransformersEngine(tiny, tokenizer).generate(asked, SamplingParams(2.0, 1))
    counts = np.bincount([int(c.ids[0]) for c in said], minlength=len(tokenizer)) / len(said)
    with torch.no_grad():
        logits = tiny(torch.tensor([[5, 6, 7]])).logits[0, -1, : len(tokenizer)]
    expected = (logits / 2.0).softmax(-1).numpy()
    assert np.abs(counts - expected).sum() / 2 < 0.12


def test_ids_outside_the_tokenizer_are_never_sampled(qwen, tokenizer):
    said = TransformersEngine(qwen, tokenizer).generate(
        [Request(np.array([3], dtype=np.int32), seed) for seed in range(600)],
        SamplingParams(50.0, 4),
    )
    assert max(int(c.ids.max()) for c in said) < len(tokenizer) < qwen.config.vocab_size


def test_a_stop_string_in_a_native_thought_does_not_end_a_completion(tiny, tokenizer):
    engine, asked = TransformersEngine(tiny, tokenizer), requests(len(tokenizer), 8, 20)
    stopping = SamplingParams(1.0, 30, stop=("e", "o"))
    cut, thinking, free = (
        engine.generate(asked, sampling)
        for sampling in (stopping, replace(stopping, thought="open"), SamplingParams(1.0, 30))
    )
    assert all(same(one, other) for one, other in zip(thinking, free, strict=True))
    assert sum(len(c.ids) for c in cut) < sum(len(t.ids) for t in thinking)


def test_a_recurrent_state_needs_a_token_before_the_last(hybrid, tokenizer):
    engine = TransformersEngine(hybrid, tokenizer)
    with pytest.raises(ValueError, match="1 token, and linear_attention needs 2"):
        engine.generate([Request(np.array([3], dtype=np.int32), 0)], SamplingParams(1.0, 4))


def test_a_recurrent_state_follows_the_kept_rows(hybrid, tokenizer):
    """Most of 40 rows end early, so that the engine drops rows twice."""
    asked = requests(len(tokenizer), 40, 20)
    engine = TransformersEngine(hybrid, tokenizer)
    free = engine.generate(asked, SamplingParams(1.0, 40))
    ended = engine.generate(asked, SamplingParams(1.0, 40, stop=("e", "o")))
    assert len({len(c.ids) for c in ended}) > 3
    for one, other in zip(free, ended, strict=True):
        assert one.ids[: len(other.ids)].tolist() == other.ids.tolist()


def test_greedy_is_what_generate_says(tiny, tokenizer):
    asked = requests(len(tokenizer), 6)
    for r, said in zip(
        asked,
        TransformersEngine(tiny, tokenizer).generate(asked, SamplingParams(0.0, 10)),
        strict=True,
    ):
        tokens = torch.tensor(r.prompt_ids[None].astype(np.int64))
        whole = tiny.generate(
            tokens, attention_mask=torch.ones_like(tokens), do_sample=False, max_new_tokens=10
        )
        assert whole[0, len(r.prompt_ids) :].tolist() == said.ids.tolist()


def test_a_stop_string_ends_a_completion_wherever_tokens_part(tiny, tokenizer):
    engine = TransformersEngine(tiny, tokenizer)
    asked = requests(len(tokenizer), 8, 20)
    free = engine.generate(asked, SamplingParams(1.0, 30, stop=()))
    for r, said in zip(asked, free, strict=True):
        text = tokenizer.decode(said.ids)
        stop = text[len(text) // 2 : len(text) // 2 + 3]
        if "�" in stop or len(stop) < 3:
            continue
        stopped = engine.generate([r], SamplingParams(1.0, 30, stop=(stop,)))[0]
        assert stopped.ids.tolist() == said.ids[: len(stopped.ids)].tolist()
        assert stop in tokenizer.decode(stopped.ids)
        assert stop not in tokenizer.decode(stopped.ids[:-1])
        assert stopped.finish_reason == "stop"


def test_length_ends_a_completion_too(tiny, tokenizer):
    said = TransformersEngine(tiny, tokenizer).generate(
        requests(len(tokenizer), 30), SamplingParams(1.0, 3, stop=())
    )
    assert {len(c.ids) for c in said if c.finish_reason == "length"} == {3}


def test_new_weights_are_used_and_wrong_ones_refused(tiny, tokenizer):
    engine = TransformersEngine(tiny, tokenizer)
    before = export_weights(tiny)
    asked = requests(len(tokenizer), 4)
    said = engine.generate(asked, SamplingParams(1.0, 6))
    try:
        engine.load_weights({k: v * 0.5 for k, v in before.items()}, version=7)
        assert engine.version == 7
        other = engine.generate(asked, SamplingParams(1.0, 6))
        assert not all(same(a, b) for a, b in zip(said, other, strict=True))
        with pytest.raises(ValueError, match=r"missing .*; unknown typo"):
            engine.load_weights({"typo": before["model.norm.weight"]}, version=8)
        assert engine.version == 7
    finally:
        engine.load_weights(before, version=9)
    again = engine.generate(asked, SamplingParams(1.0, 6))
    assert all(same(a, b) for a, b in zip(said, again, strict=True))


def test_generating_leaves_the_model_as_it_was(tiny, tokenizer):
    tiny.train()
    TransformersEngine(tiny, tokenizer).generate(
        requests(len(tokenizer), 2), SamplingParams(1.0, 2)
    )
    assert tiny.training
    assert tiny.config._attn_implementation == "sdpa"
    tiny.eval()


def test_no_request_gives_no_completion(tiny, tokenizer):
    assert TransformersEngine(tiny, tokenizer).generate([], SamplingParams()) == []


def test_an_empty_prompt_is_refused(tiny, tokenizer):
    with pytest.raises(ValueError, match="a prompt is empty"):
        TransformersEngine(tiny, tokenizer).generate(
            [Request(np.empty(0, dtype=np.int32), 1)], SamplingParams()
        )
