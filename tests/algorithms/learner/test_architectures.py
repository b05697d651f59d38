import re
from pathlib import Path

import numpy as np
import pytest
import torch
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMultimodalLM

from tests.architectures import SIZES, WINDOW, save_model, save_tokenizer
from trca.policies.architectures import TESTED, check_model
from trca.policies.models import load_model, load_tokenizer

pytestmark = pytest.mark.usefixtures("cluster")
SHORT = {
    "template": "paper",
    "env_config": {"max_steps": 2},
    "tasks_per_iteration": 1,
    "group_size": 2,
    "max_prompt_tokens": 400,
    "max_new_tokens": 6,
    "micro_batch_tokens": 8192,
    "train_malformed": True,
}


def scores(folder, step):
    """Log-probabilities of a response by the model's own forward pass, within the tokenizer."""
    ids = torch.tensor(np.concatenate([step.prompt_ids, step.response_ids])[None]).long()
    first, vocabulary = len(step.prompt_ids), len(load_tokenizer(str(folder)))
    with torch.no_grad():
        logits = load_model(str(folder))(ids, use_cache=False).logits[0, first - 1 : -1]
    return logits[:, :vocabulary].log_softmax(-1).gather(1, ids[0, first:, None])[:, 0]


EACH = [
    kind
    if kind in ("qwen2", "gpt2", "gemma3_text", "qwen3_next")
    else pytest.param(kind, marks=pytest.mark.slow)
    for kind in TESTED
]
"""The fast tests have one architecture of each sort: two, absolute positions, windows, hybrid."""


@pytest.mark.parametrize("kind", EACH)
def test_models_as_users_have_them_train(build, make_config, tmp_path, kind):
    folder = save_model(tmp_path / kind, kind)
    config = make_config(model=str(folder), gradient_checkpointing=True, **SHORT)
    algorithm = build(config)
    before = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    first = algorithm.train()
    step = algorithm.rollouts[0].steps[0]
    assert len(step.prompt_ids) > 2 * WINDOW
    np.testing.assert_allclose(step.old_logprobs, scores(folder, step), atol=1e-5)
    second = algorithm.train()
    after = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    for result in (first, second):
        assert result["missing_rollouts"] == 0
        assert result["skipped_updates"] == 0
        assert abs(result["mismatch_kl"]) < 1e-9
    assert any(not np.array_equal(before[name], after[name]) for name in before)
    assert all(np.isfinite(value).all() for value in after.values())


def test_every_tested_architecture_stands_in_the_docs():
    page = Path(__file__).parents[3] / "docs" / "models.md"
    section = page.read_text().partition("\n## Which models\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE))
    assert rows == TESTED
    assert set(SIZES) == set(TESTED)


@pytest.mark.parametrize("dtype", ["bfloat16", "auto"])
def test_bfloat16_trains_on_a_cpu_and_is_one_precision_everywhere(
    build, make_config, tmp_path, dtype
):
    folder = save_model(tmp_path, "qwen3", torch.bfloat16)
    config = make_config(model=str(folder), dtype=dtype, kl_coeff=0.1, **SHORT)
    algorithm = build(config)
    result = algorithm.train()
    module = algorithm.learner_group._learner.module[DEFAULT_MODULE_ID]
    assert {p.dtype for p in module.reference.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in module.model.parameters()} == {torch.float32}
    assert result["skipped_updates"] == 0
    assert 0 < result["mismatch_kl"] < 0.02
    weights = algorithm.env_runner.get_state()[COMPONENT_RL_MODULE][DEFAULT_MODULE_ID]
    assert {w.dtype for w in weights.values()} == {np.dtype(np.uint16)}


def refused(folder: Path, prompt_tokens: int = 100) -> str:
    with pytest.raises(ValueError, match="model") as caught:
        check_model(str(folder), prompt_tokens, 20)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("t5", {}, "it is an encoder-decoder"),
        ("mamba", {}, "state-space or hybrid"),
        ("falcon_h1", {}, "state-space or hybrid"),
        ("olmo_hybrid", {"pad_token_id": 0}, "hybrid model with linear_attention, and no test"),
        ("qwen3_5", {}, "AutoModelForCausalLM.from_pretrained(NAME).save_pretrained(FOLDER)"),
        ("bloom", {}, "uses ALiBi positions"),
        ("falcon", {"alibi": True}, "uses ALiBi positions"),
        ("bert", {}, "it is an encoder"),
        ("gemma3", {}, "is a multimodal model"),
        ("vit", {}, "no causal language model"),
    ],
)
def test_architectures_that_cannot_train_are_refused_by_name(tmp_path, kind, settings, reason):
    AutoConfig.for_model(kind, **settings).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    message = refused(tmp_path)
    assert str(tmp_path) in message
    assert f"({kind})" in message
    assert reason in message


def test_the_language_model_of_a_multimodal_qwen_is_accepted(tmp_path):
    """As the refusal of the multimodal model advises."""
    sizes = {**SIZES["qwen3_5_text"], "vocab_size": 600, "pad_token_id": 0}
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2}
    config = AutoConfig.for_model(
        "qwen3_5", text_config=sizes, vision_config={**vision, "out_hidden_size": 32}
    )
    AutoModelForMultimodalLM.from_config(config).save_pretrained(tmp_path / "whole")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "whole")
    model.save_pretrained(tmp_path / "text")
    save_tokenizer(tmp_path / "text")
    check_model(str(tmp_path / "text"), 100, 20)
    loaded = load_model(str(tmp_path / "text"))
    assert loaded.config.model_type == "qwen3_5_text"
    assert all(
        torch.equal(value, loaded.state_dict()[name]) for name, value in model.state_dict().items()
    )


def test_a_model_without_tokenizer_config_or_room_is_refused(tmp_path):
    assert "no readable config.json" in refused(tmp_path)
    AutoConfig.for_model("gpt2", n_positions=256, vocab_size=600).save_pretrained(tmp_path)
    assert "no usable tokenizer" in refused(tmp_path)
    save_tokenizer(tmp_path)
    check_model(str(tmp_path), 236, 20)
    assert "has 256 positions: max_prompt_tokens 237 and max_new_tokens 20" in refused(
        tmp_path, 237
    )
    AutoConfig.for_model("gpt2", vocab_size=300).save_pretrained(tmp_path)
    assert "model and tokenizer match" in refused(tmp_path)


def test_long_rope_ends_where_its_frequencies_change(tmp_path):
    save_tokenizer(tmp_path)
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    AutoConfig.for_model(
        "phi3",
        **{**SIZES["phi3"], "max_position_embeddings": 4096},
        vocab_size=600,
        original_max_position_embeddings=110,
        rope_parameters={"rope_type": "longrope", "rope_theta": 10_000.0, **factors},
    ).save_pretrained(tmp_path)
    assert "has 110 positions" in refused(tmp_path)


def test_a_refused_model_starts_nothing(make_config, tmp_path):
    AutoConfig.for_model("mamba").save_pretrained(tmp_path)
    config = make_config(model=str(tmp_path))
    with pytest.raises(ValueError, match=r"\(mamba\) cannot be trained here: it is a state-space"):
        config.validate()
