"""The arguments of ``training()`` as editors and type checkers know them."""

import re
import sys
from pathlib import Path

import pytest
from mypy import api

from trca.algorithms import ALGORITHMS
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.policy_config import EvaluationKeywords, ReportingKeywords
from trca.tune_configs.run_parameters import RecordingParameters

ROOT = Path(__file__).parents[3]

PROGRAM = """
from trca.algorithms import {config}

config = {config}().{call}
reveal_type(config)
"""


@pytest.fixture(scope="module")
def types_of(tmp_path_factory):
    """Runs mypy on a user's call of ``training``; libraries are not read, which takes seconds."""
    folder = tmp_path_factory.mktemp("mypy")
    settings = "".join(
        f"[mypy-{library}.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
        for library in ("ray", "torch", "transformers", "numpy", "scipy", "gymnasium", "pettingzoo")
    )
    settings += "[mypy-ray.tune.search.sample]\nfollow_imports = silent\n"
    (folder / "mypy.ini").write_text(f"[mypy]\nmypy_path = {ROOT}\n{settings}")

    def check(config, call):
        path = folder / "program.py"
        path.write_text(PROGRAM.format(config=config.__name__, call=call))
        options = [f"--config-file={folder}/mypy.ini", f"--cache-dir={folder}/cache"]
        limit = sys.getrecursionlimit()
        output, errors, _ = api.run([*options, "--follow-imports=silent", str(path)])
        sys.setrecursionlimit(limit)  # mypy raises the limit of the process
        assert not errors, errors
        return re.findall(r"program\.py:\d+: (?:error|note): (.*)", output)

    return check


def test_evaluation_and_reporting_name_every_setting_of_this_package():
    evaluation = {name for name in TextParameters.model_fields if name.startswith("evaluation_")}
    assert evaluation <= EvaluationKeywords.__annotations__.keys()
    assert RecordingParameters.model_fields.keys() <= ReportingKeywords.__annotations__.keys()


@pytest.mark.parametrize("name", ["TRCA", "GiGPO", "Imitation"])
def test_mypy_knows_every_setting_of_an_algorithm(types_of, name):
    model = ALGORITHMS[name].config_class.parameters_class
    values = ", ".join(f"{field}=model.{field}" for field in model.model_fields)
    module = f"{model.__module__} import {model.__name__}"
    call = f"training(learner_class=object)\n\nfrom {module}\n\nmodel = {model.__name__}()\n"
    revealed = types_of(
        ALGORITHMS[name].config_class, f"{call}config = {name}Config().training({values})"
    )
    assert len(revealed) == 1
    assert f"{name}Config" in revealed[0]


def test_mypy_finds_a_misspelt_setting(types_of):
    config = ALGORITHMS["TRCA"].config_class
    (error, *_) = types_of(config, "training(lr=1e-6, lamda=0.5)")
    assert 'Unexpected keyword argument "lamda"; did you mean "lambda_"?' in error
    (error, *_) = types_of(ALGORITHMS["GiGPO"].config_class, "training(lambda_=0.5)")
    assert 'Unexpected keyword argument "lambda_"' in error


def test_mypy_finds_a_value_of_another_type(types_of):
    (error, *_) = types_of(ALGORITHMS["TRCA"].config_class, 'training(ablation="without_rubric")')
    assert 'Argument "ablation" has incompatible type "Literal' in error


def test_mypy_takes_an_algorithm_and_its_config_as_types(types_of):
    lines = (
        "training(lr=1e-6)",
        "from trca.algorithms import TRCA",
        "class Mine(TRCA): ...",
        "class MineConfig(TRCAConfig): ...",
        "def rule(given: TRCAConfig) -> float:",
        "    reveal_type(given.settings)",
        "    return given.settings.lambda_",
    )
    settings, config = types_of(ALGORITHMS["TRCA"].config_class, "\n".join(lines))
    assert settings.endswith('.TRCAParameters"')
    assert config.endswith('.TRCAConfig"')
