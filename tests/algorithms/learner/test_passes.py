import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config

from trca.algorithms.learner.passes import last_mlp_at

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


@pytest.mark.parametrize("config", [Qwen2Config(**SIZES), LlamaConfig(**SIZES)])
def test_hidden_states_and_gradients_stay_those_of_the_whole_layer(config):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    ids = torch.randint(50, (3, 8))
    row, position = torch.tensor([0, 0, 2]), torch.tensor([3, 4, 7])

    def run():
        model.zero_grad()
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        hidden[row, position].square().sum().backward()
        return hidden[row, position].detach(), [
            p.grad.clone() for p in model.base_model.parameters()
        ]

    hidden, gradients = run()
    with last_mlp_at(model, row, position):
        some_hidden, some_gradients = run()
    assert torch.allclose(hidden, some_hidden, atol=1e-6)
    for one, other in zip(gradients, some_gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert "forward" not in vars(model.base_model.layers[-1].mlp)


def test_gradient_checkpointing_keeps_the_whole_layer():
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    model.gradient_checkpointing_enable()
    with last_mlp_at(model, torch.tensor([0]), torch.tensor([1])):
        assert "forward" not in vars(model.base_model.layers[-1].mlp)
