"""`trca recredit` credits recorded rollouts again, and refuses unsuitable runs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.cli.calls import chatting, done, refused, trca
from trca.algorithms.credit import bind_credit
from trca.algorithms.settings.parameters import TextParameters
from trca.envs.teams.messages import message_judge
from trca.records import StepBatch, assign_advantages, read_rollouts, write_rollouts
from trca.rubric import RubricLibrary
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import rollout_file
from trca.tune_configs.files import read

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
        ([], "name another rule, a parameter of the run's rule, or a library"),
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
                for name in ("reads", "binds", "condition"):
                    del operator[name]
                operator |= changed
        path = tmp_path / "mine.yaml"
        path.write_text(json.dumps(data))
        return path

    return write


def test_another_library_judges_the_recorded_facts(recredit, library):
    taken = {"reads": ["verb"], "condition": "facts.verb == 'take'"}
    told, output = recredit(f"--library={library(malformed=taken)}")
    judged = told["judged"]["malformed"]
    assert (judged["missing"], judged["before"], told["rollouts"]) == (0, 0, 12)
    assert judged["equal"] == pytest.approx(1 - judged["now"])
    after = {each["operator"]: each["steps"] for each in told["operators"]}
    assert after["malformed"] == after["target_taken"] == 12  # the oracle takes targets only
    assert "judged by" in output


def test_an_operator_without_its_prerequisite_is_judged_as_not_fired(recredit, library):
    taken = {"reads": ["verb"], "condition": "facts.verb == 'take'"}
    told, _ = recredit(f"--library={library(target_taken=taken | {'requires': ['malformed']})}")
    assert told["judged"]["target_taken"]["before"] > told["judged"]["target_taken"]["now"] == 0


def test_the_library_of_the_run_repeats_its_judgments_and_its_credit(recorded_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(recorded_run, run)
    rule = bind_credit("trca", TextParameters.resolve(read("quickstart"), "quickstart"))
    for path in run.rglob("train.parquet"):
        rollouts = list(read_rollouts(path))
        kept = [rollout for rollout in rollouts if rollout.steps[0].judgments.any()]
        assert 0 < len(kept) < len(rollouts)
        batch = StepBatch.from_rollouts(kept, RubricLibrary.load("alfworld").categories)
        assign_advantages(kept, rule(batch))
        write_rollouts(path, kept)
    told = tmp_path / "change.json"
    output = done("recredit", run, "--library=alfworld", f"--output={told}")
    assert "The library gives the recorded judgments" in output
    told = json.loads(told.read_text())
    assert told["before"] == told["after"]
    assert told["before"]["steps"] > 0.5


QUESTION = {"judge": "Is something taken?"}


def prompt_of(request):
    return request["messages"][0]["content"]


def takes(prompt):
    return json.dumps({"answer": "yes" if "\nACTION\ntake " in prompt else "no"})


@pytest.fixture
def asks(recorded_run, library, tmp_path):
    """Lets a model answer a question about a copy of the run; returns the file and the text."""
    run = tmp_path / "run"
    shutil.copytree(recorded_run, run)
    path = tmp_path / "change.json"

    def call(answer, code=0, **questions):
        mine = library(**(questions or {"target_taken": QUESTION}))
        with chatting(lambda request: answer(prompt_of(request))) as (url, requests):
            options = (f"--library={mine}", "--judge=m", f"--base-url={url}", f"--output={path}")
            result = trca("recredit", run, *options)
        assert result.exit_code == code, result.output
        told = json.loads(path.read_text()) if not code else {}
        return told, result.output, [prompt_of(request) for request in requests]

    return call


def test_a_model_answers_the_question_of_an_operator_once(asks):
    told, output, prompts = asks(takes)
    judged = told["judged"]["target_taken"]
    assert (judged["missing"], told["rollouts"]) == (0, 12)
    # The oracle takes only targets; a third of the rollouts has empty judgments.
    assert 0 < judged["before"] < judged["now"] < 1
    assert judged["equal"] == pytest.approx(1 - judged["now"] + judged["before"])
    assert 0 < judged["kappa"] < 1
    assert len(set(prompts)) == len(prompts) < told["steps"]  # rollouts share steps
    assert all("QUESTION\nIs something taken?\n" in prompt for prompt in prompts)
    sent = f"{told['steps']} questions, {len(prompts)} of them sent: {len(prompts)} answers"
    assert f"{sent}, {100 * len(prompts):,} prompt" in " ".join(output.split())
    again, output, prompts = asks(takes)
    assert not prompts
    assert again == told
    assert "0 of them sent" in output
    assert len(asks(takes, target_taken={"judge": "Another question?"})[2]) > 0


def test_a_question_without_a_yes_or_no_is_a_missing_judgment_and_never_a_zero(asks):
    _, output, prompts = asks(lambda prompt: 400 if "ACTION\ntake " in prompt else "no", code=2)
    words = " ".join(output.split())
    assert "no rollout has all its judgments: http" in words  # each rollout takes something
    assert "HTTP 400" in words
    target = next(prompt for prompt in prompts if "ACTION\ntake " in prompt)
    told, output, prompts = asks(lambda prompt: "maybe" if prompt == target else takes(prompt))
    judged = told["judged"]["target_taken"]
    assert judged["missing"] == 12 - told["rollouts"] == 3
    assert "3 rollouts with a missing judgment are left out" in output
    assert target in prompts
    told, output, prompts = asks(takes)
    assert prompts == [target]
    assert told["rollouts"] == 12


def test_questions_without_a_model_and_other_mixed_options_are_refused(
    recorded_run, recorded_team, library, tmp_path
):
    asks = f"--library={library(target_taken=QUESTION)}"
    model = ["--judge=m", "--base-url=http://127.0.0.1:9/v1"]
    for options, message in (
        ([asks], "mine.yaml has questions (target_taken): name a model by --judge NAME"),
        (["--library=alfworld", *model], "no operator of alfworld.yaml has a question"),
        ([asks, "--judge=m"], "--judge NAME and --base-url URL go together"),
        (["--credit=grpo", *model], "--library FILE, --judge NAME and --base-url URL go together"),
        (["--library=webshop"], "there is no 'facts.new_match'"),
    ):
        assert message in refused("recredit", recorded_run, *options)
    words = refused("recredit", recorded_team, "--library=alfworld")
    assert "--library judges a single agent again, not planner and executor" in words


@pytest.mark.parametrize(("facts", "message"), [
    ({}, "recorded without facts"),
    ({"gone": 1}, "the recorded facts are of another version of ALFWorldAdapter"),
])  # fmt: skip
def test_records_that_lack_facts_are_refused(recorded_run, tmp_path, facts, message):
    run = tmp_path / "run"
    shutil.copytree(recorded_run, run)
    for path in run.rglob("train.parquet"):
        rollouts = list(read_rollouts(path))
        for rollout in rollouts:
            rollout.steps = [replace(step, facts=facts) for step in rollout.steps]
        write_rollouts(path, rollouts)
    assert message in refused("recredit", run, "--library=alfworld")


def test_an_iteration_of_unreadable_responses_alone_is_judged_again(recorded_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(recorded_run, run)
    first, *_ = sorted(run.rglob("train.parquet"))
    rollouts = list(read_rollouts(first))
    for rollout in rollouts:
        rollout.steps = [replace(step, facts={}) for step in rollout.steps]
    write_rollouts(first, rollouts)
    assert "rollouts" in done("recredit", run, "--library=alfworld")


def test_training_refuses_a_library_with_questions(library):
    mine = library(target_taken=QUESTION, malformed=QUESTION)
    words = refused("train", "quickstart", f"--set=env_config.library={mine}")
    assert "target_taken" in words
    assert "only in `trca recredit RUN --library FILE --judge NAME --base-url URL`" in words
    done("rubric", "check", mine)
    assert "asks a model: Is something taken?" in done("rubric", "show", mine)
