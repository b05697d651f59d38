"""`trca recredit` credits recorded rollouts again, and refuses unsuitable runs."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cli.calls import done, refused
from trca.envs.teams.messages import message_judge
from trca.records import read_rollouts, write_rollouts
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import rollout_file

OWN = """
def mine(batch, *, scale=1.0):
    return scale * batch.judgments[:, 0].astype(float)
"""


@pytest.fixture
def recredit(recorded_run, tmp_path):
    """Runs the command; returns the written file and the printed text."""

    def call(*arguments):
        path = tmp_path / "change.json"
        output = done("recredit", recorded_run, *arguments, f"--output={path}")
        return json.loads(path.read_text()), output

    return call


def test_the_rule_of_the_run_changes_nothing(recredit):
    told, output = recredit("--credit", "trca")
    assert (told["rollouts"], told["groups"], told["iterations"]) == (12, 4, [1, 3])
    assert told["before"] == told["after"]
    assert told["before"]["steps"] > 0.5
    assert told["rank_correlation"] == pytest.approx(1.0)
    assert told["signs"][0][1:] == told["signs"][2][:2] == [0.0, 0.0]
    assert "12 rollouts in 4 groups, iterations 1, 3" in " ".join(output.split())
    assert "Rank correlation 1.00" in output


def test_another_lambda_and_other_budgets_change_it(recredit):
    told, output = recredit("--set=lambda_=0.1", "--set=budgets.execution=5")
    assert told["credit"] == ["trca", "trca"]
    assert 0.3 < told["rank_correlation"] < 0.999
    assert "after: trca lambda_=0.1 budgets.execution=5" in output


def test_another_rule_has_its_own_parameters(recredit):
    told, _ = recredit("--credit", "gigpo", "--set=omega=0", "--iteration", 3)
    plain, _ = recredit("--credit", "grpo", "--iteration", 3)
    assert (told["groups"], told["iterations"]) == (2, [3])
    assert told["after"] == plain["after"]
    assert told["before"] != told["after"]


def test_so_has_one_out_of_a_file(recredit, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(OWN)
    told, output = recredit("--credit", f"{own}:mine", "--set=credit_config.scale=-2")
    first = told["operators"][0]
    assert first["after"] == -2.0
    assert told["after"]["positive"] == 0.0
    assert first["operator"] in output


def test_what_cannot_be_credited_again_is_refused_with_the_mend(recorded_run):
    for options, message in (
        ([], "name another rule, or a parameter of the run's rule"),
        (["--credit=turn_ppo"], "reads values, which a record does not contain"),
        (["--credit=igpo"], "final_word_set_f1, which a record does not contain"),
        (["--credit=gigpoo"], "error: --credit: "),
        (["--credit=gigpoo"], "did you mean 'gigpo'?"),
        (["--set=lambda=1"], "did you mean 'lambda_'?"),
        (["--set=lr=0.1"], "trca does not read lr: name a rule by --credit; --set takes"),
        (["--credit=grpo", "--set=lambda_=0.5"], "belongs to ShapedReturn and TRCA, not to GRPO"),
        (["--credit=grpo", "--iteration=2"], "no training rollouts of iteration 2: choose 1, 3"),
    ):
        assert message in refused("recredit", recorded_run, *options)


def test_the_comparison_is_json_that_any_reader_takes(recredit, recorded_run, tmp_path):
    told, _ = recredit("--credit", "grpo")
    silent = [each for each in told["operators"] if not each["steps"]]
    assert silent
    assert all(each["before"] is None for each in silent)
    nowhere = tmp_path / "nowhere/change.json"
    words = refused("recredit", recorded_run, "--credit=grpo", f"--output={nowhere}")
    assert "there is no folder" in words


def test_rollouts_of_another_library_are_refused(recorded_run, tmp_path):
    changed = RunFolder.create(tmp_path, "changed")
    changed.write_config(RunFolder(recorded_run).read_config())
    rollouts = list(read_rollouts(recorded_run / "rollouts/iteration_000001/train.parquet"))
    for rollout in rollouts:
        rollout.operators = ("renamed", *rollout.operators[1:])
    write_rollouts(rollout_file(changed, "train", 1), rollouts)
    words = refused("recredit", changed.path, "--credit=grpo")
    assert "rubric library of the rollouts differs" in words


def test_each_role_of_a_team_is_credited_by_itself(recorded_team, tmp_path):
    path = tmp_path / "change.json"
    output = done("recredit", recorded_team, "--credit=trca", f"--output={path}")
    roles = json.loads(path.read_text())["roles"]
    assert list(roles) == ["planner", "executor"]
    for role, told in roles.items():
        assert f", {role}: {told['steps']} steps of 4 rollouts in 2 groups" in output
        assert told["before"] == told["after"]
        assert told["before"]["steps"] > 0.5
    assert {o["operator"] for o in roles["planner"]["operators"]} == set(
        message_judge().library.ids
    )


@pytest.fixture
def library(tmp_path):
    """Writes ALFWorld's library with other conditions or questions, by operator id."""

    def write(**changes):
        data = yaml.safe_load(Path("trca/rubric/libraries/alfworld.yaml").read_text())
        for operator in data["operators"]:
            if changed := changes.get(operator["id"]):
                del operator["reads"], operator["binds"], operator["condition"]
                operator |= changed
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    return write


def test_another_library_judges_the_recorded_facts(recredit, library):
    told, output = recredit("--library=alfworld")
    assert told["rollouts"] == 12
    judged = {each["operator"]: each for each in told["judged"]}
    # A third of the rollouts is recorded without judgments, and lacks two steps.
    assert 0 < judged["target_seen"]["before"] < judged["target_seen"]["now"]
    assert judged["malformed"] == {
        "operator": "malformed", "missing": 0, "now": 0, "before": 0, "agreement": 1, "kappa": None,
    }  # fmt: skip
    taken = {"reads": ["verb"], "condition": "facts.verb == 'take'"}
    told, output = recredit(f"--library={library(target_taken=taken, malformed=taken)}")
    judged = {each["operator"]: each for each in told["judged"]}
    assert judged["malformed"]["now"] == judged["target_taken"]["now"] > 0
    assert judged["malformed"]["before"] == 0
    after = {each["operator"]: each["steps"] for each in told["operators"]}
    assert after["malformed"] == after["target_taken"] == 12
    assert "judged by" in output


def test_the_library_of_the_run_repeats_its_judgments_and_its_credit(recorded_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(recorded_run, run)
    for path in run.rglob("train.parquet"):
        rollouts = list(read_rollouts(path))
        kept = [rollout for rollout in rollouts if rollout.steps[0].judgments.any()]
        assert 0 < len(kept) < len(rollouts)
        batch = StepBatch.from_rollouts(kept, RubricLibrary.load("alfworld").categories)
        assign_advantages(kept, bind_credit("grpo", TextParameters.resolve({}, ""))(batch))
        write_rollouts(path, kept)
    told = tmp_path / "change.json"
    output = done("recredit", run, "--library=alfworld", "--credit=grpo", f"--output={told}")
    assert "The library gives the recorded judgments" in output
