"""The paper's presets unchanged, on small random models of their architectures and small data."""

import pytest
from typer.testing import CliRunner

from trca.algorithms.settings.parameters import TextParameters
from trca.cli import app
from trca.tune_configs.files import assign, read, shipped

PAPER = sorted(name for name in shipped() if name.startswith("paper/"))
OTHERS = {"search_r1_grpo", "search_r1_ppo", "r1_instruct", "zerosearch", "stepsearch", "igpo"}
"""What the paper compares with; the other presets are its own runs."""
FAST = {"paper/alfworld_qwen2.5_1.5b", "paper/search_r1_ppo"}
"""Without a critic, and with one."""
DATA = {
    "trca/ALFWorld-v0": {"env_config.games": "small"},
    "trca/WebShop-v0": {"env_config.catalogue": "small"},
    "trca/SearchQA-v0": {"env_config.questions": "small", "env_config.retriever": "bm25"},
}
"""Generated data in place of what has to be fetched or served."""
HERE = {
    "engine": "transformers",
    "engine_config": {},
    "num_env_runners": 0,
    "num_gpus_per_env_runner": 0,
    "num_learners": 0,
    "num_gpus_per_learner": 0,
}
"""This machine in place of four GPUs."""
SHORT = {
    "iterations": 1,
    "tasks_per_iteration": 1,
    "group_size": 2,
    "env_config.max_steps": 2,
    "max_new_tokens": 6,
    "micro_batch_tokens": 4096,
    "train_malformed": True,  # a random model writes no action
    "evaluation_tasks": 1,
}


def shrunk(name):
    """Changes that let a preset run here."""
    preset = read(name)
    changed = DATA[preset["env"]] | HERE | SHORT | {"model": f"shrunk:{preset['model']}"}
    if "lr_warmup_updates" in preset:  # else nothing is learned in one
        changed["lr_warmup_updates"] = 0
    return changed


def test_there_is_a_preset_for_each_of_the_papers_runs():
    own = [name for name in PAPER if name.removeprefix("paper/") not in OTHERS]
    assert len(own) == 6 == len(PAPER) - len(OTHERS)
    assert {read(name)["env"] for name in own} == DATA.keys()


@pytest.mark.parametrize("name", PAPER)
def test_a_dry_run_of_a_preset_finds_nothing_wrong(name):
    changes = [f"--set={key}={value}" for key, value in shrunk(name).items()]
    result = CliRunner().invoke(app, ["train", name, "--dry-run", *changes])
    assert result.exit_code == 0, result.output
    gold = read(name).get("gold_in_training", False)
    assert result.output.count("note:") == gold == ("training reads" in result.output)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n not in FAST else n for n in PAPER]
)
def test_a_preset_trains_for_an_iteration(name, cluster):
    settings = TextParameters.resolve(assign(read(name), shrunk(name)), name)
    flat = settings.flat()
    assert (flat["template"], flat["dtype"]) == ("paper", "bfloat16")
    assert (flat["sharding"] == "fsdp") == ("1.5b" not in name and "critic" not in flat)
    algorithm = settings.algorithm_config().build_algo()
    results = algorithm.train()
    algorithm.stop()
    assert results["mismatch_kl"] < 0.02
    assert results["skipped_updates"] == 0
    assert results["grad_norm"] > 0
