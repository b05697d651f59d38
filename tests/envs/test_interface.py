"""The interface for a model that writes a rubric: an agent's view only."""

from pathlib import Path
from shutil import copytree

import pytest

from trca.envs.interface import interface
from trca.envs.registration import PACKAGED, env_class
from trca.envs.text_env import TextEnv
from trca.rubric import RubricError
from trca.rubric.conditions import field_terms

KEY_DOOR = Path(__file__).parents[2] / "examples" / "key_door" / "key_door"


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
    copytree(KEY_DOOR, tmp_path / "key_door")
    (tmp_path / "key_door" / "rubric.yaml").unlink()
    assert interface(f"{tmp_path}/key_door/env.py:KeyDoor").environment == "KeyDoor"
    assert interface("alfworld").environment == "trca/ALFWorld-v0"
