"""The tiny policies in the package: recipes, files, responses and the rebuild command."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trca.common.cache import digest
from trca.envs import make
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies import shipped
from trca.policies.model_names import resolve_model
from trca.policies.models import load_model, load_tokenizer
from trca.policies.shipped import damage, manifest
from trca.policies.tiny import build_policy, recipe_of, spec_of, tiny_folder, tiny_policy
from trca.policies.warmstart import Stage, demonstrate
from trca.tune_configs.files import read

NAMES = sorted(manifest())
BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the shipped policies for changes in a test."""
    folder = shutil.copytree(shipped.FOLDER, tmp_path / "tiny_data")
    monkeypatch.setattr(shipped, "FOLDER", folder)
    return folder


@pytest.fixture(scope="module")
def benchmark():
    sys.path.append(BENCHMARKS)
    try:
        import tiny_policy as script
    finally:
        sys.path.remove(BENCHMARKS)
    return script


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_has_the_files_of_the_manifest_and_the_recipe_of_today(name):
    policy, folder = manifest()[name], shipped.FOLDER / name
    recipe = recipe_of(policy.env, policy.env_config, None, policy.response_format)
    assert policy.recipe == digest(recipe), "run: python benchmarks/tiny_policy.py --ship"
    assert damage(folder) == ""
    assert {path.name for path in folder.iterdir()} == set(policy.sha256)
    assert {"model.safetensors", "tokenizer.json", "config.json"} < set(policy.sha256)


@pytest.mark.parametrize(
    ("preset", "response_format", "name"),
    [
        ("quickstart", "action", "alfworld"),
        ("quickstart", "plan", "alfworld_plan"),
        ("webshop", "action", "webshop"),
        ("searchqa", "action", "searchqa"),
    ],
)
def test_the_presets_start_from_the_shipped_policies(preset, response_format, name, cache):
    settings = read(preset)
    env, env_config = settings["env"], settings["env_config"]
    assert tiny_folder(env, env_config, response_format) == shipped.FOLDER / name
    folder = resolve_model(
        settings["model"], env_id=env, env_config=env_config, response_format=response_format
    )
    assert folder == str(shipped.FOLDER / name)
    assert not cache()
    model = load_model(folder)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert 500_000 < sum(weight.numel() for weight in model.parameters()) < 1_100_000
    assert (Path(folder) / "model.safetensors").stat().st_size < 2.2e6


def test_an_argument_of_the_default_value_is_as_good_as_none():
    written = {"games": "small", "task_types": None, "max_steps": 9, "split": "valid_seen"}
    assert tiny_folder("alfworld", written) == tiny_folder("alfworld", {})
    assert tiny_folder("alfworld", written) == shipped.FOLDER / "alfworld"


@pytest.mark.parametrize(
    ("env", "env_config"),
    [
        ("alfworld", {"games": "small-1"}),
        ("alfworld", {"task_types": ["Heat"]}),
        ("alfworld", {"team": "alfworld_planner"}),
        ("webshop", {"seed": 1}),
        ("searchqa", {"questions": "small"}),
    ],
)
def test_different_content_has_a_different_recipe(env, env_config):
    assert tiny_folder(env, env_config).parent != shipped.FOLDER


def test_another_recipe_is_built_not_shipped(monkeypatch):
    from trca.envs.alfworld.env import ALFWorldEnv

    monkeypatch.setattr(ALFWorldEnv, "tiny_policy", {"max_steps": 16, "lr": 1e-3})
    assert tiny_folder("alfworld").parent != shipped.FOLDER


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_speaks_its_environment(name):
    """The loss in nats per token of the demonstrator's responses in fresh episodes."""
    policy, spec = manifest()[name], spec_of(manifest()[name].env)
    response_format = RESPONSE_FORMATS.get(policy.response_format)
    tokenizer = load_tokenizer(str(shipped.FOLDER / name))
    model = load_model(str(shipped.FOLDER / name))
    env = make(policy.env, **policy.env_config, max_steps=spec.max_steps)
    examples = demonstrate([env], 0.1, 60, 1, 0, lambda *_: None, spec.deliberate, response_format)
    losses = []
    for example in examples:
        prompt, ids = (tokenizer.encode(text) for text in (example.prompt, example.response))
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        losses.append(float(torch.nn.functional.cross_entropy(logits, torch.tensor(ids))))
    assert sum(losses) / len(losses) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_demonstrations_of_today_give_the_tokens_of_the_package(name, tmp_path, monkeypatch):
    """A rebuild starts from the demonstrations that the policy learned; training takes minutes."""
    monkeypatch.setattr("trca.policies.tiny.imitate", lambda *args, **kwargs: 0.0)
    policy = manifest()[name]
    build_policy(policy.env, policy.env_config, tmp_path, None, policy.response_format)
    rebuilt, packaged = (
        json.loads((folder / "tokenizer.json").read_text())["model"]
        for folder in (tmp_path, shipped.FOLDER / name)
    )
    assert rebuilt["vocab"] == packaged["vocab"]
    assert rebuilt["merges"] == packaged["merges"]


def test_changed_and_missing_files_are_refused(copy):
    assert tiny_policy("alfworld") == copy / "alfworld"
    tokenizer = copy / "alfworld" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + " ")
    with pytest.raises(ValueError, match=r"tokenizer\.json: SHA-256 is [0-9a-f]{64}, must be"):
        tiny_policy("alfworld")
    assert tiny_policy("searchqa", {"questions": "medium"}) == copy / "searchqa"
    (copy / "searchqa" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"SHA-256 is missing, must be .* Reinstall the package"):
        tiny_policy("searchqa", {"questions": "medium"})


def test_the_command_rebuilds_a_policy(copy, benchmark, capsys):
    """Two updates in place of 1,500: two rebuilds give equal files, all in the manifest."""
    whole = manifest()
    policy = whole["alfworld"]
    short = replace(spec_of("alfworld"), stages=(Stage(0.3, 2),), batch_size=16)
    for _ in range(2):
        before = (copy / "alfworld" / "model.safetensors").read_bytes()
        benchmark.ship("alfworld", short)
        rebuilt = manifest()["alfworld"]
    assert before == (copy / "alfworld" / "model.safetensors").read_bytes()
    assert rebuilt.recipe == digest(recipe_of(policy.env, policy.env_config, short))
    assert rebuilt.sha256.keys() == policy.sha256.keys()
    assert manifest() == {**whole, "alfworld": rebuilt}
    assert f"{rebuilt.sha256['config.json']}  alfworld/config.json" in capsys.readouterr().out

    folder = tiny_policy("alfworld", {}, short)
    assert folder == copy / "alfworld"
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"
    assert load_model(str(folder)).dtype == torch.float32
