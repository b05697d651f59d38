"""Reports on a library, and the interface for a model that writes one: an agent's view only."""

import json
from pathlib import Path
from shutil import copytree

import pytest
import yaml

from trca.envs import make
from trca.envs.library_report import AGENTS, LAST_STEPS, interface, measure
from trca.envs.registration import PACKAGED, env_class
from trca.envs.text_env import TextEnv
from trca.rubric import RubricError
from trca.rubric.conditions import field_terms

FOLDER = Path(__file__).parents[2] / "examples" / "key_door" / "key_door"
KEY_DOOR = f"{FOLDER}/env.py:KeyDoor"


def report_of(env, **arguments):
    made = make(env, **arguments)
    return measure(made, made.unwrapped.task_ids[:12])


def changed(path, **changes):
    """The library of the example with different conditions, by operator id."""
    data = yaml.safe_load((FOLDER / "rubric.yaml").read_text())
    for operator in data["operators"]:
        operator.update(changes.get(operator["id"], {}))
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.mark.parametrize("name", [*PACKAGED, KEY_DOOR])
def test_a_good_library_covers_the_oracle_and_hardly_a_guess(name):
    report = report_of(name)
    assert tuple(report.agents) == AGENTS
    covered = {name: agent.coverage for name, agent in report.agents.items()}
    assert covered["oracle"] > covered["random"]
    assert report.agents["oracle"].success == 1
    assert not [text for text in report.problems if "every step" in text]


def test_operators_that_never_or_always_fire_and_overlap_are_named(tmp_path):
    library = changed(
        tmp_path / "weak.yaml",
        malformed={"condition": 'facts.verb == "zzz"'},
        door_seen={"condition": "size(facts.new) >= 0", "reads": ["new"]},
        key_seen={"condition": "size(facts.new) > 0"},
    )
    problems = report_of(KEY_DOOR, library=library).problems
    assert "malformed never fires" in problems
    assert "door_seen fires on every step of oracle and demonstrator and random" in problems
    assert "key_seen and something_seen fire together on 100% of their steps" in problems


def test_an_operator_that_blames_the_oracle_is_named(tmp_path):
    library = changed(
        tmp_path / "harsh.yaml",
        malformed={"condition": 'facts.verb == "open"'},
    )
    assert "malformed blames the oracle" in report_of(KEY_DOOR, library=library).problems


def test_steps_shortly_before_success_without_an_operator_are_blind_spots(tmp_path):
    data = yaml.safe_load((FOLDER / "rubric.yaml").read_text())
    for operator in data["operators"]:
        verb = "take" if operator["id"] == "wanted_key_taken" else "zzz"
        operator |= {"condition": f"facts.verb == '{verb}'", "reads": ["verb"], "binds": []}
    library = tmp_path / "blind.yaml"
    library.write_text(json.dumps(data))
    report = report_of(KEY_DOOR, library=library)
    wins = sum(round(each.episodes * each.success) for each in report.agents.values())
    assert report.searched == LAST_STEPS * wins < LAST_STEPS * 36
    agent, _, left, action = report.blind_spots[0]
    assert (agent, left, action) == ("oracle", 0, "open door")
    assert not [action for *_, action in report.blind_spots if action.startswith("take")]
    assert report_of(KEY_DOOR).blind_spots == ()


@pytest.mark.parametrize("name", PACKAGED)
def test_the_prompt_has_every_fact_with_its_meaning_and_a_first_state(name):
    shown = interface(name)
    adapter = env_class(name).adapter_class
    for prefix, record in (("facts", adapter.facts_type), ("task", adapter.binding_type)):
        for field, term in field_terms(prefix, record).items():
            assert f"- {field} ({term.kind}" in shown.prompt
    assert shown.instruction in shown.prompt
    assert shown.answers
    assert "Args:" not in shown.description
    assert interface(name).prompt == shown.prompt


@pytest.mark.parametrize("name", PACKAGED)
def test_nobody_who_knows_more_than_an_agent_is_asked(name, monkeypatch):
    def peek(self, *_):
        raise AssertionError("asked for what an agent cannot know")

    for part in ("oracle_action", "demonstrator_action", "gold"):
        monkeypatch.setattr(env_class(name), part, peek)
    assert interface(name).answers


def test_an_environment_without_facts_is_refused():
    class Bare(TextEnv):
        task_ids = ("one",)

    with pytest.raises(RubricError, match="declares no adapter_class"):
        interface(Bare)


def test_the_old_library_of_an_environment_does_not_matter(tmp_path):
    copytree(FOLDER, tmp_path / "key_door")
    (tmp_path / "key_door" / "rubric.yaml").unlink()
    assert interface(f"{tmp_path}/key_door/env.py:KeyDoor").environment == "KeyDoor"
    assert interface("alfworld").environment == "trca/ALFWorld-v0"
