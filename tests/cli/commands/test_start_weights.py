"""``trca train --resume``, ``evaluate`` and ``export`` after the start model has changed."""

import shutil
import subprocess

import pytest

from tests.algorithms.learner.test_start_weights import change
from tests.cli.calls import done, refused
from tests.cli.commands.test_train import SMALL, environment, trca
from trca.policies.model_names import resolve_model


@pytest.fixture(scope="module")
def adapter_run(cluster, tmp_path_factory):
    """A run of one iteration that trained an adapter, and the folder of its start model."""
    pytest.importorskip("peft")
    folder = tmp_path_factory.mktemp("runs")
    shrunk = resolve_model("shrunk:Qwen/Qwen2.5-1.5B-Instruct", env_id="")
    start = shutil.copytree(shrunk, folder / "start")
    options = [*SMALL, f"--model={start}", "--iterations=1", "--set=lora_rank=4"]
    done("train", "quickstart", *options, f"--storage-path={folder}")
    return folder / "quickstart", start


@pytest.fixture
def changed(adapter_run):
    """Other weights in the start folder, for one test."""
    _, start = adapter_run
    weights = (start / "model.safetensors").read_bytes()
    change(start)
    yield
    (start / "model.safetensors").write_bytes(weights)


REFUSAL = (
    "the run of default_policy started from ",
    "The model below the LoRA adapter would be another model",
    "Fix: put the original weights back into ",
)


@pytest.mark.slow
@pytest.mark.usefixtures("changed")
def test_a_run_is_not_resumed_from_another_start_model(adapter_run):
    path, _ = adapter_run
    ended = subprocess.run(
        trca(path.parent, "train", "--resume", str(path), "--iterations=2"),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=800,
    )
    assert ended.returncode == 1
    assert all(part in ended.stderr for part in (*REFUSAL, "Iteration 1 is saved"))


@pytest.mark.usefixtures("changed")
@pytest.mark.parametrize("command", ["evaluate", "export"])
def test_an_adapter_is_not_merged_into_another_start_model(adapter_run, tmp_path, command):
    path, _ = adapter_run
    options = ["--to", str(tmp_path / "policy")] if command == "export" else ["--tasks=1"]
    words = refused(command, path, *options)
    assert all(part in words for part in REFUSAL)
