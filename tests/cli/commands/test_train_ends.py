"""What a run prints around training: its start policy, its failures, commands that come next."""

import io
import re
import shlex
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from typer.main import get_command

from tests.cli.calls import done
from trca.algorithms.settings.parameters import TextParameters, in_environment, switch
from trca.cli import app
from trca.cli.commands.train import build_start, failure_table, next_steps, start_lines
from trca.common.json_lines import read_lines
from trca.policies import tiny
from trca.records.rollout import Incident
from trca.runs.folder import RunFolder
from trca.tune_configs.files import read


def another_algorithm(folder, algorithm, model, **changes):
    """The command that trains another algorithm after a run, without ``trca``."""
    base = switch(read("quickstart"), algorithm) | {"model": model} | changes
    settings = TextParameters.resolve(base, "quickstart")
    run = RunFolder.create(folder, "mine")
    run.write_settings(settings.flat())
    (command,) = [c for c, _ in next_steps(run, settings) if c.startswith("trca train")]
    return shlex.split(command)[1:]


@pytest.mark.parametrize(
    ("algorithm", "model", "options"),
    [
        ("TRCA", "tiny", "--algorithm GRPO --set lr=2e-4 --name grpo"),
        ("TRCA", "shrunk:Qwen/Qwen2.5-1.5B-Instruct", "--algorithm GRPO --name grpo"),
        ("GRPO", "tiny", "--algorithm GiGPO --name gigpo"),
    ],
)
def test_only_grpo_with_the_tiny_policy_gets_another_learning_rate(
    tmp_path, algorithm, model, options
):
    command = another_algorithm(tmp_path, algorithm, model)
    assert command == ["train", f"{tmp_path}/mine/config.yaml", *options.split()]


def test_the_learning_rate_reaches_the_settings(tmp_path):
    command = another_algorithm(tmp_path, "TRCA", "tiny")
    output = done(*command, "--dry-run", f"--storage-path={tmp_path}")
    assert "algorithm: GRPO\n" in output
    assert "lr: 0.0002\n" in output


def test_after_imitation_the_exported_policy_learns_in_groups(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(Path(tiny.__file__).parent / "tiny_data/alfworld", "my-policy")
    command = another_algorithm(tmp_path, "Imitation", "tiny", group_size=1)
    output = done(*command, "--dry-run", f"--storage-path={tmp_path}")
    assert "algorithm: TRCA\n" in output
    assert re.search(r"^model: \S*my-policy$", output, re.M)
    assert "group_size: 8\n" in output


@pytest.mark.parametrize("preset", ["quickstart", "imitate", "searchqa"])
def test_the_commands_after_a_run_have_arguments_and_options_of_trca(tmp_path, preset):
    settings = TextParameters.resolve(read(preset) | {"model": "tiny"}, preset)
    run = RunFolder.create(tmp_path, "mine")
    run.write_settings(settings.flat())
    commands = [shlex.split(c) for c, _ in next_steps(run, settings)]
    parsers = get_command(app).commands
    for program, name, *arguments in commands:
        if program == "trca":
            parsers[name].make_context(name, arguments)
    names = [words[1] for words in commands]
    assert (names.index("export") < names.index("train")) == (preset == "imitate")


def test_another_algorithm_after_a_run_with_a_users_rule_has_its_own_rule(tmp_path):
    rule = tmp_path / "my_rule.py"
    rule.write_text("def mine(batch):\n    return batch.rewards\n")
    arguments = another_algorithm(tmp_path, "GRPO", "tiny", credit=f"{rule}:mine")
    dry = ["--dry-run", f"--storage-path={tmp_path}"]
    assert "credit: gigpo\n" in done(*arguments, *dry)
    own = done(*arguments, *dry, f"--set=credit={rule}:mine")
    assert f"credit: {rule}:mine\n" in own


STUCK = "StuckError: environment Rooms: step('go') has not returned for 300 s"


def test_a_run_records_every_failure_and_its_table_counts_them(tmp_path):
    run = RunFolder.create(tmp_path, "run")
    run.append_failures(1, [])
    assert not run.failures.exists()
    stuck = [Incident(0.0, "rollout", f"{k} of group 0", "t", STUCK, "retried") for k in range(2)]
    run.append_failures(1, stuck)
    run.append_failures(2, [Incident(60.0, "env runner", "2", "", "it was lost", "retried")])
    lines = read_lines(run.failures)
    assert lines[2] == {
        "time": "1970-01-01T00:01:00+00:00",
        "kind": "env runner",
        "which": "2",
        "task_id": "",
        "reason": "it was lost",
        "action": "retried",
        "iteration": 2,
    }
    out = io.StringIO()
    Console(file=out, width=120).print(failure_table(lines))
    runner, rollouts = out.getvalue().splitlines()[4:6]
    assert runner.split() == ["env", "runner", "1", "retried", "it", "was", "lost"]
    assert rollouts.split() == ["rollout", "2", "retried", *STUCK.split()]


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
