"""`trca inspect` shows a recorded rollout as `trca play` shows an episode."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.cli.calls import done, refused, trca
from trca.algorithms.settings.parameters import TextParameters
from trca.cli.show.steps import print_action
from trca.envs import make
from trca.records import Rollout, Step, changed_facts, read_rollouts, to_json, write_rollouts
from trca.records.rollout import Failure
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import rollout_file
from trca.tune_configs.files import read

FILE = "rollouts/iteration_000002/train.parquet"
NO_IDS = np.empty(0, np.int32)
TRANSITION = ("context", "next_context", "parsed", "accepted", "facts", "rubric")


def recorded(before, action, ended):
    """A step, as a transition of an agent records it."""
    return Step(
        NO_IDS,
        NO_IDS,
        NO_IDS.astype(bool),
        NO_IDS.astype(np.float32),
        before,
        "",
        action,
        ended.context,
        ended.next_context,
        ended.reward,
        ended.rubric["judgments"],
        parsed=ended.parsed,
        accepted=ended.accepted,
        foundational=ended.rubric["foundational"],
        breakthrough=ended.rubric["breakthrough"],
        facts=changed_facts(ended.facts),
    )


def played(env, task):
    """The record of an episode of the oracle."""
    observation, info = env.reset(options={"task": task})
    operators = env.get_wrapper_attr("judge").library.ids
    rollout = Rollout(task, info["split"], info["task_type"], 0, 0, 0)
    rollout.instruction, rollout.operators = info["task"], operators
    over = False
    while not over:
        action = env.unwrapped.oracle_action()
        before = observation
        observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        transition = {name: info[name] for name in TRANSITION}
        rollout.steps.append(recorded(before, action, SimpleNamespace(reward=reward, **transition)))
    rollout.won, rollout.last_observation = info["won"], observation
    return rollout


def played_by_team(env, task):
    """The records of an episode of the oracle, one of each role."""
    observation, info = env.reset(options={"task": task})
    rollouts = {
        role: Rollout(task, info["split"], info["task_type"], 0, 0, 0) for role in env.agents
    }
    for role, rollout in rollouts.items():
        rollout.agent_id, rollout.operators = role, env.operators[role].ids
        rollout.instruction = env.instruction
    taken, over, turn = {}, False, 0
    while not over:
        action = env.oracle_action()
        taken[info["agent"]] = turn, observation, action
        observation, _, terminated, truncated, info = env.step(action)
        over, turn = terminated or truncated, turn + 1
        for ended in info["closed"]:
            number, before, action = taken.pop(ended.agent)
            rollouts[ended.agent].turns.append(number)
            rollouts[ended.agent].last_observation = ended.observation
            rollouts[ended.agent].steps.append(recorded(before, action, ended))
    for rollout in rollouts.values():
        rollout.won = info["won"]
    return list(rollouts.values())


@pytest.fixture(params=["alfworld", "webshop", "searchqa"])
def environment(request):
    return request.param


@pytest.fixture
def env(environment):
    return make(environment)


@pytest.fixture
def run(tmp_path, environment, env):
    """A run folder with two recorded rollouts of iteration 2."""
    folder = RunFolder.create(tmp_path, "run")
    preset = "quickstart" if environment == "alfworld" else environment
    folder.write_config(TextParameters.resolve(read(preset), preset).flat())
    tasks = env.get_wrapper_attr("task_ids")[:2]
    write_rollouts(rollout_file(folder, "train", 2), [played(env, task) for task in tasks])
    return folder.path


def test_a_rollout_is_shown_word_for_word_as_play_shows_it_with_its_reasons(run, env, environment):
    task = env.get_wrapper_attr("task_ids")[1]
    options = ["--split", env.unwrapped.split, "--task", task, "--why", "--policy", "oracle"]
    shown = done("inspect", run, "--iteration", 2, "--rollout", 1)
    assert shown == done("play", environment, *options)
    assert " && " not in shown
    assert "facts." in shown


def test_the_advantage_of_a_training_step_is_shown(run):
    path = run / FILE
    rollouts = list(read_rollouts(path))
    for rollout in rollouts:
        rollout.advantages = np.arange(len(rollout.steps)) - 0.5
    write_rollouts(path, rollouts)
    shown = trca("inspect", run, "--rollout", 1).output
    advantages = [float(a) for a in re.findall(r"   A ([-+.\d]+)$", shown, re.MULTILINE)]
    assert advantages == rollouts[1].advantages.tolist()
    for rollout in rollouts:
        rollout.operators = ()
        rollout.steps = [replace(step, judgments=NO_IDS) for step in rollout.steps]
    write_rollouts(path, rollouts)
    assert "\n  A -0.500\n" in trca("inspect", run, "--rollout", 1).output


def with_prompts(path):
    """The rollouts of a file, which gets prompts and missing rollouts."""
    rollouts = list(read_rollouts(path))
    prompts = [f"prompt {k} of {r.task_id}" for r in rollouts for k in range(len(r.steps))]
    write_rollouts(path, rollouts, prompts, [Failure(0, "x", 4, "lost")])
    return rollouts


def test_prompts_are_shown_in_place_of_observations(run, env):
    path = run / FILE
    assert "has no prompts" in trca("inspect", run, "--rollout", 1, "--prompts").output
    rollout = with_prompts(path)[1]
    plain, shown = (trca("inspect", run, "--rollout", 1, *o).output for o in ([], ["--prompts"]))
    numbers = range(len(rollout.steps))
    places = [shown.index(f"prompt {number} of {rollout.task_id}") for number in numbers]
    assert places == sorted(places)
    last = rollout.last_observation.splitlines()[0]
    assert last[:40] in shown
    first = rollout.steps[0].observation.splitlines()[0][:40]
    assert first in plain
    assert first not in shown or first == last[:40]


def test_whole_rollouts_are_printed_as_json_lines_that_read_back(run, tmp_path):
    rollouts = with_prompts(run / FILE)
    lines = trca("inspect", run, "--json").output
    *records, missing = map(json.loads, lines.splitlines())
    assert missing == {"missing": 4, "task_id": "x", "group": 0, "reason": "lost"}
    assert [len(record["steps"]) for record in records] == [len(r.steps) for r in rollouts]
    assert records[1]["steps"][0]["prompt"] == f"prompt 0 of {rollouts[1].task_id}"
    assert json.loads(trca("inspect", run, "--json", "--rollout=1").output) == records[1]
    (tmp_path / "lines.jsonl").write_text(lines)
    again = list(read_rollouts(tmp_path / "lines.jsonl"))
    assert [to_json(rollout) for rollout in again] == [to_json(rollout) for rollout in rollouts]
    for file in (run / FILE, tmp_path / "lines.jsonl"):  # a file without a run
        assert trca("inspect", file, "--json").output == lines
        shown = trca("inspect", file, "--rollout=1", "--prompts").output
        assert f"prompt 0 of {rollouts[1].task_id}" in shown


def test_without_a_number_the_rollouts_of_the_last_iteration_are_listed(run, env):
    output = trca("inspect", run).output
    assert "iteration_000002" in output
    for number, task in enumerate(env.get_wrapper_attr("task_ids")[:2]):
        (line,) = [line for line in output.splitlines() if line.startswith(f"   {number}  ")]
        assert "won" in line
        assert line.endswith(task)


def test_what_is_not_recorded_is_refused_with_what_is(run):
    for options, message in (
        (["--iteration", 3], "no training rollouts of iteration 3: choose 2"),
        (["--rollout", 2], "has 2 rollouts, numbered from 0"),
        (["--evaluation"], "no evaluation rollouts of any iteration"),
    ):
        assert message in refused("inspect", run, *options)


def test_no_reason_is_given_by_a_library_that_has_changed(run):
    rollout = next(read_rollouts(run / FILE))
    rollout.operators = ("renamed", *rollout.operators[1:])
    write_rollouts(run / FILE, [rollout])
    output = done("inspect", run, "--rollout", 0)
    assert "library has changed" in output
    assert "facts." not in output


def test_a_step_without_an_action_shows_the_response(capsys):
    print_action("", "I think\nI should wait.")
    output = capsys.readouterr().out
    assert "> (no action could be read)" in output
    assert "response: 'I think\\nI should wait.'" in output


def test_a_file_of_rollouts_without_pyarrow_names_the_extra(monkeypatch):
    there = __import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "trca.common.extras.find_spec", lambda name: None if name == "pyarrow" else there(name)
    )
    said = refused("inspect", "evaluation.parquet")
    assert "reading rollouts needs pyarrow: pip install '.[train]' in a checkout of TRCA" in said
