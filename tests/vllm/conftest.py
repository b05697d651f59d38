"""Small real models for vLLM."""

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from tests.algorithms.conftest import make_config, rooms_model
from tests.policies.conftest import _one_thread, sharpened, tokenizer

__all__ = ["_one_thread", "make_config", "tokenizer"]

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
"""Heads of size 32, the smallest that vLLM supports on a CPU."""


def saved(model, tokenizer, folder):
    sharpened(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tied(tokenizer, tmp_path_factory):
    """A Qwen3 with tied head and embedding."""
    torch.manual_seed(0)
    config = Qwen3Config(**SMALL, vocab_size=len(tokenizer), head_dim=32, tie_word_embeddings=True)
    return saved(Qwen3ForCausalLM(config), tokenizer, tmp_path_factory.mktemp("tied"))


@pytest.fixture(scope="session")
def untied(tokenizer, tmp_path_factory):
    """A Qwen2 with an untied head, and with ids outside the tokenizer's vocabulary."""
    torch.manual_seed(1)
    config = Qwen2Config(**SMALL, vocab_size=len(tokenizer) + 13)
    return saved(Qwen2ForCausalLM(config), tokenizer, tmp_path_factory.mktemp("untied"))


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model that samples actions of the toy environment at random."""
    return rooms_model(tmp_path_factory.mktemp("model"), head_dim=32)
