"""A run continues only with its start weights."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from trca.algorithms import TRCA, export
from trca.algorithms.learner.start_weights import OtherStartError, StartWeights, read_start_weights
from trca.policies.models import load_model

pytestmark = pytest.mark.usefixtures("cluster")
LORA = {"lora_rank": 4, "lora_alpha": 8}
NO_REFERENCE = {"kl_coeff": 0.0, "kl_coeff_format": 0.0}
KINDS = {"reference": {}, "base": LORA}


@pytest.fixture
def start(model, tmp_path):
    """A copy of the model that a test may change."""
    return shutil.copytree(model, tmp_path / "start")


def change(folder):
    """Writes slightly different weights to the folder."""
    model = load_model(str(folder), "float32")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)


@pytest.fixture(scope="module", params=KINDS)
def trained(request, cluster, make_config, model, tmp_path_factory):
    """Frozen kind, settings, checkpoint after an iteration, and the algorithm that wrote it."""
    folder = tmp_path_factory.mktemp(request.param)
    settings = {**KINDS[request.param], "lr": 1e-2, "tasks_per_iteration": 1}
    algorithm = make_config(model=str(shutil.copytree(model, folder / "start")), **settings)
    algorithm = algorithm.build_algo()
    algorithm.train()
    yield request.param, settings, algorithm.save_to_path(str(folder / "checkpoint")), algorithm
    algorithm.stop()


@pytest.fixture
def changed_start(trained):
    """Other weights in the start folder of the run, for one test."""
    start = Path(trained[-1].config.model)
    weights = (start / "model.safetensors").read_bytes()
    change(start)
    yield
    (start / "model.safetensors").write_bytes(weights)


def scored(algorithm, rollouts):
    """Log-probabilities of the responses by the policy, and by the reference."""
    steps = [step for rollout in rollouts for step in rollout.steps]
    texts = [s.prompt_ids for s in steps], [s.response_ids for s in steps]
    score = algorithm.learner_group.score
    return np.array([np.concatenate(score(*texts, reference=of)) for of in (False, True)])


def test_other_weights_in_the_start_folder_are_refused_by_name(build, trained, make_config, start):
    kind, settings, path, _ = trained
    (saved,) = read_start_weights(path).values()
    assert (saved.frozen, len(saved.sha256)) == (kind, 64)
    change(start)
    now = StartWeights.of(str(start), kind)
    algorithm = build(make_config(model=str(start), **settings))
    before = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    with pytest.raises(OtherStartError) as refusal:
        algorithm.restore_from_path(path)
    after = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    assert all(np.array_equal(before[name], after[name]) for name in before)  # nothing is loaded
    with pytest.raises(OtherStartError):
        algorithm.restore_from_path(f"{path}/learner_group", component="learner_group")
    learner = algorithm.learner_group._learner
    module = f"rl_module/{DEFAULT_MODULE_ID}"
    for component in (None, "rl_module", module):
        folder = "/".join(filter(None, [path, "learner_group/learner", component]))
        with pytest.raises(OtherStartError, match=f"{folder}: the run of {DEFAULT_MODULE_ID}"):
            learner.restore_from_path(folder, component=component)
    after = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    assert all(np.array_equal(before[name], after[name]) for name in before)
    for part in (
        f"{path}: the run of",
        f"started from {saved.model} with weights of SHA-256 {saved.sha256[:12]}",
        f"{start} now has weights of SHA-256 {now.sha256[:12]}",
        f"put the original weights back into {saved.model}",
        "set model: FOLDER in the config, for a run in its config.yaml",
    ):
        assert part in str(refusal.value)


def test_the_start_weights_in_another_folder_go_on_as_before(build, trained, make_config, start):
    _, settings, path, writer = trained
    algorithm = build(make_config(model=str(start), **settings))
    algorithm.restore_from_path(path)
    expected = scored(writer, writer.rollouts)
    np.testing.assert_array_equal(scored(algorithm, writer.rollouts), expected)


@pytest.mark.usefixtures("changed_start")
@pytest.mark.parametrize("trained", ["reference"], indirect=True)
def test_a_checkpoint_is_refused_where_its_own_folder_has_changed(trained):
    with pytest.raises(OtherStartError, match="The reference of the KL term would be another"):
        TRCA.from_checkpoint(trained[2])


@pytest.mark.parametrize("trained", ["base"], indirect=True)
def test_an_adapter_is_not_merged_into_another_model(trained, request, tmp_path):
    *_, path, algorithm = trained
    export(path, tmp_path / "before")
    request.getfixturevalue("changed_start")
    for source in (path, algorithm):
        with pytest.raises(OtherStartError, match="The model below the LoRA adapter would be ano"):
            export(source, tmp_path / "after")
    assert not (tmp_path / "after").exists()


def test_without_a_reference_and_an_adapter_any_start_model_does(make_config, start, tmp_path):
    algorithm = make_config(model=str(start), **NO_REFERENCE).build_algo()
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    expected = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    algorithm.stop()
    change(start)
    resumed = TRCA.from_checkpoint(path)
    weights = resumed.learner_group.get_weights()[DEFAULT_MODULE_ID]
    assert all(np.array_equal(expected[name], weights[name]) for name in expected)
    resumed.stop()
    export(path, tmp_path / "policy")


def test_a_model_of_the_hub_comes_back_by_its_revision(tmp_path):
    saved = StartWeights("owner/name", "a" * 64, "98abc", "reference")
    now = StartWeights("owner/name", "b" * 64, "76def", "reference")
    with pytest.raises(OtherStartError) as refusal:
        now.refuse_other(saved, "default_policy", "checkpoint", "set model: FOLDER")
    assert "hf download owner/name --revision 98abc --local-dir FOLDER" in str(refusal.value)


@pytest.mark.slow
def test_learners_in_processes_of_their_own_refuse_it_too(make_config, start, tmp_path):
    settings = {"model": str(start), "num_learners": 2, "sharding": "fsdp"}
    algorithm = make_config(**settings).build_algo()
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.restore_from_path(path)
    algorithm.stop()
    change(start)
    with pytest.raises(OtherStartError):
        TRCA.from_checkpoint(path)
