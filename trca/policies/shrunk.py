"""Small random models of the paper's architectures: dry runs of its presets with no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, decoders, models, trainers
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from trca.common.cache import build_once, cache_folder, digest
from trca.policies.bpe import words_then_bytes
from trca.policies.models import quiet
from trca.policies.prompts import PAPER_TEXT

_VERSION: Final = 2
_QWEN_CHAT: Final = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are Qwen, created by Alibaba"
    " Cloud. You are a helpful assistant.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN_SPLIT: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _qwen(width: int, feed_forward: int, layers: int, heads: int) -> dict[str, Any]:
    return {
        "model_type": "qwen2",
        "rope_theta": 1_000_000.0,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 32_768,
        "vocab_size": 151_936,
        "hidden_size": width,
        "intermediate_size": feed_forward,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    }


ARCHITECTURES: Final[dict[str, dict[str, Any]]] = {
    "Qwen/Qwen2.5-1.5B-Instruct": _qwen(1536, 8960, 28, 12),
    "Qwen/Qwen2.5-3B-Instruct": _qwen(2048, 11_008, 36, 16),
    "Qwen/Qwen2.5-7B-Instruct": _qwen(3584, 18_944, 28, 28)
    | {"num_key_value_heads": 4, "vocab_size": 152_064, "tie_word_embeddings": False},
}
"""The paper's models, with the values of their published configurations."""


def shrunk_model(name: str) -> Path:
    """Returns the folder of a small random model of `ARCHITECTURES`, with a matching tokenizer.

    Heads, key-value groups, biases, tied weights, rotary base and chat format are the
    architecture's; width, depth and vocabulary are small.
    """
    if name not in ARCHITECTURES:
        raise ValueError(
            f"unknown architecture {name!r} to shrink: choose from {', '.join(ARCHITECTURES)}"
        )
    settings = ARCHITECTURES[name]
    folder = cache_folder() / "shrunk" / f"{name.split('/')[-1]}-{digest(_VERSION, settings)}"

    def build(target: Path) -> None:
        tokenizer = _qwen_tokenizer()
        groups = settings["num_attention_heads"] // settings["num_key_value_heads"]
        small = {
            "hidden_size": groups * 2 * 8,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": groups * 2,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "eos_token_id": tokenizer.eos_token_id,
        }
        config = AutoConfig.for_model(**settings | small)
        with quiet(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            AutoModelForCausalLM.from_config(config).save_pretrained(target)
        tokenizer.save_pretrained(target)

    return build_once(folder, build)


def _qwen_tokenizer() -> PreTrainedTokenizerFast:
    """Trains a byte-level BPE with Qwen's split pattern and chat tokens on the prompt."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = words_then_bytes(QWEN_SPLIT)
    backend.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    backend.train_from_iterator(
        [PAPER_TEXT] * 2,
        trainers.BpeTrainer(
            vocab_size=512,
            initial_alphabet=sorted(ByteLevel.alphabet()),
            special_tokens=specials,
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=_QWEN_CHAT,
    )
