from typing import Any

import pytest
import torch
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
)

from trca.policies.logits import head_logits, token_logprobs

SIZES: Any = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gemma2ForCausalLM(Gemma2Config(**SIZES, final_logit_softcapping=0.3)),
        lambda: CohereForCausalLM(CohereConfig(**SIZES, logit_scale=0.25)),
        lambda: GraniteForCausalLM(GraniteConfig(**SIZES, logits_scaling=3.0)),
    ],
)
def test_logits_are_those_of_the_model_itself(make):
    torch.manual_seed(0)
    model = make().eval()
    ids = torch.arange(6)[None]
    hidden = model.base_model(input_ids=ids).last_hidden_state
    torch.testing.assert_close(head_logits(model, hidden), model(ids).logits)


def test_chunks_change_neither_values_nor_gradients(tiny):
    torch.manual_seed(0)
    hidden = torch.randn(11, 64)
    targets = torch.randint(0, 200, (11,))

    def run(chunk):
        leaf = hidden.clone().requires_grad_()
        scores, entropy = token_logprobs(tiny, leaf, targets, vocabulary=200, chunk=chunk)
        (scores.sum() + entropy.sum()).backward()
        assert leaf.grad is not None
        return [scores, entropy, leaf.grad]

    for one, other in zip(run(100), run(4), strict=True):
        torch.testing.assert_close(one, other)


def test_ids_that_cannot_be_sampled_have_no_share(tiny):
    hidden = torch.randn(1, 64).expand(10, -1)
    scores, _ = token_logprobs(tiny, hidden, torch.arange(10), vocabulary=10)
    assert scores.exp().sum().item() == pytest.approx(1.0, abs=1e-5)
