"""Rows with shared prefixes have the scores and gradients of separate rows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM

from tests.architectures import SIZES
from trca.algorithms.learner.passes import last_mlp_at
from trca.policies.logits import score_tokens
from trca.policies.shared_prefixes import (
    ARCHITECTURES,
    attention,
    enable_sharing,
    share_prefixes,
    shares,
)

ROWS = [
    [5, 6],
    [5, 6, 7, 2],
    [5, 6, 7, 8, 9],
    [5, 6, 7, 8, 9],
    [5, 6, 7, 8, 9, 4, 3],
    [9, 9, 9],
    [9, 9, 9, 9],
]


def padded(rows):
    lengths = np.array([len(row) for row in rows])
    ids = np.zeros((len(rows), int(lengths.max()) + 1), dtype=np.int64)
    for row, tokens in zip(ids, rows, strict=True):
        row[: len(tokens)] = tokens
    return ids, lengths


def small(model_type, **changes):
    replaced = {"sliding_window": None, "use_sliding_window": False, "layer_types": None}
    sizes = {k: v for k, v in SIZES[model_type].items() if k not in replaced}
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        model_type, vocab_size=16, pad_token_id=0, sliding_window=None, **sizes, **changes
    )
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")


def test_the_prefixes_of_rows_are_a_tree():
    shared = share_prefixes(*padded(ROWS))
    assert shared.input_ids.tolist() == [[5, 6, 7, 2, 8, 9, 4, 3, 9, 9, 9, 9]]
    assert shared.position_ids.tolist() == [[0, 1, 2, 3, 3, 4, 5, 6, 0, 1, 2, 3]]
    assert shared.node.tolist() == [
        [0, 1, 0, 0, 0, 0, 0, 0],
        [0, 1, 2, 3, 0, 0, 0, 0],
        [0, 1, 2, 4, 5, 0, 0, 0],
        [0, 1, 2, 4, 5, 0, 0, 0],
        [0, 1, 2, 4, 5, 6, 7, 0],
        [8, 9, 10, 0, 0, 0, 0, 0],
        [8, 9, 10, 11, 0, 0, 0, 0],
    ]
    assert shared.node.flatten()[shared.owner].tolist() == list(range(12))


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=8))
def test_the_nodes_of_any_rows_give_the_rows_back(rows):
    shared = share_prefixes(*padded(rows))
    for row, nodes in zip(rows, shared.node, strict=True):
        assert shared.input_ids[0, nodes[: len(row)]].tolist() == row
        assert shared.position_ids[0, nodes[: len(row)]].tolist() == list(range(len(row)))
    assert shared.node.flatten()[shared.owner].tolist() == list(range(len(shared.owner)))
    prefixes = {tuple(row[: k + 1]) for row in rows for k in range(len(row))}
    assert len(shared.owner) == len(prefixes)


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("model_type", sorted(ARCHITECTURES))
def test_scores_and_gradients_are_those_of_the_rows(model_type, checkpointed):
    model = small(model_type)
    enable_sharing(model)
    assert shares(model)
    model.train()
    if checkpointed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    ids, lengths = padded(ROWS)
    row = torch.tensor([0, 1, 1, 2, 3, 4, 4, 5, 6])
    position = torch.tensor([0, 1, 2, 3, 3, 3, 5, 1, 2])
    tokens = torch.from_numpy(ids)
    factor = torch.arange(1.0, 10.0)

    def run(shared):
        model.zero_grad()
        with last_mlp_at(model, row, position, shared):
            logprobs, entropy = score_tokens(
                model,
                tokens,
                row,
                position,
                tokens[row, position + 1],
                vocabulary=16,
                shared=shared,
            )
        (logprobs * factor + entropy).sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return [logprobs.detach(), entropy.detach(), *(g.clone() for g in gradients)]

    seen = []
    model.base_model.layers[0].register_forward_hook(
        lambda _layer, inputs, _out: seen.append(inputs[0].shape[:2].numel())
    )
    alone, together = run(None), run(share_prefixes(ids, lengths))
    assert len(alone) == len(together)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(other, one, atol=2e-5, rtol=1e-4)
    assert (seen[0], seen[-1]) == (ids.size, 12)


def test_attention_on_a_cpu_computes_in_float32():
    shared = share_prefixes(*padded(ROWS))
    layer = small("llama").model.layers[0].self_attn
    torch.manual_seed(0)
    query = torch.randn(1, 4, 12, 16)
    key, value = torch.randn(2, 1, 2, 12, 16)
    layer.num_key_value_groups = 2
    states = [each.bfloat16() for each in (query, key, value)]
    out, _ = attention(layer, *states, None, shared, scaling=0.25)
    exact, _ = attention(layer, *(each.float() for each in states), None, shared, scaling=0.25)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, exact.bfloat16())


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("gpt2", {}),
        ("gemma2", {}),
        ("mistral", {"sliding_window": 8}),
        ("gpt_neox", {}),
        ("qwen3_5_text", {}),
    ],
)
def test_models_of_another_build_are_left_as_they_are(model_type, changes):
    torch.manual_seed(0)
    sizes = {**SIZES[model_type], **changes}
    config = AutoConfig.for_model(model_type, vocab_size=16, pad_token_id=0, **sizes)
    model = AutoModelForCausalLM.from_config(config)
    before = model.config._attn_implementation
    enable_sharing(model)
    assert not shares(model)
    assert model.config._attn_implementation == before
