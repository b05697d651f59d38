"""The GPU metrics of the learner's benchmark, with a small shape on this machine."""

import importlib.util
import sys
from pathlib import Path

import pytest
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from trca.policies.models import load_model
from trca.policies.shrunk import ARCHITECTURES

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "learner.py"
SMALL = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 6} | {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        spec = importlib.util.spec_from_file_location("learner_benchmark", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(SCRIPT.parent))


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-7B-Instruct"])
def test_the_operations_behind_mfu_are_those_that_pytorch_counts(script, tmp_path, model):
    case = script.Case(300, 8, 8, 8)
    script.save_model(tmp_path, case.vocabulary, ARCHITECTURES[model] | SMALL)
    layers, head = script.useful_operations(load_model(str(tmp_path)), case)
    update = script.learner_update(case, str(tmp_path), {"gradient_checkpointing": True})
    with set_checkpoint_early_stop(False), FlopCounterMode(display=False) as counter:
        update()
    again = layers / 4  # gradient checkpointing runs the layers forward once more
    # PyTorch does not count attention on CPUs, 1% here.
    assert counter.get_total_flops() == pytest.approx(layers + again + head, rel=0.05)


def test_speed_memory_and_push_are_measured_on_any_device(script, tmp_path):
    architecture = ARCHITECTURES["Qwen/Qwen2.5-1.5B-Instruct"] | SMALL
    case = script.Case(300, 12, 4, 4)
    script.save_model(tmp_path, case.vocabulary, architecture)
    metrics = script.measure(architecture, case, "cpu", rounds=1)
    assert metrics["tokens_per_second"] * metrics["update_seconds"] == pytest.approx(4 * 16)
    weights = load_model(str(tmp_path)).num_parameters()
    assert metrics["push_gib"] * 2**30 == 2 * weights
