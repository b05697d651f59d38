from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from ray import cloudpickle
from ray.tune.registry import register_env
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from tests.algorithms import rooms
from trca.algorithms import TRCAConfig

TAGS = ["<think>", "</think>", "<action>", "</action>"]
cloudpickle.register_pickle_by_value(rooms)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3 of two tiny layers that says its tags now and then."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"],
    )
    text = "You are in room 0. You are in room 1. A key is here. take the key. go take key"
    tokenizer.train_from_iterator([text] * 4, trainer)
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>"
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def make_config(model: Path) -> Callable[..., Any]:
    """Small settings on the world of rooms, for any algorithm."""
    register_env("Rooms", rooms.make_rooms)

    def make(config_class: type = TRCAConfig, env_config: Any = None, **settings: Any) -> Any:
        config = config_class()
        config.environment("Rooms", env_config=env_config or {})
        config.debugging(seed=7)
        config.update_from_dict(
            {
                "model": str(model),
                "template": "compact",
                "tasks_per_iteration": 4,
                "group_size": 4,
                "max_new_tokens": 8,
                "minibatch_size": 24,
                "micro_batch_tokens": 512,
                "lr": 1e-3,
                "evaluation_split": "valid",
                "evaluation_tasks": 5,
                **settings,
            }
        )
        return config

    return make
