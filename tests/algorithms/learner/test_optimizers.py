"""Optimizers: their parameters, their steps, their state in checkpoints, and refusals."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from torch.distributed.tensor import DTensor

from tests.algorithms.base.test_training import weights_of
from tests.algorithms.learner.test_learner import build, rows, state
from tests.architectures import save_model
from tests.processes import together
from trca.algorithms import TRCA, TurnPPOConfig, export
from trca.algorithms.learner.checkpoint import training_tensors
from trca.algorithms.learner.critic import ActorCriticLearner
from trca.algorithms.learner.optimizers import OtherOptimizerError
from trca.common.registry import load_file
from trca.envs.text_space import AnyText
from trca.policies.llm_module import LLMModule

pytestmark = pytest.mark.usefixtures("cluster")

MUON_FILE = Path(__file__).parents[3] / "examples" / "own_optimizer" / "muon.py"
MUON = f"{MUON_FILE}:muon"
OWN = """
import torch

def momentum(spec):
    return {"sgd": torch.optim.SGD(spec.groups, momentum=0.9)}

def bare(spec):
    return torch.optim.SGD(spec.groups)

def half(spec):
    (group,) = spec.groups
    return {"sgd": torch.optim.SGD(group["params"][::2], lr=group["lr"])}

class Counting(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["steps"] = self.state[parameter].get("steps", 0) + 1

def counting(spec):
    return {"sgd": Counting(spec.groups)}
"""


@pytest.fixture(scope="module")
def own_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("optimizers") / "own.py"
    path.write_text(OWN)
    return path


@pytest.fixture(params=[pytest.param("muon", marks=pytest.mark.slow), "own"])
def optimizer(request, own_file):
    return MUON if request.param == "muon" else f"{own_file}:momentum"


def optimizers_of(learner):
    return learner.updaters[DEFAULT_MODULE_ID].optimizers


def names_in(learner, optimizer):
    """The names of the parameters of one optimizer."""
    module = learner.module[DEFAULT_MODULE_ID]
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    groups = optimizers_of(learner)[optimizer].param_groups
    return {names[id(parameter)] for group in groups for parameter in group["params"]}


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def learned(learner, times, first=0):
    """Updates so often; returns the loss of each update."""
    losses = []
    for number in range(first, first + times):
        data = TrainingData(batch=rows([True] * 12, seed=3))
        result = learner.update(training_data=data, shuffle_key=(number,))
        losses.append(result[DEFAULT_MODULE_ID]["policy"].peek())
    return losses


def test_muon_trains_the_hidden_matrices_and_adamw_the_rest(make_config):
    learner = build(make_config, optimizer=MUON)
    module = learner.module[DEFAULT_MODULE_ID]
    names = {name for name, _ in module.named_parameters()}
    hidden = {name for name in names if name.endswith("_proj.weight")}
    assert names_in(learner, "muon") == hidden
    assert names_in(learner, "adamw") == names - hidden
    assert "model.model.embed_tokens.weight" in names - hidden
    assert len(hidden) == 2 * 7
    before = state(learner)
    learned(learner, 1)
    after = state(learner)
    assert all(not np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.skipif(find_spec("peft") is None, reason="peft is not installed")
def test_muon_trains_the_whole_of_a_lora_adapter(make_config):
    learner = build(make_config, optimizer=MUON, lora_rank=4, lr=1e-2)
    assert optimizers_of(learner).keys() == {"muon"}
    assert all(".lora_" in name for name in names_in(learner, "muon"))
    before = state(learner)
    learned(learner, 2)
    after = state(learner)
    assert all(not np.array_equal(before[name], after[name]) for name in before)


def test_the_critic_keeps_its_learning_rate_under_muon(make_config):
    settings = {"optimizer": MUON, "critic": "own", "critic_lr": 5e-3, "lr_warmup_updates": 4}
    config = make_config(TurnPPOConfig, **settings)
    learner = ActorCriticLearner(config=config, module_spec=config.get_multi_rl_module_spec())
    learner.build()
    rates = {n: [g["lr"] for g in o.param_groups] for n, o in optimizers_of(learner).items()}
    assert rates == {"muon": [1e-3, 5e-3], "adamw": [1e-3, 5e-3]}
    assert "value_head.weight" in names_in(learner, "adamw")
    learner.updaters[DEFAULT_MODULE_ID]._step(True)
    rates = {n: [g["lr"] for g in o.param_groups] for n, o in optimizers_of(learner).items()}
    assert rates == {"muon": [1e-3 / 4, 5e-3 / 4], "adamw": [1e-3 / 4, 5e-3 / 4]}


def test_a_step_of_muon_is_pytorchs_and_has_the_size_of_adamws_steps(make_config):
    """Singular values are 0.2 lr sqrt(max(rows, columns)), times 0.5 to 1.5 by Newton-Schulz."""
    learner = build(make_config, optimizer=MUON, lr=1e-3, minibatch_size=99, weight_decay=0.1)
    parameters = dict(learner.module[DEFAULT_MODULE_ID].named_parameters())
    expected = {}

    def note(*_):
        for name in names_in(learner, "muon"):
            twin = parameters[name].detach().clone()
            twin.grad = parameters[name].grad.clone()
            torch.optim.Muon([twin], 1e-3, 0.1, adjust_lr_fn="match_rms_adamw").step()
            expected[name] = parameters[name].detach().clone(), twin

    optimizers_of(learner)["muon"].register_step_pre_hook(note)
    learned(learner, 1)
    assert len(expected) == 14
    for name, (before, after) in expected.items():
        assert torch.equal(parameters[name], after), name
        step = after - before * (1 - 1e-3 * 0.1)
        largest = torch.linalg.svdvals(step)[0] / (0.2 * 1e-3 * max(step.shape) ** 0.5)
        assert 0.5 < largest < 1.5, name


def test_a_class_of_pytorch_gets_the_settings_that_it_takes(make_config):
    learner = build(make_config, optimizer="torch.optim:Adafactor", weight_decay=0.1, lr=1e-2)
    (optimizer,) = optimizers_of(learner).values()
    (group,) = optimizer.param_groups
    assert type(optimizer) is torch.optim.Adafactor
    assert (group["lr"], group["weight_decay"]) == (1e-2, 0.1)
    before = state(learner)
    learned(learner, 1)
    assert all(not np.array_equal(before[name], value) for name, value in state(learner).items())


def test_the_loss_falls_with_each_optimizer(make_config, optimizer):
    rate = 1e-2 if optimizer == MUON else 3.0
    learner = build(make_config, optimizer=optimizer, lr=rate, minibatch_size=99)
    batch = rows([True] * 12, seed=3)
    advantages = np.repeat(batch.advantages, 4)
    before = float((learner.score_rows(batch) * advantages).sum())
    learned(learner, 6)
    assert float((learner.score_rows(batch) * advantages).sum()) > before + 1.0


def test_training_goes_on_bit_for_bit_after_a_restore(make_config, tmp_path, optimizer):
    settings = {"optimizer": optimizer, "lr_warmup_updates": 3, "num_epochs": 2}
    straight = make_config(**settings).build_algo()
    straight.train()
    path = straight.save_to_path(str(tmp_path / "checkpoint"))
    straight.train()
    expected = weights_of(straight)
    straight.stop()
    resumed = TRCA.from_checkpoint(path)
    between = weights_of(resumed)
    resumed.train()
    assert any(not np.array_equal(between[name], expected[name]) for name in expected)
    assert_equal(weights_of(resumed), expected)
    resumed.stop()
    assert (export(path, tmp_path / "policy") / "model.safetensors").is_file()


def test_a_restored_state_leaves_the_settings_of_the_config(make_config):
    saved = build(make_config, weight_decay=0.0, adam_betas=(0.9, 0.999))
    learned(saved, 1)
    settings = {"weight_decay": 0.1, "adam_betas": (0.8, 0.9), "lr": 3e-4}
    learner = build(make_config, **settings)
    learner.set_state(saved.get_state())
    (adamw,) = optimizers_of(learner).values()
    (group,) = adamw.param_groups
    assert (group["weight_decay"], group["betas"], group["lr"]) == (0.1, (0.8, 0.9), 3e-4)
    assert max(each["exp_avg"].abs().max() for each in adamw.state.values()) > 0


def test_an_unknown_optimizer_is_refused_with_the_nearest_name(make_config, own_file):
    with pytest.raises(ValueError, match="unknown optimizer 'adam': did you mean 'adamw'"):
        make_config(optimizer="adam")
    with pytest.raises(ValueError, match=r"give examples/own_optimizer/muon\.py:muon"):
        make_config(optimizer="muon")
    with pytest.raises(ValueError, match="has no 'momentun': did you mean 'momentum'"):
        make_config(optimizer=f"{own_file}:momentun")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bare", "bare' returned SGD: return a dict of torch.optim.Optimizer by name"),
        ("half", r"half' holds 12 parameters, 12 of them different, and the policy trains 24"),
    ],
)
def test_a_factory_that_breaks_the_contract_is_refused(make_config, own_file, name, message):
    with pytest.raises(ValueError, match=message):
        build(make_config, optimizer=f"{own_file}:{name}")


def test_state_that_is_no_tensor_is_refused_where_it_would_be_lost(make_config, own_file):
    learner = build(make_config, optimizer=f"{own_file}:counting")
    updater = learner.updaters[DEFAULT_MODULE_ID]
    training_tensors(updater.trained, updater.optimizers.values())
    learned(learner, 1)
    with pytest.raises(TypeError, match=r"keeps steps of .* as int: keep the value as a tensor"):
        training_tensors(updater.trained, updater.optimizers.values())


def test_a_checkpoint_of_another_optimizer_is_refused_before_it_is_loaded(make_config, tmp_path):
    learner = build(make_config, optimizer=MUON)
    learned(learner, 1)
    path = learner.save_to_path(str(tmp_path / "checkpoint"))
    other = build(make_config)
    before = state(other)
    foreign = {name: part for name, part in other.get_state().items() if "classes" not in name}
    with pytest.raises(OtherOptimizerError, match="the state names no optimizer"):
        other.set_state(foreign)
    message = (
        r"checkpoint has the state of optimizer '.*muon' \(Muon, AdamW\), and the config has"
        r" optimizer 'adamw' \(AdamW\): set optimizer: .*muon, or start a new run from the weights"
    )
    with pytest.raises(OtherOptimizerError, match=message):
        other.restore_from_path(path)
    assert_equal(state(other), before)
    with pytest.raises(OtherOptimizerError, match=r"the state has the state of optimizer '.*muon'"):
        other.set_state(learner.get_state())
    again = build(make_config, optimizer=MUON)
    again.restore_from_path(path)
    assert_equal(state(again), state(learner))


def test_an_optimizer_whose_file_moved_goes_on(make_config, own_file, tmp_path):
    learner = build(make_config, optimizer=f"{own_file}:momentum")
    learned(learner, 1)
    path = learner.save_to_path(str(tmp_path / "checkpoint"))
    moved = shutil.copy(own_file, tmp_path / "moved.py")
    again = build(make_config, optimizer=f"{moved}:momentum")
    again.restore_from_path(path)
    learned(learner, 1, first=1)
    learned(again, 1, first=1)
    assert_equal(state(again), state(learner))


def test_learners_that_share_a_model_take_the_steps_of_one(
    make_config, tmp_path, optimizer, monkeypatch
):
    """Muon computes in bfloat16, which rounds shares differently; here Muon computes in float32."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    settings = {"optimizer": optimizer, "minibatch_size": 4, "sharding": "fsdp"}
    batch = rows([True] * 9, seed=5)

    def learn(learner, shard, number):
        learner.update(training_data=TrainingData(batch=shard), shuffle_key=(number,))

    def two(rank):
        config = make_config(kl_coeff=0.0, recompute_logprobs=True, num_learners=2, **settings)
        learner = config.build_learner(spaces={DEFAULT_MODULE_ID: (AnyText(), AnyText())})
        shard = batch.shards(2)[rank]
        learn(learner, shard, 0)
        learner.save_shards(str(tmp_path / "shards"))
        kinds = {
            type(value)
            for each in optimizers_of(learner).values()
            for parameter in each.state
            for value in each.state[parameter].values()
            if value.ndim
        }
        assert kinds == {DTensor}
        learn(learner, shard, 1)
        after = learner.module[DEFAULT_MODULE_ID].get_state()
        learner.restore_from_path(str(tmp_path / "shards"))
        learn(learner, shard, 1)
        return after, learner.module[DEFAULT_MODULE_ID].get_state()

    one = build(make_config, **settings)
    learn(one, batch, 0)
    learn(one, batch, 1)
    (after, resumed), _ = together(two, 2, tmp_path)
    assert_equal(after, resumed)
    for name, weights in state(one).items():
        np.testing.assert_allclose(after[name], weights, atol=1e-6, rtol=0, err_msg=name)

    alone = build(make_config, **settings)
    alone.restore_from_path(str(tmp_path / "shards"))
    learn(alone, batch, 1)
    for name, weights in state(one).items():
        np.testing.assert_allclose(state(alone)[name], weights, atol=1e-6, rtol=0, err_msg=name)


def test_every_hidden_matrix_of_other_architectures_is_outside_of_embeddings(tmp_path):
    for kind in ("gpt2", "opt", "qwen3"):
        folder = save_model(tmp_path / kind, kind)
        module = LLMModule(model_config={"model": str(folder), "dtype": "float32"})
        names = {id(p): name for name, p in module.named_parameters()}
        hidden = load_file(MUON_FILE).hidden_matrices(module)
        chosen = {names[id(parameter)] for parameter in hidden}
        assert chosen
        assert not [n for n in chosen if "embed" in n or "wte" in n or "wpe" in n or "head" in n]
