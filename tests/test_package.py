import subprocess
import sys

import pytest

from trca import __version__

HEAVY = "[m for m in ('torch', 'ray', 'transformers') if m in sys.modules]"


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_package_is_light_until_an_algorithm_is_asked_for():
    assert python(f"import sys, trca, trca.envs; print({HEAVY})") == "[]"


def test_configs_come_from_the_package_itself():
    import trca

    from trca import TRCAConfig  # isort: skip
    from trca.algorithms import TRCAConfig as Config  # isort: skip

    assert TRCAConfig is Config
    assert {"GRPO", "GiGPOConfig"} <= set(dir(trca))
    with pytest.raises(AttributeError, match="no attribute 'PPO'"):
        _ = trca.PPO


def test_python_m_trca_is_the_command_and_says_its_version():
    done = subprocess.run([sys.executable, "-m", "trca", "--version"], capture_output=True)
    assert done.stdout.decode() == f"trca {__version__}\n"
