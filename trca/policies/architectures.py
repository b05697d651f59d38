"""Supported architectures, and the reasons to refuse a model.

::

    check_model("Qwen/Qwen2.5-1.5B-Instruct", prompt_tokens=2048, new_tokens=512)
"""

from __future__ import annotations

from typing import Any, Final

from trca.common.errors import first_line

TESTED: Final[dict[str, str]] = {
    "llama": "Llama 2 and 3",
    "qwen2": "Qwen2, Qwen2.5",
    "qwen3": "Qwen3",
    "qwen3_moe": "Qwen3-MoE",
    "gemma2": "Gemma 2",
    "gemma3_text": "Gemma 3, text only",
    "mistral": "Mistral",
    "phi3": "Phi-3, Phi-4",
    "smollm3": "SmolLM3",
    "olmo2": "OLMo 2",
    "granite": "Granite",
    "gpt2": "GPT-2",
    "gpt_neox": "GPT-NeoX, Pythia",
    "opt": "OPT",
    "falcon": "Falcon with rotary positions",
    "qwen3_5_text": "Qwen3.5, text only",
    "qwen3_next": "Qwen3-Next",
}
"""Hugging Face's ``model_type`` and the names of its models. The tests train each type."""

RECURRENT: Final = "linear_attention"
"""Layers with a recurrent state in place of keys and values."""
_LAYERS: Final = frozenset({"full_attention", "sliding_attention"})
_HYBRID: Final = frozenset({"qwen3_5_text", "qwen3_next"})
"""Tested architectures with recurrent layers."""


def check_model(name: str, prompt_tokens: int, new_tokens: int) -> None:
    """Refuses an unsupported model before any weight is loaded.

    Raises:
        ValueError: In one line: the model, the reason and the fix.
    """
    from transformers import AutoConfig

    from trca.policies.models import load_tokenizer
    from trca.policies.spans import token_bytes

    try:
        config = AutoConfig.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"model {name!r} has no readable config.json: {first_line(error)}"
        ) from None
    if reason := refusal(config):
        raise ValueError(f"model {name!r} ({config.model_type}) cannot be trained here: {reason}")
    positions = context_length(config)
    if positions is not None and prompt_tokens + new_tokens > positions:
        raise ValueError(
            f"model {name!r} has {positions} positions: max_prompt_tokens {prompt_tokens} and"
            f" max_new_tokens {new_tokens} need {prompt_tokens + new_tokens}; lower them"
        )
    try:
        tokenizer = load_tokenizer(name)
        token_bytes(tokenizer)
    except (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"model {name!r} has no usable tokenizer: {first_line(error)}") from None
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"model {name!r} has embeddings of {config.vocab_size} tokens and its tokenizer"
            f" has {len(tokenizer)}: give a folder in which model and tokenizer match"
        )


def refusal(config: Any) -> str | None:
    """Returns the reason why the architecture of a config is not supported, or `None`."""
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    if config.is_encoder_decoder:
        return "it is an encoder-decoder; choose a decoder-only model"
    causal = AutoModelForCausalLM._model_mapping
    if config.get_text_config() is not config:
        if type(config) in causal and getattr(causal[type(config)], "__name__", "").endswith(
            "ForCausalLM"
        ):
            return (
                "it is a multimodal model; save its language model with"
                " AutoModelForCausalLM.from_pretrained(NAME).save_pretrained(FOLDER), save the"
                " tokenizer in the same folder, and give the folder"
            )
        return "it is a multimodal model; choose the text-only model of its family"
    if type(config) not in causal:
        return "Transformers has no causal language model of this architecture"
    network: Any = causal[type(config)]
    kinds = set(getattr(config, "layer_types", None) or ()) - _LAYERS
    if (network._is_stateful or kinds) and config.model_type not in _HYBRID:
        layers = f" with {', '.join(sorted(kinds))}" if kinds else ""
        return (
            f"it is a state-space or hybrid model{layers}, and no test compares its recurrent state"
            f" in sampling and training; choose a pure attention model or one of the types"
            f" {', '.join(sorted(_HYBRID))}"
        )
    masked = type(config) in AutoModelForMaskedLM._model_mapping
    if masked and getattr(config, "is_decoder", True) is False:
        return "it is an encoder with bidirectional attention; choose a decoder-only model"
    if config.model_type == "bloom" or getattr(config, "alibi", False):
        return "it uses ALiBi positions; choose a model with rotary or learned positions"
    return None


def context_length(config: Any) -> int | None:
    """Returns the largest sum of prompt and response tokens; `None` for no limit.

    With LongRoPE the rotary frequencies change at a certain length of the batch, and sampler and
    trainer would disagree beyond it. This length is then the limit.
    """
    config = config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        original = rope.get("original_max_position_embeddings") or getattr(
            config, "original_max_position_embeddings", None
        )
        positions = min(n for n in (positions, original) if n is not None)
    return positions if positions is None else int(positions)
