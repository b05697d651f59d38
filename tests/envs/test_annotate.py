"""The annotation wrapper on the real environment: its keys in info, and equal rewards."""

import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.toy import Rooms, RoomsAdapter
from trca.envs.alfworld.adapter import ALFWorldAdapter
from trca.envs.alfworld.binding import bind
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.annotate import RubricAnnotation, load_judge
from trca.envs.registration import check_library, make
from trca.rubric import (
    Budgets,
    RubricError,
    RubricLibrary,
    breakthrough_reward,
    foundational_reward,
    trca_reward,
)

BUDGETS = Budgets(evidence=0.5, invalidity=2.5, execution=1.5)


def wandering(env, episodes, rng):
    """Infos of random episodes; half of the actions are nonsense or stale."""
    for number in range(episodes):
        _, info = env.reset(options={"task": env.unwrapped.task_ids[number]})
        infos, over = [info], False
        while not over:
            offered = [*info["admissible_actions"], *infos[0]["admissible_actions"], "", "dance"]
            good = env.unwrapped.demonstrator_action()
            action = rng.choice([good, rng.choice(offered)])
            _, _, terminated, truncated, info = env.step(action)
            infos.append(info)
            over = terminated or truncated
        yield infos


@pytest.fixture(scope="module")
def episodes():
    env = RubricAnnotation(ALFWorldEnv(), budgets=BUDGETS, lambda_=0.7)
    return list(wandering(env, 12, random.Random(0)))


@pytest.fixture(scope="module")
def one_env():
    return RubricAnnotation(ALFWorldEnv())


def test_rewards_in_info_equal_the_vectorised_functions(episodes):
    steps = [info["rubric"] for infos in episodes for info in infos[1:]]
    rollout = np.repeat(np.arange(len(episodes)), [len(infos) - 1 for infos in episodes])
    judgments = np.array([step["judgments"] for step in steps], dtype=np.uint8)
    categories = RubricLibrary.load("alfworld").categories
    r_f = foundational_reward(judgments, categories, BUDGETS)
    r_b = breakthrough_reward(judgments, rollout, categories, BUDGETS)
    np.testing.assert_allclose([s["foundational"] for s in steps], r_f, atol=1e-12)
    np.testing.assert_allclose([s["breakthrough"] for s in steps], r_b, atol=1e-12)
    np.testing.assert_allclose([s["reward"] for s in steps], trca_reward(r_f, r_b, 0.7), atol=1e-12)
    assert r_f.min() < 0 < r_b.max()


def test_judgments_are_those_of_the_transition_under_the_binding_of_its_task(episodes):
    """By another judge, from the facts of the step, and the binding that the instruction has."""
    judge, changes, bindings = load_judge("alfworld", ALFWorldAdapter), 0, set()
    for infos in episodes:
        binding = bind(infos[0]["task"])
        bindings.add(binding)
        for before, info in zip([None, *infos[1:]], infos[1:], strict=False):
            expected = judge.judge(binding, info["facts"])
            np.testing.assert_array_equal(info["rubric"]["judgments"], expected)
            if before is not None:
                changes += any(expected != before["rubric"]["judgments"])
    assert changes > 20
    assert len(bindings) > 2


def test_no_operator_has_fired_after_a_reset(episodes):
    for infos in episodes:
        assert "next_context" not in infos[0]
        assert infos[0]["rubric"]["fired"] == ()
        assert not infos[0]["rubric"]["judgments"].any()


def test_a_rejected_command_leaves_the_context_and_the_memory(episodes):
    for infos in episodes:
        for before, after in pairwise(infos):
            if not after["accepted"]:
                assert after["next_context"] == after["context"]
                assert after["memory"] == before["memory"]


def test_the_annotation_does_not_change_the_environment():
    plain, annotated = ALFWorldEnv(), RubricAnnotation(ALFWorldEnv())
    first = plain.reset(seed=3)
    again = annotated.reset(seed=3)
    assert again[0] == first[0]
    assert again[1] | first[1] == again[1]
    for action in ("look", "", first[1]["admissible_actions"][0]):
        stepped, judged = plain.step(action), annotated.step(action)
        assert judged[:4] == stepped[:4]
        assert judged[4] | stepped[4] == judged[4]


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_any_action_is_judged(one_env, action):
    one_env.reset(seed=0)
    for text in (action, f"go to {action}", f"take {action} from desk 1"):
        *_, info = one_env.step(text)
        assert set(info["rubric"]["judgments"]) <= {0, 1}
    assert not one_env.judge.errors


def test_a_megabyte_of_command_is_judged():
    env = RubricAnnotation(ALFWorldEnv())
    env.reset(seed=0)
    for action in ("x" * 1_000_000, "go to " * 200_000):
        assert env.step(action)[4]["rubric"]["fired"] == ("malformed",)
    assert env.step("\0" * 1_000_000)[4]["rubric"]["fired"] == ("unparsed",)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="lambda is 2"):
        RubricAnnotation(ALFWorldEnv(), lambda_=2)
    with pytest.raises(ValueError, match="execution budget"):
        RubricAnnotation(ALFWorldEnv(), budgets={"execution": -1})
    with pytest.raises(RubricError, match="did you mean 'alfworld'"):
        RubricAnnotation(ALFWorldEnv(), library="alfword")


def test_a_library_is_checked_against_its_environment(tmp_path):
    text = (RubricLibrary.load("alfworld").operators[0]).condition
    assert text == "task.target in facts.new_objects"
    path = tmp_path / "mine.yaml"
    source = RubricLibrary.load("alfworld").model_dump_json()
    path.write_text(source.replace("new_objects", "fresh_objects"))
    with pytest.raises(RubricError, match=r"mine\.yaml: operator 'target_seen'.*new_objects"):
        load_judge(path, ALFWorldAdapter)
    with pytest.raises(RubricError, match=r"mine\.yaml: operator 'target_seen'.*new_objects"):
        check_library(path)
    with pytest.raises(RubricError, match=r"operator 'product_listed'.*new_match"):
        check_library("webshop", "alfworld")
    path.write_text(source.replace('"alfworld"', '"chess"'))
    with pytest.raises(RubricError, match=r"mine\.yaml: unknown environment 'chess'.*alfworld"):
        check_library(path)


def test_the_names_of_the_facts_are_listed_once_for_all_wrong_operators(tmp_path):
    source = RubricLibrary.load(Rooms.library).model_dump_json()
    path = tmp_path / "mine.yaml"
    path.write_text(source.replace("moved", "walked").replace("taken", "zzz"))
    with pytest.raises(RubricError) as caught:
        load_judge(path, RoomsAdapter)
    lines = str(caught.value).splitlines()
    assert len(lines) > 2
    assert [number for number, line in enumerate(lines) if "Known: facts." in line] == [0]
    assert not any(line.endswith(":") for line in lines)


@pytest.mark.parametrize("team", [None, "alfworld_planner"])
def test_budgets_change_with_the_next_episode(team):
    def rewards(change):
        env = make("alfworld", team=team)
        episodes = []
        for _ in range(2):
            draw, found = random.Random(0), []
            _, info = env.reset(options={"task": env.get_wrapper_attr("task_ids")[0]})
            for number in range(8):
                if number == 2 and change:
                    env.get_wrapper_attr("reward_by")({"evidence": 9.0}, 0.5)
                *_, info = env.step(draw.choice(info["admissible_actions"]))
                ended = [each.rubric for each in info["closed"]] if team else [info["rubric"]]
                found += [rubric and rubric["reward"] for rubric in ended]
            episodes.append(found)
        return episodes

    (first, second), (same, other) = rewards(change=False), rewards(change=True)
    assert first == second == same != other


def test_prerequisites_hold_for_an_episode(tmp_path):
    """The library of ALFWorld, where a target counts as taken only after an error."""
    data = yaml.safe_load(Path("trca/rubric/libraries/alfworld.yaml").read_text())
    taken = next(each for each in data["operators"] if each["id"] == "target_taken")
    taken["requires"] = ["malformed"]
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(data))
    env = make("alfworld", games="small", library=path)
    for mistake in (True, False):
        env.reset(seed=0)
        fired = set(env.step("sing" if mistake else "look")[-1]["rubric"]["fired"])
        ended = False
        while not ended:
            *_, ended, _, info = env.step(env.unwrapped.oracle_action())
            fired |= {*info["rubric"]["fired"]}
        assert ("target_taken" in fired) == ("malformed" in fired) == mistake
        assert info["won"]
