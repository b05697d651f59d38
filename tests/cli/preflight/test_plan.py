"""The plan against the bytes of real learners and engines, and the plan of each preset."""

import re
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from transformers import AutoConfig

from tests.architectures import SIZES
from tests.cli.calls import done, refused, trca
from trca.algorithms.settings.parameters import TextParameters
from trca.cli.commands.new_env import write_package
from trca.cli.preflight import plan
from trca.cli.preflight.plan import GPUs, place, problems, smaller
from trca.cli.preflight.preflight import Preflight
from trca.cli.preflight.size import Shape, engine, learner, machine, row_cache_bytes
from trca.envs.text_space import AnyText
from trca.policies.engines.row_cache import RowCache
from trca.policies.models import load_model
from trca.tune_configs.files import assignments, read, shipped

SHAPE = Shape(
    parameters=10**9,
    head=10**8,
    adapted=5 * 10**5,
    layers=24,
    hidden=2048,
    feed_forward=8192,
    key_values=256,
    dtype="bfloat16",
)
SHRUNK = "shrunk:Qwen/Qwen2.5-1.5B-Instruct"
PAPER = sorted(name for name in shipped() if name.startswith("paper/"))


def settings_of(**settings):
    return TextParameters.resolve({"env_config": {"games": "small"}, "model": "tiny", **settings})


def near(bytes_there):
    return pytest.approx(bytes_there, rel=0.1)


def updated(settings):
    """The module and the optimizers of a learner after an update without a gradient."""
    config = settings.algorithm_config()
    own = config.learner_class(config=config, module_spec=config.get_multi_rl_module_spec())
    own.build()
    for parameter in own.updaters["default_policy"].parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizers = [made for _, made in own.get_optimizers_for_module("default_policy")]
    for each in optimizers:
        each.step()
    return own.module["default_policy"], optimizers


@pytest.mark.parametrize("lora", [0, 4])
def test_what_a_learner_holds_is_what_the_plan_counts(lora):
    settings = settings_of(model=SHRUNK, lora_rank=lora, kl_coeff=0.1, dtype="bfloat16")
    module, optimizers = updated(settings)
    held = learner(settings, Shape.of(settings)).held
    trained = [p for p in module.parameters() if p.requires_grad]
    assert held["weights, trained"] == near(sum(p.nbytes for p in trained))
    assert held["gradients"] == near(sum(p.grad.nbytes for p in trained))
    states = [state for each in optimizers for state in each.state.values()]
    moments = [tensor for state in states for tensor in state.values()]
    assert held["optimizer state"] == near(sum(tensor.nbytes for tensor in moments))
    frozen = sum(p.nbytes for p in module.parameters() if not p.requires_grad)
    assert held["weights, frozen" if lora else "reference, frozen"] == near(frozen)


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({"critic": "own"}, 10**9 - 10**8 + 2049),
        ({"critic": "own", "lora_rank": 4}, 4 * 5 * 10**5 + 2049),
        ({"critic": "trunk"}, 2049),
    ],
)
def test_a_critic_is_counted_by_hand(settings, parameters):
    """A network (or adapter) without the head of 10^8, and a value of 2,048 places and a bias."""
    shared = {"num_learners": 2, "num_gpus_per_learner": 1, "lora_rank": 0, **settings}
    own = settings_of(algorithm="TurnPPO", **shared)
    del shared["critic"]
    without = settings_of(algorithm="ReinforcePlusPlus", **shared)
    more = learner(own, SHAPE).total - learner(without, SHAPE).total
    assert more == (4 + 4 + 8) * parameters
    assert learner(own, SHAPE).computing == learner(without, SHAPE).computing
    with_critic, alone = machine(own, SHAPE), machine(without, SHAPE)
    assert with_critic["models being read"] - alone["models being read"] == 2 * 4 * parameters


@contextmanager
def saved_for_backward(model):
    """Bytes of the tensors that a pass keeps for the backward pass, by storage, without weights."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    alive = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            alive[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield alive


@pytest.mark.parametrize(
    "settings",
    [{"critic": "own"}, {"critic": "own", "lora_rank": 4}, {"critic": "trunk", "lora_rank": 4}],
)
def test_what_a_critic_holds_is_what_the_plan_counts(settings):
    settings = settings_of(
        algorithm="TurnPPO", model=SHRUNK, max_prompt_tokens=120, max_new_tokens=8,
        micro_batch_tokens=512, **settings,
    )  # fmt: skip
    module, optimizers = updated(settings)
    state = {parameter: each for made in optimizers for parameter, each in made.state.items()}
    there = 0
    for parameter in module.critic_parameters():
        moments = state[parameter]
        there += parameter.nbytes + parameter.grad.nbytes
        there += moments["exp_avg"].nbytes + moments["exp_avg_sq"].nbytes
    needs = learner(settings, Shape.of(settings))
    assert needs.held["critic, with gradients and optimizer state"] == there
    place = torch.arange(4)
    with saved_for_backward(module) as alive:
        module.values(input_ids=torch.zeros((4, 128), dtype=torch.int64), row=place, position=place)
    assert 0 < sum(alive.values()) < 1.01 * sum(needs.computing.values())


@pytest.mark.parametrize("lora", [0, 4])
@pytest.mark.parametrize("policies", ["own", {"planner": "p", "executor": "e"}])
def test_every_policy_of_a_team_is_counted_and_a_shared_base_once(lora, policies):
    settings = settings_of(
        env_config={"games": "small", "team": "alfworld_planner"}, role_policies=policies,
        algorithm="TurnPPO", critic="trunk", model=SHRUNK, lora_rank=lora, kl_coeff=0.1,
    )  # fmt: skip
    config = settings.algorithm_config()
    config.validate()
    spaces = {module: (AnyText(), AnyText()) for module in config.policies}
    own = config.build_learner(spaces=spaces)
    own.build()
    assert len(own.module.keys()) == 2
    tensors = {p.data_ptr(): p for module in own.module.values() for p in module.parameters()}
    critics = {p.data_ptr() for module in own.module.values() for p in module.critic_parameters()}
    trained = sum(t.nbytes for k, t in tensors.items() if t.requires_grad and k not in critics)
    held = learner(settings, Shape.of(settings)).held
    assert held["weights, trained"] == near(trained)
    assert held["critic, with gradients and optimizer state"] == 4 * sum(
        tensors[place].nbytes for place in critics
    )
    frozen = sum(t.nbytes for t in tensors.values() if not t.requires_grad)
    assert held["weights, frozen" if lora else "reference, frozen"] == near(frozen)
    alone = settings_of(model=SHRUNK, lora_rank=lora)
    one, both = (engine(each, Shape.of(each)).weights for each in (alone, settings))
    adapters = held["weights, trained"] if lora else 0
    assert both == (near(one + adapters / 2) if lora else 2 * one)
    served = settings_of(
        env_config={"games": "small", "team": "alfworld_planner"}, role_policies=policies,
        model=SHRUNK, lora_rank=lora, engine="vllm",
    )  # fmt: skip
    assert engine(served, Shape.of(served)).weights == 2 * one


def test_the_keys_and_values_of_an_engine_are_those_that_the_plan_counts():
    settings = settings_of(model=SHRUNK, max_prompt_tokens=56, max_new_tokens=8, dtype="bfloat16")
    model = load_model(settings.algorithm_config().resolved_model(), "bfloat16")
    cache, read = RowCache(8, 64), model(torch.zeros((8, 4), dtype=torch.int64)).past_key_values
    cache.write(read, torch.arange(8), torch.arange(8))
    there = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    shape = Shape.of(settings)
    assert 8 * row_cache_bytes(settings, shape) == near(there)
    weights = sum(p.nbytes for p in model.parameters())
    assert engine(settings, shape).weights == near(weights)


def test_activations_are_those_that_are_alive_after_a_forward_pass():
    settings = settings_of(
        model=SHRUNK, max_prompt_tokens=248, max_new_tokens=8, micro_batch_tokens=1024
    )
    shape = Shape.of(settings)
    model = load_model(settings.algorithm_config().resolved_model(), "float32").model
    with saved_for_backward(model) as alive:
        out = model(input_ids=torch.zeros((4, 256), dtype=torch.int64), use_cache=False)
    estimate = learner(settings, shape).computing["all layers"]
    assert out.last_hidden_state.requires_grad
    assert sum(alive.values()) == near(estimate)


def test_the_state_of_an_optimizer_of_a_user_s_own_is_not_counted():
    own = settings_of(optimizer="examples/own_optimizer/momentum.py:momentum")
    assert learner(own, SHAPE).held["optimizer state"] == 0


def test_sharded_learners_hold_their_share_and_whole_gradients_unless_they_sync_each_pass():
    alone = learner(settings_of(num_learners=4), SHAPE).held
    shared = learner(settings_of(num_learners=4, sharding="fsdp"), SHAPE)
    for part in ("weights, trained", "gradients", "optimizer state", "reference, frozen"):
        assert shared.held[part] == alone[part] / 4
    assert shared.computing["gradients, whole"] == 4 * SHAPE.parameters
    often = settings_of(num_learners=4, sharding="fsdp", sync_each_pass=True)
    assert "gradients, whole" not in learner(often, SHAPE).computing


def test_gradient_checkpointing_keeps_only_the_inputs_of_all_layers():
    whole = learner(settings_of(), SHAPE).computing
    kept = learner(settings_of(gradient_checkpointing=True), SHAPE).computing
    assert "all layers" not in kept
    assert 0 < kept["inputs of all layers"] < whole["all layers"] / 4


def test_weights_on_their_way_are_a_copy_in_the_engines_precision_and_one_in_the_object_store():
    assert machine(settings_of(), SHAPE)["weights on their way"] == 2 * 10**9
    full = replace(SHAPE, dtype="float32")
    assert machine(settings_of(), full)["weights on their way"] == 4 * 10**9
    assert machine(settings_of(num_env_runners=2), SHAPE)["weights on their way"] == 4 * 10**9


def shape_of(folder, kind, **config):
    AutoConfig.for_model(kind, **SIZES[kind], **config).save_pretrained(folder)
    return Shape.of(settings_of(model=str(folder), dtype="auto"))


@pytest.mark.parametrize(
    ("saved", "dtype"),
    [("float32", "float32"), ("bfloat16", "bfloat16"), ("float16", "float32")],
)
def test_auto_is_counted_as_the_precision_that_the_run_resolves_it_to(tmp_path, saved, dtype):
    assert shape_of(tmp_path, "qwen3", dtype=saved).dtype == dtype


@pytest.mark.parametrize("kind", SIZES)
def test_the_sizes_of_every_tested_architecture_are_found(tmp_path, kind):
    shape = shape_of(tmp_path, kind, vocab_size=512, bos_token_id=0, eos_token_id=1, pad_token_id=1)
    assert (shape.layers, shape.hidden) == (SIZES[kind].get("num_hidden_layers", 2), 32)
    assert shape.feed_forward == (4 * 32 if kind in ("gpt2", "falcon") else 48)
    assert 0 < shape.key_values <= shape.hidden
    assert shape.adapted > 0


def test_runners_start_first_and_learners_fill_up_the_gpus():
    shares = {"num_gpus_per_env_runner": 0.6, "num_gpus_per_learner": 0.4}
    four = settings_of(num_env_runners=4, num_learners=4, **shares)
    assert place(four, 4) == [["engine", "learner"]] * 4
    assert place(four, 3) is None
    assert GPUs.asked(four).count == 4
    halves = settings_of(
        num_env_runners=4, num_learners=4, num_gpus_per_env_runner=0.5, num_gpus_per_learner=0.5
    )
    assert any("2 learners" in wrong for wrong in problems(halves, SHAPE, GPUs(4, 80)))


def test_the_driver_computes_on_the_first_gpus():
    local = settings_of(num_gpus_per_env_runner=1, num_gpus_per_learner=1)
    assert place(local, 1) == [["engine", "learner"]]
    assert local.resources()[1] == GPUs.asked(local).count == 1
    split = settings_of(num_gpus_per_env_runner=2, num_gpus_per_learner=0.5)
    assert place(split, 2) == [["engine", "learner"], ["engine"]]
    assert place(split, 1) is None
    assert split.resources()[1] == 2
    beside = settings_of(num_env_runners=2, num_gpus_per_env_runner=1, num_gpus_per_learner=0.5)
    assert place(beside, 2) == [["engine", "learner"], ["engine"]]
    assert beside.resources()[1] == 2


def on_one_gpu(**settings):
    shares = {"num_gpus_per_env_runner": 0.6, "num_gpus_per_learner": 0.4}
    processes = {"num_env_runners": 1, "num_learners": 1, **shares}
    size = {"dtype": "bfloat16", "micro_batch_tokens": 16384}
    return settings_of(**{**size, **processes, **settings})


def test_a_run_that_does_not_fit_names_settings_and_each_needs_less():
    settings, gpus = on_one_gpu(gradient_checkpointing=False), GPUs(1, 24)
    named = smaller(settings, gpus)
    assert "needs at least" in problems(settings, SHAPE, gpus)[0]
    whole = learner(settings, SHAPE).total
    for change in ("gradient_checkpointing=true", "lora_rank=16", "micro_batch_tokens=2048"):
        assert any(each.startswith(change.partition("=")[0]) for each in named)
        changed = TextParameters.resolve(settings.flat() | assignments([change]))
        assert learner(changed, SHAPE).total < whole
    small = {"lora_rank": 16, "gradient_checkpointing": True, "micro_batch_tokens": 2048}
    fitting = on_one_gpu(**small)
    assert not problems(fitting, SHAPE, gpus)
    assert {"lora_rank=16", "gradient_checkpointing=true"}.isdisjoint(smaller(fitting, gpus))


@pytest.mark.parametrize(
    ("settings", "gpus", "named"),
    [
        ({"engine": "vllm"}, GPUs(1, 24), {"engine_config.sleep=true"}),
        ({"engine": "vllm", "engine_config": {"sleep": True}}, GPUs(1, 24), set()),
        ({}, GPUs(2, 24), {"sharding=fsdp and more num_learners"}),
        ({"num_learners": 2, "sharding": "fsdp"}, GPUs(4, 24), {"sync_each_pass=true"}),
        ({"num_env_runners": 4}, GPUs(1, 24), {"num_env_runners", "num_learners"}),
    ],
)
def test_only_settings_that_apply_are_named(settings, gpus, named):
    conditional = {
        "engine_config.sleep=true", "sharding=fsdp and more num_learners", "sync_each_pass=true",
        "num_env_runners", "num_learners",
    }  # fmt: skip
    assert conditional & set(smaller(on_one_gpu(**settings), gpus)) == named


def test_an_engine_that_sleeps_leaves_its_memory_to_the_learner():
    settings = settings_of(
        engine="vllm", dtype="bfloat16", num_env_runners=1, num_gpus_per_env_runner=0.5,
        num_learners=1, num_gpus_per_learner=0.5, engine_config={"gpu_memory_utilization": 0.75},
        micro_batch_tokens=16384,
    )  # fmt: skip
    gpus = GPUs(1, 80)
    assert problems(settings, SHAPE, gpus)
    sleeping = settings.flat() | {"engine_config": {"gpu_memory_utilization": 0.75, "sleep": True}}
    assert not problems(TextParameters.resolve(sleeping), SHAPE, gpus)
    assert problems(TextParameters.resolve(sleeping), SHAPE, GPUs(1, 20))


def test_vllm_on_a_cpu_has_the_cache_of_its_settings():
    settings = settings_of(engine="vllm", tasks_per_iteration=64, group_size=8)
    assert engine(settings, SHAPE).cache == 256 << 20
    row = row_cache_bytes(settings, SHAPE)
    assert 0 < engine(settings, SHAPE).rollouts_at_once(row) < 512
    larger = settings_of(engine="vllm", engine_config={"kv_cache_memory_bytes": 4 << 30})
    assert engine(larger, SHAPE).cache == 4 << 30


@pytest.mark.parametrize("name", PAPER)
def test_every_preset_of_the_paper_fits_on_its_machine(name, monkeypatch, tmp_path):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
    output = done("plan", name, "--gpus", "4x80")
    assert re.search(r"GPUs 0 to 3, each +[567]\d\.\d GB +at least, of 80 GB", output)
    assert re.search(r"memory +fits", output)


def test_a_plan_names_what_does_not_fit_and_a_dry_run_says_the_same():
    without = ["--set", "gradient_checkpointing=false"]
    output = done("plan", "paper/alfworld_qwen2.5_1.5b", *without)
    assert "does not fit" in output
    assert "gradient_checkpointing=true" in output
    dry = trca("train", "paper/alfworld_qwen2.5_1.5b", *without, "--dry-run")
    assert dry.output.startswith(output.rstrip())


@pytest.mark.parametrize(
    ("option", "effect"),
    [
        ("--algorithm=turnppo", "critic, with gradients"),
        ("--model=Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"),
        ("--env=searchqa", "an episode has at most 4"),
        ("--games=medium", "panel, train"),
    ],
)
def test_a_plan_takes_the_options_of_train_with_the_same_meaning(option, effect):
    plain, changed = (trca("plan", *more) for more in ([], [option]))
    assert changed.exit_code == 0, changed.output
    table = changed.output.partition("The run asks for no GPU")[0].rstrip()
    assert effect in " ".join(table.split())
    assert table not in plain.output
    dry = trca("train", option, "--dry-run")
    assert dry.output.startswith(table)


@pytest.mark.parametrize("text", ["4", "x80", "0x80", "4x0", "4 x 80"])
def test_gpus_are_a_number_and_a_size(text):
    assert "such as 4x80" in refused("plan", "quickstart", "--gpus", text)


def test_a_dry_run_notes_a_prompt_that_the_tiny_policy_cannot_follow_and_no_other_models(recwarn):
    for arguments, noted in (
        (["quickstart", "--set", "template=paper", "--set", "max_prompt_tokens=2048"], True),
        (["paper/alfworld_qwen2.5_1.5b"], False),
    ):
        output = done("train", *arguments, "--dry-run")
        assert ("note: the tiny policy cannot follow the paper's prompt" in output) == noted
    assert not [each for each in recwarn if "tiny policy" in str(each.message)]


def test_a_dry_run_notes_settings_of_the_tiny_policy_for_another_model():
    model = "--model=Qwen/Qwen2.5-1.5B-Instruct"
    for config, noted in (("quickstart", True), ("paper/alfworld_qwen2.5_1.5b", False)):
        output = done("train", config, model, "--dry-run")
        output = " ".join(output.split())
        assert ("these settings are for the tiny policy" in output) == noted
        assert ("template: compact" in output) == noted
        assert ("max_new_tokens: 24. Start from a preset" in output) == noted
    imitates = trca("train", "imitate", model, "--dry-run")
    assert "for the tiny policy" not in " ".join(imitates.output.split())


def test_an_engine_of_a_users_file_states_its_memory(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from trca.policies.engines.engine import Engine, EngineMemory\n"
        "class Mine(Engine):\n"
        "    def submit(self, request, sampling): ...\n"
        "    @classmethod\n"
        "    def memory(cls, load):\n"
        "        return EngineMemory(weights=7.0, cache=2 * load.row, rows=9)\n"
        "class Silent(Engine):\n"
        "    def submit(self, request, sampling): ...\n"
    )
    settings = settings_of(engine=f"{tmp_path}/mine.py:Mine")
    memory, row = engine(settings, SHAPE), row_cache_bytes(settings, SHAPE)
    assert (memory.weights, memory.cache, memory.rows) == (7.0, 2 * row, 9)
    assert memory.rollouts_at_once(row) == 2
    own = on_one_gpu(engine=f"{tmp_path}/mine.py:Mine")  # which takes no adapters
    assert "lora_rank=16" not in smaller(own, GPUs(1, 24))
    silent = engine(settings_of(engine=f"{tmp_path}/mine.py:Silent"), SHAPE)
    assert silent.weights == engine(settings_of(), SHAPE).weights
    assert silent.rollouts_at_once(row) == silent.rows


def test_the_plan_takes_the_step_limit_of_the_environment(tmp_path):
    package = write_package("key_door", tmp_path)  # its class has max_steps = 12
    config = str(package / "train.yaml")
    rollouts = TextParameters.resolve(read(config), config).trajectories_per_iteration
    output = done("plan", config)
    output = " ".join(output.split())
    assert f"steps at most {12 * rollouts:,} an iteration; an episode has at most 12" in output
    limited = trca("plan", config, "--set", "env_config.max_steps=3")
    assert f"steps at most {3 * rollouts:,}" in " ".join(limited.output.split())


def test_the_step_limit_without_data_is_the_default_of_the_class(monkeypatch, tmp_path):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
    settings = TextParameters.resolve({"env_config": {"games": "official"}}, need_data=False)
    assert Preflight(settings).step_limit() == 25


def test_the_memory_of_a_machine_is_the_sum_of_all_its_processes():
    settings = settings_of(num_env_runners=2, num_learners=2)
    parts = machine(settings, SHAPE)
    memory = engine(settings, SHAPE)
    assert parts["learners"] == 2 * learner(settings, SHAPE).total
    assert parts["engines"] == 2 * (memory.weights + memory.cache)
    assert parts["5 processes with PyTorch and RLlib"] == 5 * 0.4e9
    alone = machine(settings_of(num_env_runners=0, num_learners=0), SHAPE)
    assert alone["1 process with PyTorch and RLlib"] == 0.4e9
    on_gpus = settings_of(num_gpus_per_env_runner=0.5, num_gpus_per_learner=0.5)
    assert {"learners", "engines"}.isdisjoint(machine(on_gpus, SHAPE))


def test_a_run_without_a_gpu_has_a_sum_that_is_compared_with_the_machine(monkeypatch):
    for arguments in (["quickstart"], ["quickstart", "--gpus", "1x80"]):
        output = " ".join(done("plan", *arguments).split())
        assert re.search(r"machine [\d.]+ GB at least, all processes, besides GPUs", output)
        assert re.search(r"this machine has [\d.]+ GB enough", output)
    monkeypatch.setattr(plan, "memory_here", lambda: 1e9)
    assert "this machine has 1.0 GB too little" in " ".join(done("plan", "quickstart").split())
