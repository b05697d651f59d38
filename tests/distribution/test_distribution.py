"""Wheel and sdist: their contents, and the wheel in a fresh Python environment."""

import hashlib
import json
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

import trca

ROOT = Path(trca.__file__).parents[1]
HEAVY = {"alfworld", "matplotlib", "pandas", "pyarrow", "ray", "scipy", "torch", "transformers"}
MOST_MB = 300
PACKAGES = ("trca",)

pytestmark = pytest.mark.slow


def run(*command, **options):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [*map(str, command)]
    return subprocess.run(command, env=env, capture_output=True, text=True, **options)


def succeed(*command, **options):
    done = run(*command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    succeed(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def base(built, tmp_path_factory):
    """The Python of an environment after ``pip install .``."""
    folder = tmp_path_factory.mktemp("base")
    succeed(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    constraints = ROOT / "constraints" / "all.txt"
    succeed(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, built[1])
    return python


def tracked(*places):
    return set(succeed("git", "ls-files", *places, cwd=ROOT).split())


def test_the_wheel_has_the_complete_package_and_no_further_file(built):
    names = zipfile.ZipFile(built[1]).namelist()
    assert {name for name in names if ".dist-info/" not in name} == tracked(*PACKAGES)


def test_the_wheel_has_all_files_of_every_tiny_policy(built):
    wheel, folder = zipfile.ZipFile(built[1]), "trca/policies/tiny_data"
    policies = json.loads(wheel.read(f"{folder}/manifest.json"))
    assert policies.keys() == {"alfworld", "alfworld_plan", "webshop", "searchqa"}
    for name, policy in policies.items():
        for file, shipped in policy["sha256"].items():
            assert hashlib.sha256(wheel.read(f"{folder}/{name}/{file}")).hexdigest() == shipped


def test_the_sdist_has_the_sources_of_the_wheel(built):
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert tracked(*PACKAGES) | {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} <= names


def test_the_metadata_is_valid_for_an_index(built):
    wheel = zipfile.ZipFile(built[1])
    name = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
    about = Metadata.from_email(wheel.read(name), validate=True)
    assert (about.name, str(about.version)) == ("trca", trca.__version__)
    assert about.description_content_type == "text/markdown"
    assert about.description.startswith("# TRCA")
    assert about.license_expression == "MIT"
    assert {"train", "vllm", "lora", "dev"} <= set(about.provides_extra)
    inside = [Requirement(str(each)) for each in about.requires_dist if "extra ==" in str(each)]
    named = {extra for each in inside if each.name == "trca" for extra in each.extras}
    assert named <= set(about.provides_extra)


def test_the_base_is_light_on_disk(base):
    library = next((base.parents[1] / "lib").glob("python*/site-packages"))
    there = {re.split(r"[-.]", path.name)[0].lower() for path in library.iterdir()}
    assert "trca" in there
    assert not HEAVY & there
    packages = [p for p in library.rglob("*") if not {"pip", "setuptools"} & {*p.parts}]
    size = sum(path.stat().st_size for path in packages if path.is_file()) / 1e6
    assert size < MOST_MB, f"{size:.0f} MB"


def test_the_base_plays_every_environment_with_its_rubric(base, tmp_path):
    program = """
import gymnasium, trca.envs
from trca.envs.registration import PACKAGED

for name in PACKAGED:
    env = gymnasium.make(name)
    env.reset(seed=0)
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(env.unwrapped.oracle_action())
        over = terminated or truncated
    assert info["won"] and info["rubric"]["fired"], name
"""
    succeed(base, "-c", program, cwd=tmp_path)


@pytest.mark.parametrize(
    "command",
    ["--help", "play webshop --policy oracle", "rubric show", "rubric check searchqa", "train -h"],
)
def test_commands_that_do_not_train_work_in_the_base(command, base, tmp_path):
    succeed(base.with_name("trca"), *command.split(), cwd=tmp_path)


@pytest.mark.parametrize("command", ["train", "evaluate", "sweep --dry-run", "jobs list"])
def test_training_commands_name_the_missing_packages_in_one_line(command, base, tmp_path):
    done = run(base.with_name("trca"), *command.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "error: training needs ray, torch, transformers:"
        " pip install '.[train]' in a checkout of TRCA\n"
    )


def test_importing_an_algorithm_in_the_base_names_the_missing_packages(base, tmp_path):
    done = run(base, "-c", "from trca import TRCAConfig", cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: training needs ray, torch, transformers:"
        " pip install '.[train]' in a checkout of TRCA"
    )


@pytest.fixture(scope="module")
def project(built, tmp_path_factory):
    """The Python of a user's project: the wheel, a package that extends trca, the plug-in, and the
    training packages of this environment."""
    folder = tmp_path_factory.mktemp("project")
    succeed(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    packages = Path(succeed(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
    (packages / "training.pth").write_text(site.getsitepackages()[0])
    source = shutil.copytree(ROOT / "examples" / "key_door", folder / "key_door")
    plugin = shutil.copytree(ROOT / "plugins" / "interop", folder / "interop")
    pip = (python, "-m", "pip", "install", "--quiet", "--no-deps")
    succeed(*pip, built[1], source, plugin)
    location = succeed(python, "-c", "import trca; print(trca.__file__)", cwd=folder)
    assert location.startswith(str(packages))
    return python, source


def test_a_foreign_project_tests_its_environment_against_the_wheel(project):
    python, source = project
    assert "4 passed" in succeed(python, "-m", "pytest", "-p", "no:cacheprovider", cwd=source)


def test_the_plug_in_extends_the_wheel(project, tmp_path):
    python, _ = project
    program = """
from importlib.util import find_spec
from pathlib import Path

import trca
from trca.interop import credit

packages = Path(trca.__file__).parents[1]
assert Path(credit.__file__) == packages / "trca_interop" / "credit.py"
assert Path(find_spec("trca_verifiers").origin).parents[1] == packages
"""
    succeed(python, "-c", program, cwd=tmp_path)
    succeed(python.with_name("trca"), "import-dump", "--help", cwd=tmp_path)


def test_the_quickstart_starts_from_the_policy_in_the_wheel(project, tmp_path):
    python, _ = project
    settings = {
        "iterations": 1,
        "tasks_per_iteration": 2,
        "group_size": 2,
        "evaluation_tasks": 2,
        "num_env_runners": 0,
        "num_learners": 0,
    }
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    cache = tmp_path / "cache"
    train = ("env", f"TRCA_CACHE={cache}", python.with_name("trca"), "train", "quickstart")
    printed = succeed(*train, "--storage-path", tmp_path, *given, cwd=tmp_path)
    assert "Building the tiny policy" not in printed
    assert not (cache / "tiny").exists()
    assert len((tmp_path / "quickstart" / "metrics.jsonl").read_text().splitlines()) == 1


def test_a_foreign_project_trains_its_environment_with_the_wheel(project, tmp_path):
    python, source = project
    settings = {
        "env": "key_door:key_door/KeyDoor-v0",
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "iterations": 1,
        "tasks_per_iteration": 2,
        "group_size": 2,
        "env_config.max_steps": 3,
        "max_new_tokens": 6,
        "evaluation_interval": 1,
        "evaluation_tasks": 2,
        "num_env_runners": 0,
        "num_learners": 0,
    }
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    train = (python.with_name("trca"), "train", source / "train.yaml", "--name", "first")
    succeed(*train, "--storage-path", tmp_path, *given, cwd=tmp_path)
    assert len((tmp_path / "first" / "metrics.jsonl").read_text().splitlines()) == 1
    report = succeed(python.with_name("trca"), "inspect", tmp_path / "first", "--rollout", "0")
    assert "Place: hall. Here: " in report
