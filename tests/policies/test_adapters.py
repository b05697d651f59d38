"""The folder of a LoRA adapter is a model: its base model with the adapter in the weights."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PrefixTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM

from tests.chats import qwen3_tokenizer, save_chat_model
from trca.algorithms import GRPOConfig
from trca.cli.run.checkpoints import is_model_name
from trca.policies.engines import engine_class
from trca.policies.model_names import local_model, missing_model, resolve_model
from trca.policies.models import load_model, load_tokenizer

IDS = torch.arange(20).view(2, 10)
ATTENTION = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def base(tmp_path):
    """A small Qwen3."""
    return save_chat_model(tmp_path / "base", qwen3_tokenizer())


def tied(folder):
    """The same model with a head that shares the weights of the embedding."""
    model = load_model(str(folder))
    model.config.tie_word_embeddings = True
    model.tie_weights()
    target = folder.with_name("tied")
    model.save_pretrained(target)
    qwen3_tokenizer().save_pretrained(target)
    return target


def tune(base, tokens=0, **lora):
    """A model with an adapter of random weights, as SFT leaves it."""
    model = AutoModelForCausalLM.from_pretrained(base)
    if tokens:
        model.resize_token_embeddings(model.config.vocab_size + tokens)
    tuned = get_peft_model(model, LoraConfig(**{**ATTENTION, **lora}))
    torch.manual_seed(0)
    for name, weight in tuned.named_parameters():
        if weight.requires_grad or (tokens and "embed_tokens" in name):
            torch.nn.init.normal_(weight, std=0.3)
    return tuned.eval()


def save(tuned, folder, **changes):
    """Saves an adapter without tokenizer; changes replace entries of its config."""
    tuned.save_pretrained(folder, save_embedding_layers="auto")
    config = folder / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    return folder


def resolve(folder):
    return resolve_model(str(folder), env_id="")


@pytest.mark.parametrize(
    "lora",
    [
        {},
        {"target_modules": "all-linear", "lora_alpha": 32, "use_rslora": True},
        {"use_dora": True},
        {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 9}},
        {"init_lora_weights": "pissa"},
    ],
)
def test_a_merged_adapter_has_peft_s_logits(base, tmp_path, lora):
    tuned = tune(base, **lora)
    folder = resolve(save(tuned, tmp_path / "adapter"))
    model = load_model(folder)
    with torch.no_grad():
        expected = tuned(IDS).logits
        torch.testing.assert_close(model(IDS).logits, expected, atol=1e-4, rtol=1e-4)
        original = load_model(str(base))(IDS).logits
    assert (original - expected).abs().max() > 0.1
    assert all(weight.requires_grad for weight in model.parameters())
    text = "go to <think> desk 12"
    assert load_tokenizer(folder)(text) == load_tokenizer(str(base))(text)


@pytest.mark.parametrize(
    "lora",
    [
        {"modules_to_save": ["lm_head", "embed_tokens"]},
        {"target_modules": ["q_proj", "embed_tokens", "lm_head"]},
    ],
)
def test_trained_embeddings_and_heads_arrive(base, tmp_path, lora):
    tuned = tune(base, **lora)
    merged = load_model(resolve(save(tuned, tmp_path / "adapter")))
    with torch.no_grad():
        torch.testing.assert_close(merged(IDS).logits, tuned(IDS).logits, atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="share their weights; merge it with the program"):
        resolve(save(tune(tied(base), **lora), tmp_path / "of tied"))


@pytest.mark.parametrize("shared", [True, False])
def test_the_embeddings_of_further_tokens_arrive(base, tmp_path, shared):
    base = tied(base) if shared else base
    tuned = tune(base, tokens=3)
    adapter = save(tuned, tmp_path / "adapter")
    tokenizer = qwen3_tokenizer()
    tokenizer.add_tokens(["<a>", "<b>"])
    tokenizer.save_pretrained(adapter)
    folder = resolve(adapter)
    merged = load_model(folder)
    assert merged.config.vocab_size == load_model(str(base)).config.vocab_size + 3
    assert load_tokenizer(folder)("<b>")["input_ids"] == [len(tokenizer) - 1]
    with torch.no_grad():
        torch.testing.assert_close(merged(IDS).logits, tuned(IDS).logits, atol=1e-4, rtol=1e-4)


def test_an_adapter_on_an_adapter(base, tmp_path):
    """DPO or RL after SFT: the base model of the second adapter is the first adapter."""
    first = save(tune(base), tmp_path / "first")
    tuned = tune(Path(resolve(first)), target_modules=["k_proj"])
    second = save(tuned, tmp_path / "second", base_model_name_or_path=str(first))
    with torch.no_grad():
        logits = load_model(resolve(second))(IDS).logits
        torch.testing.assert_close(logits, tuned(IDS).logits, atol=1e-4, rtol=1e-4)


def test_the_precision_is_the_base_model_s(base, tmp_path):
    adapter = save(tune(base), tmp_path / "adapter")
    exact = load_model(resolve(adapter)).state_dict()
    load_model(str(base)).bfloat16().save_pretrained(base)
    rounded = load_model(resolve(adapter)).state_dict()
    for name, tensor in rounded.items():
        assert tensor.dtype == torch.bfloat16
        torch.testing.assert_close(tensor.float(), exact[name], atol=0.02, rtol=0.02)


def test_the_same_content_is_merged_once(base, tmp_path):
    tuned = tune(base)
    adapter = save(tuned, tmp_path / "adapter")
    first = resolve(adapter)
    assert resolve(Path(shutil.copytree(adapter, tmp_path / "copy"))) == first
    qwen3_tokenizer("{{ messages }}").save_pretrained(adapter)
    assert (second := resolve(adapter)) != first
    save(tune(base, lora_alpha=1), adapter)
    assert (third := resolve(adapter)) not in (first, second)
    model = load_model(str(base))
    model.model.norm.weight.data.mul_(2)
    model.save_pretrained(base)
    assert resolve(adapter) not in (first, second, third)


def of_another_model(base, folder):
    adapter = save(tune(base), folder)
    model = load_model(str(base))
    del model.model.layers[-1]
    model.config.num_hidden_layers -= 1
    model.config.layer_types.pop()
    model.save_pretrained(base)
    return adapter


def without_weights(base, folder):
    save(tune(base), folder).joinpath("adapter_model.safetensors").unlink()
    return folder


def with_nan(base, folder):
    tuned = tune(base)
    next(p for n, p in tuned.named_parameters() if "lora_B" in n).data[0, 0] = torch.nan
    return save(tuned, folder)


def of_prefixes(base, folder):
    model = AutoModelForCausalLM.from_pretrained(base)
    config = PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    get_peft_model(model, config).save_pretrained(folder)
    return folder


def no_json(base, folder):
    save(tune(base), folder).joinpath("adapter_config.json").write_text("{")
    return folder


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (of_another_model, r"cannot be merged into .*base: \d+ weights do not fit, such as base"),
        (without_weights, "LoRA adapter without adapter_model.safetensors"),
        (with_nan, "cannot be merged"),
        (of_prefixes, "peft_type PREFIX_TUNING .* give a LORA adapter"),
        (no_json, "adapter_config.json is not a config of peft"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(base, tmp_path, write, message):
    with pytest.raises(ValueError, match=message):
        resolve(write(base, tmp_path / "adapter"))


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("owner/model-that-is-elsewhere", "run: hf download owner/model-that-is-elsewhere$"),
        ("/data/elsewhere", "no model at '/data/elsewhere': give .* in adapter_config.json"),
        (None, "name a folder with weights or a hub name in adapter_config.json"),
    ],
)
def test_a_base_model_that_is_elsewhere_is_named_with_the_fix(base, tmp_path, name, fix):
    adapter = save(tune(base), tmp_path / "adapter", base_model_name_or_path=name)
    with pytest.raises(ValueError, match=f"LoRA adapter, and its base model .*{name or ''}.*{fix}"):
        resolve(adapter)
    with pytest.raises(ValueError, match="is a LoRA adapter"):
        load_model(str(adapter))
    assert "is a LoRA adapter" in missing_model(str(adapter), ask_hub=False)
    assert local_model(str(adapter), "", {}, "action") == ""


def test_an_adapter_and_its_base_model_in_the_hub_s_cache(base, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    expected = resolve(save(tune(base), tmp_path / "adapter"))
    save(tune(base), tmp_path / "adapter", base_model_name_or_path="owner/base")
    for name in ("base", "adapter"):
        cached = tmp_path / "hub" / f"models--owner--{name}"
        (cached / "refs").mkdir(parents=True)
        (cached / "refs" / "main").write_text("0" * 40)
        shutil.copytree(tmp_path / name, cached / "snapshots" / ("0" * 40))
    for name in (str(tmp_path / "adapter"), "owner/adapter"):
        state = load_model(resolve_model(name, env_id="")).state_dict()
        for key, tensor in load_model(expected).state_dict().items():
            assert torch.equal(state[key], tensor)


@pytest.mark.parametrize("rank", [0, 4])
def test_policy_reference_and_engine_of_a_run_start_from_the_merged_model(base, tmp_path, rank):
    tuned = tune(base)
    adapter = save(tuned, tmp_path / "adapter")
    config = GRPOConfig().environment("alfworld", env_config={"games": "small"})
    config.training(model=str(adapter), engine="transformers", lora_rank=rank, kl_coeff=0.1)
    config.validate()
    assert is_model_name(str(adapter))
    (module,) = config.get_multi_rl_module_spec().build().values()
    spec = config.engine_spec(config.resolved_model(), "cpu")
    engine = engine_class("transformers").open(spec)
    networks = [module.model, engine.model] + ([] if rank else [module.reference])
    with torch.no_grad():
        for network in networks:
            torch.testing.assert_close(network(IDS).logits, tuned(IDS).logits, atol=1e-4, rtol=1e-4)
