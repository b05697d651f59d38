"""`trca diagnose` compares the first part of a run with the last and names signs of trouble."""

import json
import shutil
from dataclasses import replace

import pytest

from tests.cli.calls import done, refused
from tests.common.test_chat_endpoint import reply
from tests.envs.retrieval.servers import http, replying
from tests.served import served, taught
from trca.analysis.llm_labels import draw_transitions, transition_prompt
from trca.envs.teams.messages import message_judge
from trca.policies.bpe import END, train_tokenizer
from trca.records import read_rollouts, write_rollouts


def test_the_first_and_the_last_part_of_a_run_stand_beside_each_other(recorded_run, tmp_path):
    output = done("diagnose", recorded_run, "--output", tmp_path)
    told = json.loads((tmp_path / "diagnosis.json").read_text())
    assert list(told) == ["iteration 1", "iteration 3", "alarms"]
    part = told["iteration 1"]
    assert (part["rollouts"], part["groups"], part["success_free_groups"]) == (6, 2, 0.0)
    assert part["failure_rate"] == pytest.approx(2 / 3)
    assert sum(part["classes"].values()) == pytest.approx(1.0)
    assert part["classes"]["Other"] == 0.0
    assert part["classes"]["Validity"] > 0.3
    assert part["classes"]["Execution"] > 0.0
    line = next(line for line in output.splitlines() if "failed rollouts  " in line)
    assert line.split() == ["failed", "rollouts", "66.7%", "66.7%"]
    assert (tmp_path / "diagnosis.png").stat().st_size > 10_000


def test_groups_of_two_iterations_are_two_groups(recorded_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(recorded_run, run)
    for iteration in range(1, 11):
        folder = run / f"rollouts/iteration_{iteration:06d}"
        shutil.copytree(recorded_run / "rollouts/iteration_000001", folder, dirs_exist_ok=True)
    done("diagnose", run)
    parts = json.loads((run / "diagnosis.json").read_text())
    assert list(parts) == ["iterations 1-2", "iterations 9-10", "alarms"]
    assert (parts["iterations 1-2"]["rollouts"], parts["iterations 1-2"]["groups"]) == (12, 4)


def test_the_groups_of_a_file_are_its_tasks(recorded_run, tmp_path):
    rollouts = list(read_rollouts(recorded_run / "rollouts/iteration_000003/train.parquet"))
    one = tmp_path / "evaluation.parquet"
    write_rollouts(one, [replace(rollout, group=0) for rollout in rollouts])
    done("diagnose", one)
    assert json.loads((tmp_path / "diagnosis.json").read_text())["all"]["groups"] == 2


def test_what_cannot_be_diagnosed_is_refused_with_the_mend(recorded_run, tmp_path):
    empty = tmp_path / "empty.parquet"
    write_rollouts(empty, [])
    other = recorded_run / "rollouts/iteration_000001/train.parquet"
    plain = tmp_path / "plain.yaml"
    plain.write_text("algorithm: GRPO\nenv: CartPole-v1\n")
    for options, message in (
        ([empty], "no rollout with a step"),
        ([other, "--config=webshop"], "rubric library of the rollouts differs"),
        ([other, "--config=webshop"], "name the right --config"),
        ([recorded_run, "--config=quickstart"], "a run has its config"),
        ([tmp_path / "nothing.parquet"], "there is nothing at"),
        (["nothing"], "no run"),
    ):
        assert message in refused("diagnose", *options)


def test_a_read_only_run_is_diagnosed_in_another_folder(recorded_run, read_only_copy, tmp_path):
    path = read_only_copy(recorded_run)
    refusal = refused("diagnose", path)
    assert f"cannot write to {path}: " in refusal
    assert "name another folder by --output" in refusal
    done("diagnose", path, "--output", tmp_path / "study")
    assert (tmp_path / "study" / "diagnosis.png").exists()


def labelled(url, run, *options, call=done):
    return call("diagnose", run, "--judge=m", f"--base-url={url}", *options)


def test_a_model_labels_beside_the_operators(recorded_run, tmp_path):
    said = reply('{"label": "Validity"}'), reply("no idea"), reply('{"label": "Other"}')
    with replying(*said) as (url, requests):
        output = labelled(url, recorded_run, "--output", tmp_path, "--transitions=12")
    told = json.loads((tmp_path / "diagnosis.json").read_text())["judge"]
    assert (told["model"], told["labelled"], told["unlabelled"]) == ("m", 11, 1)
    assert len(requests) == 12
    assert sum(row["Validity"] for row in told["confusion"].values()) == 1
    assert sum(row["Other"] for row in told["confusion"].values()) == 10
    asked = json.loads(requests[0].partition(b"\r\n\r\n")[2])
    assert asked["temperature"] == 0.0
    assert asked["response_format"]["json_schema"]["schema"]["required"] == ["label"]
    said = " ".join(output.split())
    assert "m and the operators agree on" in said
    assert "Endpoint: 12 answers" in said
    with replying(reply('{"label": "Other"}'), http("never asked")) as (url, requests):
        labelled(url, recorded_run, "--output", tmp_path, "--transitions=12")
        assert len(requests) == 1  # the reply without a label
        told = json.loads((tmp_path / "diagnosis.json").read_text())["judge"]
        assert (told["labelled"], told["unlabelled"]) == (12, 0)
        again = labelled(url, recorded_run, "--output", tmp_path, "--transitions=12")
    assert len(requests) == 1
    assert json.loads((tmp_path / "diagnosis.json").read_text())["judge"] == told
    assert "12 answers" not in again


def test_a_model_that_never_labels_is_told_what_it_must_do_and_the_study_goes_on(
    recorded_run, tmp_path
):
    with replying(*[reply("", "length")] * 4) as (url, _):
        said = labelled(url, recorded_run, "--output", tmp_path, "--transitions=4")
    said = " ".join(said.split())
    assert "! none of m's 4 replies is a label" in said
    assert "Endpoint: 4 answers" in said
    assert "judge" not in json.loads((tmp_path / "diagnosis.json").read_text())


def test_labels_that_came_before_an_endpoint_failed_are_kept(recorded_run, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    denied = http("no such key sk-very-secret", "401 Unauthorized")
    options = "--output", tmp_path, "--transitions=30"
    with replying(*[reply('{"label": "Other"}')] * 8, denied) as (url, _):
        words = labelled(url, recorded_run, *options, call=refused)
    assert "401" in words
    assert "sk-very" not in words
    kept = [line for line in (tmp_path / "judge.jsonl").read_text().splitlines() if line]
    assert 1 <= len(kept) <= 8
    assert not (tmp_path / "diagnosis.json").exists()


def test_a_judge_and_its_endpoint_go_together(recorded_run):
    for options in (["--judge=m"], ["--base-url=http://127.0.0.1:9/v1"]):
        words = refused("diagnose", recorded_run, *options)
        assert "--judge NAME and --base-url URL go together" in words


@pytest.mark.slow
def test_a_real_server_labels(recorded_run, tmp_path, free_port):
    rollouts = [r for path in recorded_run.rglob("train.parquet") for r in read_rollouts(path)]
    drawn = draw_transitions(rollouts, 16)
    rows = [(transition_prompt(*each), f'{{"label": "Evidence"}}{END}') for each in drawn]
    tokenizer = train_tokenizer([f"{a}{b}" for a, b in rows], [], 400, 100)
    model = taught(tmp_path / "model", tokenizer, rows * 20)
    with served(model, free_port) as url:
        options = f"--base-url={url}", "--output", tmp_path, "--transitions=16"
        done("diagnose", recorded_run, f"--judge={model}", *options)
    told = json.loads((tmp_path / "diagnosis.json").read_text())["judge"]
    assert told["labelled"] + told["unlabelled"] == 16
    assert told["labelled"] >= 8


def test_each_role_of_a_team_has_a_study_of_its_own(recorded_team, tmp_path):
    output = done("diagnose", recorded_team, "--output", tmp_path)
    studies = {
        role: json.loads((tmp_path / f"diagnosis_{role}.json").read_text())["iteration 1"]
        for role in ("planner", "executor")
    }
    for role, study in studies.items():
        assert (study["rollouts"], study["groups"], study["failure_rate"]) == (4, 2, 0.5)
        assert role in output.splitlines()
        assert (tmp_path / f"diagnosis_{role}.png").stat().st_size > 1000
    assert studies["planner"]["steps"] < studies["executor"]["steps"]
    assert set(studies["planner"]["fired"]) == set(message_judge().library.ids)
    assert studies["executor"]["fired"]["target_taken"] > 0
