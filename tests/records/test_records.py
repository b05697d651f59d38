"""Rollout records: columns for credit rules, and JSON lines without loss."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trca.algorithms.rules.trca import TRCAParameters, trca
from trca.envs.alfworld.adapter import ALFWorldFacts
from trca.records import (
    Rollout,
    Step,
    StepBatch,
    advantages_of,
    assign_advantages,
    changed_facts,
    from_json,
    read_rollouts,
    to_json,
    write_rollouts,
)
from trca.rubric import Budgets

CATEGORIES = np.array([0, 1, 2], dtype=np.int8)


def make_step(**changes):
    fields = {
        "prompt_ids": np.array([1, 2, 3], dtype=np.int32),
        "response_ids": np.array([4, 5], dtype=np.int32),
        "action_mask": np.array([False, True]),
        "old_logprobs": np.array([-0.1, -1 / 3], dtype=np.float32),
        "observation": "You are in a room.",
        "response": "<think>ok</think><action>look</action>",
        "action": "look",
        "context": "room",
        "next_context": "room",
        "reward": 0.0,
        "judgments": np.array([0, 0, 1], dtype=np.uint8),
        "parsed": True,
        "accepted": True,
        "foundational": 0.2,
        "breakthrough": 0.1,
        "facts": {"verb": "look", "new_places": ["desk"]},
    }
    return Step(**(fields | changes))


def make_rollout(steps=(), **changes):
    fields = {
        "task_id": "heat-egg-3",
        "split": "train",
        "task_type": "Heat",
        "group": 2,
        "index": 1,
        "policy_version": 7,
        "instruction": "heat some egg.",
        "operators": ("seen", "malformed", "heated"),
    }
    return Rollout(**(fields | changes), steps=list(steps))


def assert_same(a, b):
    for name in Rollout.__slots__:
        if name not in ("steps", "advantages"):
            assert getattr(a, name) == getattr(b, name)
            assert type(getattr(a, name)) is type(getattr(b, name))
    assert len(a.steps) == len(b.steps)
    for one, other in zip(a.steps, b.steps, strict=True):
        for name in Step.__slots__:
            first, second = getattr(one, name), getattr(other, name)
            if isinstance(first, np.ndarray):
                assert first.dtype == second.dtype
                if name == "judgments":
                    assert not first.flags.writeable
                np.testing.assert_array_equal(first, second)
            else:
                assert first == second
    if a.advantages is None:
        assert b.advantages is None
    else:
        np.testing.assert_array_equal(a.advantages, b.advantages)


any_text = st.text(st.characters())
logprobs = st.floats(-1e4, 0, width=32)


@st.composite
def steps(draw):
    size = draw(st.integers(0, 5))
    return make_step(
        response_ids=draw(arrays(np.int32, size)),
        action_mask=draw(arrays(np.bool_, size)),
        old_logprobs=draw(arrays(np.float32, size, elements=logprobs)),
        observation=draw(any_text),
        response=draw(any_text),
        action=draw(any_text),
        reward=draw(st.floats(allow_nan=False)),
        judgments=draw(arrays(np.uint8, 3, elements=st.integers(0, 1))),
        parsed=draw(st.booleans()),
        milestone=draw(st.sampled_from([None, True, False])),
    )


@given(st.lists(steps(), max_size=3), st.booleans(), st.booleans())
def test_a_rollout_is_one_line_without_loss(some, won, credited):
    rollout = make_rollout(some, won=won, score=0.1, truncated=not won)
    if credited and some:
        rollout.advantages = np.linspace(-1 / 3, 2 / 3, len(some))
    line = to_json(rollout)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert_same(from_json(line), rollout)


def test_the_line_is_plain_to_other_readers():
    rollout = make_rollout([make_step()], advantages=np.array([0.25]))
    record = json.loads(to_json(rollout))
    assert record["task_id"] == "heat-egg-3"
    assert record["policy_version"] == 7
    assert record["agent_id"] == "default_agent"
    assert record["operators"] == ["seen", "malformed", "heated"]
    (step,) = record["steps"]
    assert step["action"] == "look"
    assert step["judgments"] == [0, 0, 1]
    assert (step["foundational"], step["breakthrough"]) == (0.2, 0.1)
    assert step["facts"] == {"verb": "look", "new_places": ["desk"]}
    assert step["advantage"] == 0.25
    assert step["old_logprobs"] == [-0.1, -0.33333334]


def test_a_recorded_run_can_be_credited_again(tmp_path):
    won = make_rollout([make_step(), make_step(reward=1.0)], won=True)
    lost = make_rollout([make_step(judgments=np.array([0, 1, 0], dtype=np.uint8))], index=2)
    path = tmp_path / "rollouts.parquet"
    write_rollouts(path, [won, lost])
    for lambda_ in (0.2, 0.8):
        live, recorded = (
            trca(StepBatch.from_rollouts(rollouts, CATEGORIES), TRCAParameters(lambda_=lambda_))
            for rollouts in ([won, lost], list(read_rollouts(path)))
        )
        np.testing.assert_array_equal(live, recorded)


def test_the_column_of_milestones_is_there_if_every_step_reports():
    reporting = make_rollout([make_step(milestone=False), make_step(milestone=True)])
    batch = StepBatch.from_rollouts([reporting], CATEGORIES)
    np.testing.assert_array_equal(batch.milestone, [False, True])
    silent = make_rollout([make_step()])
    assert StepBatch.from_rollouts([reporting, silent], CATEGORIES).milestone is None
    with pytest.raises(ValueError, match="column 'milestone' has shape"):
        replace(StepBatch.from_rollouts([silent], CATEGORIES), milestone=np.zeros(2, bool))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"task_id": "a", "spl', "Unterminated"),
        ("[]", "a rollout is a JSON object, not list"),
        ('{"task_id": "a"}', "lacks the field 'steps'"),
        ('{"steps": []}', "'operators'"),
        (to_json(make_rollout()).replace('"steps":[]', '"steps":3'), "wrong type"),
        (
            to_json(make_rollout([make_step()])).replace('"judgments"', '"judgements"'),
            "'judgments'",
        ),
    ],
)
def test_a_broken_line_is_named_by_file_and_number(tmp_path, line, message):
    path = tmp_path / "rollouts.jsonl"
    path.write_text(f"{to_json(make_rollout())}\n{line}\n")
    with pytest.raises(ValueError, match=rf"rollouts.jsonl, line 2: .*{message}"):
        list(read_rollouts(path))


def test_columns_of_rollouts():
    first = make_rollout(
        [
            make_step(context="a", next_context="b", observation="one"),
            make_step(context="b", next_context="a", observation="two", reward=1.0, parsed=False),
        ],
        won=True,
    )
    empty = make_rollout(index=2)
    cut = make_rollout([make_step(context="a", observation="one")] * 2, group=5, truncated=True)
    batch = StepBatch.from_rollouts([first, empty, cut], CATEGORIES)
    assert len(batch) == 4
    assert batch.group.tolist() == [2, 2, 5, 5]
    assert batch.rollout.tolist() == [0, 0, 2, 2]
    assert batch.reward.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert batch.context[0] == batch.context[2] == batch.next_context[1]
    assert batch.context[1] == batch.next_context[0] != batch.context[0]
    assert batch.observation[0] == batch.observation[2] != batch.observation[1]
    assert [batch.texts[code] for code in batch.observation] == ["one", "two", "one", "one"]
    end = first.last_observation
    assert [batch.texts[code] for code in batch.next_observation] == ["two", end, "one", end]
    assert batch.judgments.shape == (4, 3)
    assert batch.parsed.tolist() == [True, False, True, True]
    assert batch.terminated.tolist() == [False, True, False, False]
    assert batch.truncated.tolist() == [False, False, False, True]
    assert batch.won.tolist() == [False, True, False, False]


def test_agents_have_a_column():
    assert len(StepBatch.from_rollouts([], CATEGORIES)) == 0
    rollouts = [make_rollout([make_step()] * 2, agent_id=name) for name in ("a", "b", "a")]
    batch = StepBatch.from_rollouts(rollouts, CATEGORIES)
    assert batch.agent.tolist() == [0, 0, 1, 1, 0, 0]


def test_rubric_rewards_are_computed_once_for_the_same_budgets():
    batch = StepBatch.from_rollouts([make_rollout([make_step()] * 2)], CATEGORIES)
    rewards = batch.rubric_rewards(Budgets(execution=0.5))
    assert rewards.foundational.tolist() == [0.5, 0.5]
    assert rewards.breakthrough.tolist() == [0.5, 0.0]
    assert batch.rubric_rewards(Budgets(execution=0.5)) is rewards
    assert batch.rubric_rewards(Budgets()).foundational.tolist() == [1.0, 1.0]


def test_advantages_lie_on_the_rollouts_of_their_steps():
    rollouts = [make_rollout([make_step()] * 2), make_rollout(), make_rollout([make_step()])]
    with pytest.raises(ValueError, match="rollout 1 of group 2 has no advantages"):
        advantages_of(rollouts)
    assign_advantages(rollouts, np.array([0.5, -0.5, 2.0]))
    assert [r.advantages.tolist() for r in rollouts] == [[0.5, -0.5], [], [2.0]]
    assert advantages_of(rollouts).tolist() == [0.5, -0.5, 2.0]
    with pytest.raises(ValueError, match=r"shape \(2,\): give one for each of 3"):
        assign_advantages(rollouts, np.zeros(2))


def test_facts_that_differ_from_their_defaults_are_kept_as_plain_json():
    assert changed_facts(ALFWorldFacts()) == {}
    assert changed_facts(ALFWorldFacts(verb="open", new_places=("desk", "bed"), parsed=False)) == {
        "parsed": False,
        "verb": "open",
        "new_places": ["desk", "bed"],
    }
    assert changed_facts(None) == {}


def test_a_column_of_another_length_is_named():
    batch = StepBatch.from_rollouts([make_rollout([make_step()])], CATEGORIES)
    with pytest.raises(ValueError, match=r"column 'reward' has shape \(2,\): give \(1,\)"):
        replace(batch, reward=np.zeros(2))


def test_rows_of_a_rollout_must_be_contiguous():
    batch = StepBatch.from_rollouts([make_rollout([make_step()] * 3)], CATEGORIES)
    with pytest.raises(ValueError, match="not contiguous"):
        replace(batch, rollout=np.array([0, 1, 0]))
