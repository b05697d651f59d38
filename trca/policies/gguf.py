"""GGUF files as folders of Hugging Face models.

llama.cpp and Ollama store a model as one GGUF file, often with quantized weights. `gguf_model`
dequantizes the weights to float32 and writes weights, config and tokenizer into a folder of the
cache. Training, engines and export then read an ordinary folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tokenizers import pre_tokenizers, processors
from tokenizers.pre_tokenizers import PreTokenizer

from trca.common.cache import build_once, cache_folder
from trca.common.extras import missing_extra
from trca.common.files import sha256
from trca.policies.architectures import TESTED, refusal
from trca.policies.bpe import words_then_bytes
from trca.policies.models import quiet
from trca.policies.shrunk import QWEN_SPLIT

_VERSION: Final = 3
_LLAMA_SPLIT: Final = QWEN_SPLIT.replace(r"\p{N}|", r"\p{N}{1,3}|")


def gguf_model(file: Path) -> Path:
    """Folder of the model of a GGUF file, named by the file's SHA-256. The first call converts it.

    Raises:
        ImportError: If the package ``gguf`` is missing.
        ValueError: If the file is not a whole GGUF file, has an architecture that is not in
            `trca.policies.architectures.TESTED`, a tokenizer that is neither in `PRE_TOKENIZERS`
            nor Gemma 3's, or scaled positions.
    """
    if message := missing_extra("gguf", "a GGUF file", "gguf"):
        raise ImportError(message)
    name = f"{sha256(file)[:16]}-{_VERSION}"
    return build_once(cache_folder() / "gguf" / name, lambda folder: convert_gguf(file, folder))


def convert_gguf(file: Path, folder: Path) -> None:
    """Writes the model of a GGUF file into an empty folder, in float32; see `gguf_model`."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    kind, begins = _checked(file)
    try:
        config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{file}: Transformers cannot read this model: {error}") from None
    reason = refusal(config) if config.model_type in TESTED else f"tested are {', '.join(TESTED)}"
    if reason:
        raise ValueError(f"{file}: architecture {config.model_type} cannot be trained: {reason}")
    with quiet():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32, output_loading_info=True
        )
        dequantized, report = loaded  # weights that the file lacks would be random
        if missing := sorted(report["missing_keys"]):
            raise ValueError(f"{file} lacks {len(missing)} weights, such as {missing[0]}")
        del dequantized.config.quantization_config  # save_pretrained refuses a quantized model
        model = AutoModelForCausalLM.from_config(dequantized.config)
        model.load_state_dict(dequantized.state_dict())
        model.generation_config = dequantized.generation_config
        model.save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    if kind in PRE_TOKENIZERS:  # Transformers writes GPT-2's splitting of words for each of them
        tokenizer.backend_tokenizer.pre_tokenizer = PRE_TOKENIZERS[kind]
    if begins:  # Transformers leaves the token out, and llama.cpp adds it
        first = tokenizer.convert_ids_to_tokens(begins[0])
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=[first, "$A"],
            pair=[first, "$A", f"{first}:1", "$B:1"],
            special_tokens=[(first, begins[0])],
        )
    tokenizer.save_pretrained(folder)


def _checked(file: Path) -> tuple[str, list[int]]:
    """The pre-tokenizer that the file names, and the ids that begin each text."""
    from gguf import GGUFReader

    try:
        reader = GGUFReader(file)
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise ValueError(f"{file} is not a readable GGUF file: {error}") from None
    fields = reader.fields
    if "split.count" in fields and fields["split.count"].contents() > 1:
        raise ValueError(
            f"{file} is one part of several: join the parts with llama-gguf-split --merge"
        )
    scalings = {_content(fields, key) for key in fields if key.endswith(".rope.scaling.type")}
    if scalings - {"none"} or any(each.name.startswith("rope_") for each in reader.tensors):
        raise ValueError(
            f"{file} scales the model's positions (rope scaling), which Transformers does not read"
            " from a GGUF file. Use the model's original folder in place of the GGUF file"
        )
    model, kind = (_content(fields, f"tokenizer.ggml.{name}") for name in ("model", "pre"))
    gemma = model == "llama" and _content(fields, "general.architecture") == "gemma3"
    if not gemma and (model != "gpt2" or kind not in PRE_TOKENIZERS):
        raise ValueError(
            f"{file}: tokenizer {model!r} with pre-tokenizer {kind!r} has no tested conversion;"
            f" tested are 'gpt2' with {', '.join(map(repr, PRE_TOKENIZERS))}, and Gemma 3. Use the"
            " model's original folder in place of the GGUF file"
        )
    begin, adds, ends = (
        _content(fields, f"tokenizer.ggml.{name}")
        for name in ("bos_token_id", "add_bos_token", "add_eos_token")
    )
    adds = adds or str((gemma or kind == "llama-bpe") and bool(begin))  # llama.cpp's default
    if ends == "True" or (adds == "True" and not begin):
        raise ValueError(
            f"{file} adds a last token to each text (tokenizer.ggml.add_eos_token), or a first"
            " token that it does not name (bos_token_id). Use a file of a chat model"
        )
    return kind, [int(begin)] if adds == "True" else []


def _content(fields: Any, key: str) -> str:
    return str(fields[key].contents()) if key in fields else ""


PRE_TOKENIZERS: Final[dict[str, PreTokenizer]] = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    ),
    "qwen2": words_then_bytes(QWEN_SPLIT),
    "llama-bpe": words_then_bytes(_LLAMA_SPLIT),
}
"""Splitting of text before BPE, by the value of ``tokenizer.ggml.pre``."""
