"""Small random models of common architectures, with their chat formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from trca.policies.prompts import PAPER_TEXT

WINDOW = 8
"""Sliding windows are shorter than any prompt, so that an error in the window is visible."""

_HEADS = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}
_LLAMA = {**_HEADS, "intermediate_size": 48, "num_key_value_heads": 2}
_MIXED = ["sliding_attention", "full_attention"]
_LINEAR = {
    "head_dim": 8,
    "num_hidden_layers": 3,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
SIZES: dict[str, dict[str, Any]] = {
    "llama": _LLAMA,
    "qwen2": {
        **_LLAMA,
        "use_sliding_window": True,
        "sliding_window": WINDOW,
        "layer_types": _MIXED,
    },
    "qwen3": {**_LLAMA, "head_dim": 8},
    "qwen3_moe": {
        **_LLAMA,
        "head_dim": 8,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    },
    "gemma2": {**_LLAMA, "head_dim": 8, "sliding_window": WINDOW, "attn_logit_softcapping": 2.0},
    "gemma3_text": {**_LLAMA, "head_dim": 8, "sliding_window": WINDOW, "layer_types": _MIXED},
    "mistral": {**_LLAMA, "sliding_window": WINDOW},
    "phi3": {**_LLAMA, "sliding_window": WINDOW},
    "smollm3": _LLAMA,
    "olmo2": _LLAMA,
    "granite": {**_LLAMA, "logits_scaling": 2.0, "residual_multiplier": 0.5},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512},
    "gpt_neox": {**_HEADS, "intermediate_size": 48},
    "opt": {**_HEADS, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "falcon": {**_HEADS, "alibi": False},
    "qwen3_5_text": {**_LLAMA, **_LINEAR},
    "qwen3_next": {
        **_LLAMA,
        **_LINEAR,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    },
}

_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_GEMMA = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else"
    " m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
CHATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "llama": (
        "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
        "{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}"
        "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
        ("<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"),
    ),
    "qwen2": (_CHATML, ("<|im_end|>", "<|im_start|>")),
    "qwen3": (_CHATML, ("<|im_end|>", "<|im_start|>")),
    "qwen3_moe": (_CHATML, ("<|im_end|>", "<|im_start|>")),
    "qwen3_5_text": (_CHATML, ("<|im_end|>", "<|im_start|>")),
    "qwen3_next": (_CHATML, ("<|im_end|>", "<|im_start|>")),
    "smollm3": (_CHATML, ("<|im_end|>", "<|im_start|>")),
    "gemma2": (_GEMMA, ("<end_of_turn>", "<start_of_turn>")),
    "gemma3_text": (_GEMMA, ("<end_of_turn>", "<start_of_turn>")),
    "mistral": (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }}"
        " [/INST]{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
        ("[INST]", "[/INST]"),
    ),
    "phi3": (
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
        ("<|end|>", "<|user|>", "<|assistant|>"),
    ),
    "olmo2": (
        "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
        ("<|endoftext|>", "<|user|>", "<|assistant|>"),
    ),
    "granite": (
        "{% for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }}"
        "<|end_of_text|>\n{% endfor %}{% if add_generation_prompt %}"
        "<|start_of_role|>assistant<|end_of_role|>{% endif %}",
        ("<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>"),
    ),
    "falcon": (
        "{% for m in messages %}User: {{ m.content }}\n\n{% endfor %}"
        "{% if add_generation_prompt %}Falcon:{% endif %}",
        (),
    ),
}
"""Chat template and special tokens by architecture, for architectures with a chat template."""


def save_tokenizer(folder: Path, kind: str = "llama") -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with the chat format of an architecture."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    template, specials = CHATS.get(kind, (None, ()))
    backend.train_from_iterator(
        [PAPER_TEXT] * 4,
        trainers.BpeTrainer(
            vocab_size=512,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            special_tokens=["<s>", "</s>"],
            show_progress=False,
        ),
    )
    backend.add_tokens([AddedToken(token, special=True) for token in specials])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token=specials[0] if specials else "</s>",
        pad_token="</s>",
        chat_template=template,
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def save_model(folder: Path, kind: str, dtype: torch.dtype = torch.float32, **sizes: Any) -> Path:
    """The folder of a model: config, weights and tokenizer of an architecture."""
    tokenizer = save_tokenizer(folder, kind)
    config = AutoConfig.for_model(
        kind,
        vocab_size=-(-len(tokenizer) // 8) * 8,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **{**SIZES[kind], **sizes},
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)  # larger weights make the effect of a missed token visible
        model.to(dtype).save_pretrained(folder)
    return folder
