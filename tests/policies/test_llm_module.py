import pickle
import shutil

import numpy as np
import pytest
import torch
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

from trca.envs.text_space import AnyText
from trca.policies.engines.engine import Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.llm_module import LLMModule
from trca.policies.models import load_model, load_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny, tokenizer):
    path = tmp_path_factory.mktemp("model")
    tiny.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def build(folder, inference_only=False, **config):
    spec = RLModuleSpec(
        module_class=LLMModule,
        observation_space=AnyText(),
        action_space=AnyText(),
        model_config={"model": folder, **config},
        inference_only=inference_only,
    )
    return spec.build()


def batch():
    torch.manual_seed(0)
    ids = torch.randint(0, 250, (3, 16))
    row, position = torch.tensor([0, 0, 1, 2]), torch.tensor([4, 5, 14, 0])
    return {"input_ids": ids, "row": row, "position": position, "targets": ids[row, position + 1]}


def test_scores_equal_those_of_the_full_forward_pass(folder):
    module, asked = build(folder), batch()
    out = module.score(**asked, temperature=0.7)
    logits = module.model(asked["input_ids"]).logits[..., : module.vocabulary] / 0.7
    scores = logits.log_softmax(-1)[asked["row"], asked["position"]]
    expected = scores.gather(1, asked["targets"][:, None])[:, 0]
    torch.testing.assert_close(out["logprobs"], expected)
    torch.testing.assert_close(out["entropy"], -(scores.exp() * scores).sum(-1))


def test_padding_on_the_right_changes_no_score(folder):
    module, asked = build(folder), batch()
    ids = torch.nn.functional.pad(asked["input_ids"], (0, 8), value=3)
    wide = module.score(**{**asked, "input_ids": ids})["logprobs"]
    torch.testing.assert_close(module.score(**asked)["logprobs"], wide, atol=1e-5, rtol=0)


def test_the_trainer_scores_what_the_engine_sampled(folder):
    module, tokenizer = build(folder), load_tokenizer(folder)
    prompt = np.arange(20, dtype=np.int32)
    completion = TransformersEngine(module.model, tokenizer).generate(
        [Request(prompt, 3)], SamplingParams(0.8, 12)
    )[0]
    ids = torch.tensor(np.concatenate([prompt, completion.ids])[None], dtype=torch.long)
    position = torch.arange(len(prompt) - 1, ids.shape[1] - 1)
    out = module.score(
        input_ids=ids,
        row=torch.zeros_like(position),
        position=position,
        targets=ids[0, position + 1],
        temperature=0.8,
    )
    np.testing.assert_allclose(out["logprobs"].detach().numpy(), completion.logprobs, atol=1e-4)


def test_only_a_learner_that_asks_holds_a_frozen_reference(folder):
    assert not hasattr(build(folder), "reference")
    assert not hasattr(build(folder, inference_only=True, reference=True), "reference")
    module, asked = build(folder, reference=True), batch()
    assert not any(p.requires_grad for p in module.reference.parameters())
    before = module.score(**asked, reference=True)["logprobs"]
    with torch.no_grad():
        for parameter in module.model.parameters():
            parameter.mul_(0.9)
    torch.testing.assert_close(module.score(**asked, reference=True)["logprobs"], before)
    assert not torch.allclose(module.score(**asked)["logprobs"], before)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_are_exported_completely_and_tied_weights_once(folder, dtype):
    module = build(folder, dtype=dtype, reference=True)
    state = pickle.loads(pickle.dumps(module.get_state(inference_only=True)))
    assert "lm_head.weight" not in state
    assert not any("reference" in name for name in state)
    other = build(folder, dtype=dtype, inference_only=True)
    with torch.no_grad():
        for parameter in other.model.parameters():
            parameter.zero_()
    other.set_state(state)
    for name, tensor in module.model.state_dict().items():
        sent = other.model.state_dict()[name]
        assert sent.dtype is getattr(torch, dtype)
        assert torch.equal(tensor.to(sent.dtype), sent)
    assert other.model.lm_head.weight is other.model.model.embed_tokens.weight


def test_training_in_bfloat16_keeps_updates_that_bfloat16_weights_would_lose(folder):
    module, asked = build(folder, dtype="bfloat16"), batch()
    optimizer = torch.optim.SGD(module.model.parameters(), lr=1e-6)
    before = module.get_state()["model.norm.weight"]
    module.score(**asked)["logprobs"].sum().backward()
    optimizer.step()
    after = module.get_state()["model.norm.weight"]
    assert 0 < np.abs(after - before).max() < 2**-9
    exact = build(folder).score(**asked)["logprobs"]
    mixed = module.score(**asked)["logprobs"]
    assert mixed.dtype is torch.float32
    torch.testing.assert_close(mixed, exact, atol=0.05, rtol=0)


def test_weights_of_another_model_are_refused(folder):
    module = build(folder)
    state = module.get_state()
    state["model.norm.weight"] = np.zeros(3, dtype=np.float32)
    with pytest.raises(ValueError, match=r"model\.norm\.weight \(3,\) for \(64,\)"):
        module.set_state(state)


def test_checkpoints_are_read_back(folder, tmp_path):
    module = build(folder, reference=True)
    with torch.no_grad():
        module.model.model.norm.weight.mul_(1.5)
    module.save_to_path(tmp_path)
    other = LLMModule.from_checkpoint(tmp_path)
    assert torch.equal(other.model.model.norm.weight, module.model.model.norm.weight)


def test_an_adapter_is_not_read_back_onto_another_model(folder, tmp_path):
    pytest.importorskip("peft")
    start = shutil.copytree(folder, tmp_path / "start")
    module = build(str(start), lora_rank=2)
    module.save_to_path(tmp_path / "checkpoint")
    LLMModule.from_checkpoint(tmp_path / "checkpoint")
    other = load_model(folder)
    with torch.no_grad():
        other.model.norm.weight.mul_(1.5)
    other.save_pretrained(start)
    with pytest.raises(ValueError, match=r"adapter was trained on weights of .* put the first"):
        RLModule.from_checkpoint(tmp_path / "checkpoint")


def test_gradient_checkpointing_gives_the_same_gradients(folder):
    def gradients(**config):
        module = build(folder, **config)
        module.train()
        module.forward_train(batch())["logprobs"].sum().backward()
        return [p.grad for p in module.model.parameters()]

    for one, other in zip(gradients(), gradients(gradient_checkpointing=True), strict=True):
        torch.testing.assert_close(one, other)


def test_an_unknown_dtype_is_refused(folder):
    with pytest.raises(ValueError, match="'float8': choose from auto, float32, bfloat16"):
        load_model(folder, "float8")
