"""A tiny policy that has just learned by imitation is evaluated before training."""

import pytest

from trca.algorithms.settings.parameters import TextParameters, in_environment, switch
from trca.cli.run.start_policy import build_start, start_lines
from trca.tune_configs.files import read

QUICK = """\
from tests.envs.test_contract import Coin


class Quick(Coin):
    tiny_policy = {"hidden_size": 32, "layers": 1, "stages": ((1.0, 2),)}
"""


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "quick.py").write_text(QUICK)
    config = in_environment(switch(read("quickstart"), "GRPO"), f"{tmp_path / 'quick.py'}:Quick")
    small = {"env_config": {"max_steps": 3}, "memory": False, "num_env_runners": 0}
    return TextParameters.resolve({**config, **small}, "quick")


def test_a_policy_that_was_built_is_evaluated_once(settings, tmp_path, capsys):
    build_start(settings, tmp_path / "output.log")
    lines = " ".join(capsys.readouterr().out.split())
    assert "Start policy after imitation: 0.0% of 64 training episodes succeed" in lines
    assert "the start policy wins none of 64 episodes" in lines
    build_start(settings, tmp_path / "output.log")
    assert "Start policy" not in capsys.readouterr().out


def test_a_start_that_wins_gets_no_warning():
    metrics = {"n": 64, "success_rate": 0.25, "parsed_ratio": 1.0, "valid_action_ratio": 0.75}
    [line] = start_lines(metrics)
    assert line == (
        "Start policy after imitation: 25.0% of 64 training episodes succeed, 100.0% of the"
        " responses are readable, 75.0% of the actions are carried out."
    )
