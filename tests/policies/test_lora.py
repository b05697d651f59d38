"""LoRA: trained parameters, transferred weights, the reference and the merged model."""

import pytest
import torch

from tests.architectures import save_model
from tests.policies.test_llm_module import batch, build
from trca.policies.lora import add_lora, lora_as, lora_off, merge_lora, share_bases
from trca.policies.models import load_model
from trca.policies.weights import export_weights

KINDS = ["qwen2", "qwen3", "gpt2", "falcon", "phi3"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    return {kind: str(save_model(path / kind, kind)) for kind in KINDS}


def build_lora(folder, inference_only=False, **config):
    return build(folder, inference_only, lora_rank=4, lora_alpha=8, reference=True, **config)


def move(module):
    """Changes the adapter, in place of training."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.model.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn_like(parameter)


def scores(module, reference=False):
    with torch.no_grad():
        return module.score(**batch(), reference=reference)["logprobs"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_reference_is_the_model_without_its_adapter(folders, kind, dtype):
    module, plain = build_lora(folders[kind], dtype=dtype), build(folders[kind], dtype=dtype)
    plain.model = load_model(folders[kind], dtype)
    assert torch.equal(scores(module), scores(plain))
    move(module)
    assert not torch.allclose(scores(module), scores(plain), atol=1e-3)
    assert torch.equal(scores(module, reference=True), scores(plain))
    assert not hasattr(module, "reference")


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_adapter_is_trained_even_after_scoring_the_reference(folders, kind):
    module = build_lora(folders[kind], dtype="bfloat16", gradient_checkpointing=True)
    move(module)
    scores(module, reference=True)
    module.score(**batch())["logprobs"].sum().backward()
    trained = {name for name, p in module.model.named_parameters() if p.requires_grad}
    assert trained == {name for name, p in module.model.named_parameters() if p.grad is not None}
    assert all("lora_" in name and "head" not in name for name in trained)
    assert {p.dtype for p in module.model.parameters() if p.requires_grad} == {torch.float32}


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_adapter_is_exported_and_engine_and_trainer_agree(folders, kind):
    trainer, engine = build_lora(folders[kind]), build_lora(folders[kind], inference_only=True)
    move(trainer)
    state = trainer.get_state(inference_only=True)
    layers = {name.rpartition(".lora_")[0] for name in state}
    assert set(state) == {f"{name}.lora_{part}.weight" for name in layers for part in "AB"}
    assert all(min(array.shape) == 4 for array in state.values())
    engine.set_state(state)
    assert torch.equal(scores(engine), scores(trainer))


def test_learners_start_from_the_same_adapter(folders):
    torch.manual_seed(3)
    one = build_lora(folders["qwen2"]).get_state()
    before = torch.get_rng_state()
    other = build_lora(folders["qwen2"]).get_state()
    assert torch.equal(before, torch.get_rng_state())
    assert all((one[name] == other[name]).all() for name in one)


def test_roles_with_adapters_on_a_shared_model_train_like_roles_with_separate_models(folders):
    def trained(module, roles):
        parameters = [p for p in module.model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=1e-2)
        for role in roles:
            optimizer.zero_grad()
            with lora_as(module.model, role):
                sign = -1 if role == "critic" else 1
                (sign * module.score(**batch())["logprobs"].sum()).backward()
            optimizer.step()
        return [export_weights(module.model, adapter=role) for role in dict.fromkeys(roles)]

    shared, *alone = (build_lora(folders["qwen2"]) for _ in range(3))
    base = scores(shared)
    add_lora(shared.model, 4, 8, torch.float32, name="critic")
    add_lora(alone[1].model, 4, 8, torch.float32, name="critic")
    states = trained(shared, ["default", "critic"] * 2)
    (actor,), (critic,) = trained(alone[0], ["default"] * 2), trained(alone[1], ["critic"] * 2)
    for of_shared, of_one in zip(states, (actor, critic), strict=True):
        assert all((of_shared[name] == of_one[name]).all() for name in of_one)
    assert any((actor[name] != critic[name]).any() for name in actor)

    engines = [build_lora(folders["qwen2"], inference_only=True) for _ in states]
    for engine, weights, role in zip(engines, states, ("default", "critic"), strict=True):
        engine.set_state(weights)
        with lora_as(shared.model, role):
            assert torch.equal(scores(engine), scores(shared))
    assert torch.equal(scores(shared, reference=True), base)
    with pytest.raises(ValueError, match="unknown adapter 'judge': Known: default, critic"):
        lora_as(shared.model, "judge").__enter__()


def test_weights_of_another_rank_are_refused(folders):
    module = build_lora(folders["qwen2"])
    other = build(folders["qwen2"], lora_rank=2)
    with pytest.raises(ValueError, match=r"wrong shapes .*lora_A"):
        module.set_state(other.get_state())
    with pytest.raises(ValueError, match=r"missing .*lora_A"):
        module.set_state(build(folders["qwen2"]).get_state())


@pytest.mark.parametrize("kind", KINDS)
def test_a_merged_model_is_a_plain_model_with_equal_outputs(folders, kind, tmp_path):
    module = build_lora(folders[kind])
    move(module)
    with_adapter = scores(module)
    merge_lora(module.model)
    torch.testing.assert_close(scores(module), with_adapter, atol=1e-5, rtol=0)
    module.model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("adapter*"))
    again = load_model(str(tmp_path))
    assert again.state_dict().keys() == load_model(folders[kind]).state_dict().keys()
    module.model = again
    torch.testing.assert_close(scores(module), with_adapter, atol=1e-5, rtol=0)


def test_the_adapter_is_on_again_after_an_error(folders):
    module = build_lora(folders["qwen2"])
    move(module)
    before = scores(module)
    with pytest.raises(KeyError), lora_off(module.model):
        raise KeyError
    assert torch.equal(scores(module), before)


@pytest.mark.parametrize("kind", KINDS)
def test_policies_on_the_same_base_store_the_base_once(folders, kind):
    one, other, whole = (build_lora(folders[kind]) for _ in range(3))
    apart = build(folders[kind])
    move(one)
    before = scores(one), scores(other)
    share_bases([one.model, other.model, apart.model])
    assert torch.equal(scores(one), before[0])
    assert torch.equal(scores(other), before[1])

    def places(module, factors):
        parameters = module.model.named_parameters()
        return {p.data_ptr() for name, p in parameters if ("lora_" in name) == factors}

    assert places(one, factors=False) == places(other, factors=False)
    assert not places(one, factors=True) & places(other, factors=True)
    assert not places(one, factors=False) & places(apart, factors=False)
    assert not places(one, factors=False) & places(whole, factors=False)
    move(other)
    assert torch.equal(scores(one), before[0])
    assert not torch.equal(scores(other), before[1])


def test_policies_of_other_precisions_keep_their_bases(folders):
    exact, rounded = (build_lora(folders["qwen2"], dtype=d) for d in ("float32", "bfloat16"))
    before = scores(exact), scores(rounded)
    share_bases([exact.model, rounded.model])
    assert torch.equal(scores(exact), before[0])
    assert torch.equal(scores(rounded), before[1])
