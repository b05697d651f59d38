"""The arguments of ``training()`` as editors and type checkers know them."""

import inspect
import re
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
from mypy import api

from trca.algorithms import ALGORITHMS
from trca.algorithms.settings import keywords
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.write_keywords import text

ROOT = Path(__file__).parents[3]

PROGRAM = """
from ray import tune
from trca.algorithms.{folder}.{folder} import {config}

config = {config}().training({arguments})
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

    def check(config, arguments):
        path = folder / "program.py"
        module = inspect.getmodule(config).__name__.rpartition(".")[2]
        path.write_text(PROGRAM.format(folder=module, config=config.__name__, arguments=arguments))
        options = [f"--config-file={folder}/mypy.ini", f"--cache-dir={folder}/cache"]
        limit = sys.getrecursionlimit()
        output, errors, _ = api.run([*options, "--follow-imports=silent", str(path)])
        sys.setrecursionlimit(limit)  # mypy raises the limit of the process
        assert not errors, errors
        return re.findall(r"program\.py:\d+: (?:error|note): (.*)", output)

    return check


def test_the_file_of_names_and_types_is_current():
    fix = "write it again: python -m trca.algorithms.write_keywords"
    assert Path(keywords.__file__).read_text() == text(), fix


@pytest.mark.parametrize("name", ALGORITHMS)
def test_training_names_every_setting_of_the_algorithm(name):
    model = ALGORITHMS[name].config_class.parameters_class
    added = model.model_fields.keys() - TextParameters.model_fields.keys()
    for config in ALGORITHMS[name].config_class.__mro__:
        if match := re.search(r"def training\(.*Unpack\[(\w+)\]", inspect.getsource(config)):
            arguments = get_type_hints(getattr(keywords, match[1])).keys()
            break
    assert model.model_fields.keys() <= arguments
    assert added or match[1] == "TrainingKeywords"


def test_mypy_finds_a_misspelt_setting(types_of):
    config = ALGORITHMS["GiGPO"].config_class
    correct = 'lr=1e-6, omega=0.5, anchor="observation", gamma=tune.uniform(0.9, 1.0)'
    (revealed,) = types_of(config, correct)
    assert "GiGPOConfig" in revealed
    (error, *_) = types_of(config, "lr=1e-6, omga=0.5")
    assert 'Unexpected keyword argument "omga" for "training" of "GiGPOConfig"' in error
    (error, *_) = types_of(config, "lambda_=0.5")
    assert 'Unexpected keyword argument "lambda_"' in error


def test_mypy_finds_a_value_of_another_type(types_of):
    config = ALGORITHMS["TRCA"].config_class
    (error, *_) = types_of(config, 'ablation="without_rubric"')
    assert 'Argument "ablation" to "training" of "TRCAConfig" has incompatible type' in error
