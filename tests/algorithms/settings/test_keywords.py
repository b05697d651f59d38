"""The arguments of ``training()`` as editors and type checkers know them."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from trca.algorithms import ALGORITHMS
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.policy_config import EvaluationKeywords, ReportingKeywords
from trca.tune_configs.run_parameters import RecordingParameters

ROOT = Path(__file__).parents[3]
COMPLETE = ("TRCA", "GiGPO", "Imitation")


def complete_call(name):
    """A program that gives every setting of the algorithm."""
    model = ALGORITHMS[name].config_class.parameters_class
    values = ", ".join(f"{field}=model.{field}" for field in model.model_fields)
    return f"""
from trca.algorithms import {name}Config
from {model.__module__} import {model.__name__}
model = {model.__name__}()
config = {name}Config().training({values})
reveal_type(config.training(learner_class=object))
"""


PROGRAMS = {
    **{name: complete_call(name) for name in COMPLETE},
    "misspelt": """
from trca.algorithms import GiGPOConfig, TRCAConfig
TRCAConfig().training(lr=1e-6, lamda=0.5)
GiGPOConfig().training(lambda_=0.5)
""",
    "another_type": """
from trca.algorithms import TRCAConfig
TRCAConfig().training(ablation="without_rubric")
""",
    "subclasses": """
from trca.algorithms import TRCA, TRCAConfig
class Mine(TRCA): ...
class MineConfig(TRCAConfig): ...
def rule(given: TRCAConfig) -> float:
    reveal_type(given.settings)
    return given.settings.lambda_
""",
}


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """What one run of mypy says of each program; other libraries are not read."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(
        f"[mypy]\nmypy_path = {ROOT}\nfollow_imports = skip\n"
        "[mypy-trca.*,pydantic.*,ray.tune.search.sample]\nfollow_imports = silent\n"
    )
    paths = [folder / f"{name}.py" for name in PROGRAMS]
    for path in paths:
        path.write_text(PROGRAMS[path.stem])
    # In a process of its own: mypy changes the garbage collection of its process.
    command = [sys.executable, "-m", "mypy", f"--config-file={folder}/mypy.ini"]
    done = subprocess.run(
        [*command, f"--cache-dir={folder}/cache", *paths], capture_output=True, text=True
    )
    assert not done.stderr
    found = defaultdict(list)
    for name, message in re.findall(r"(\w+)\.py:\d+: (?:error|note): (.*)", done.stdout):
        found[name].append(message)
    return found


def test_evaluation_and_reporting_name_every_setting_of_this_package():
    evaluation = {name for name in TextParameters.model_fields if name.startswith("evaluation_")}
    assert evaluation <= EvaluationKeywords.__annotations__.keys()
    assert RecordingParameters.model_fields.keys() <= ReportingKeywords.__annotations__.keys()


@pytest.mark.parametrize("name", COMPLETE)
def test_mypy_knows_every_setting_of_an_algorithm(messages, name):
    (revealed,) = messages[name]
    assert f"{name}Config" in revealed


def test_mypy_finds_a_misspelt_setting(messages):
    own, other = messages["misspelt"]
    assert 'Unexpected keyword argument "lamda"; did you mean "lambda_"?' in own
    assert 'Unexpected keyword argument "lambda_"' in other


def test_mypy_finds_a_value_of_another_type(messages):
    (error,) = messages["another_type"]
    assert 'Argument "ablation" has incompatible type "Literal' in error


def test_mypy_takes_an_algorithm_and_its_config_as_types(messages):
    (settings,) = messages["subclasses"]
    assert settings.endswith('.TRCAParameters"')
