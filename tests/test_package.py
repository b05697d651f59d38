import subprocess
import sys
from pathlib import Path

import pytest

from trca import __version__

LIGHT = """
import sys
import trca.envs
from trca import rubric
print([m for m in ("torch", "ray", "transformers", "pettingzoo") if m in sys.modules])
"""


def test_the_package_is_light_until_an_algorithm_is_asked_for():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_configs_come_from_the_package_itself():
    import trca

    from trca import TRCAConfig  # isort: skip
    from trca.algorithms import TRCAConfig as Config  # isort: skip

    assert TRCAConfig is Config
    with pytest.raises(AttributeError, match="no attribute 'PPO'"):
        _ = trca.PPO


def test_every_algorithm_and_its_config_come_from_the_package_itself():
    import trca
    from trca.algorithms import ALGORITHMS

    for algorithm in ALGORITHMS.values():
        for each in (algorithm, algorithm.config_class):
            assert getattr(trca, each.__name__) is each
            assert each.__name__ in dir(trca)


def test_every_file_of_a_rule_is_in_the_list_of_algorithms():
    from trca import algorithms

    rules = {path.stem for path in Path(algorithms.__file__).parent.glob("rules/[!_]*.py")}
    models = [a.config_class.parameters_class for a in algorithms.ALGORITHMS.values()]
    assert rules == {model.__module__.split(".")[-1] for model in models}


def test_python_m_trca_is_the_command_and_says_its_version():
    done = subprocess.run([sys.executable, "-m", "trca", "--version"], capture_output=True)
    assert done.stdout.decode() == f"trca {__version__}\n"
