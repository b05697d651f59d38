"""A model's labels: prompts, labels in replies, and Cohen's kappa of hand-computed cases."""

from math import isnan
from threading import Barrier

import numpy as np
import pytest

from tests.analysis.test_diagnosis import CATEGORIES, LOST, WON, rollout, step
from tests.records.test_records import make_rollout, make_step
from trca.analysis.llm_labels import (
    UNLABELLED,
    agreement,
    cohens_kappa,
    draw_transitions,
    label_transitions,
    operator_labels,
    read_label,
    transition_prompt,
)

EXECUTION, EVIDENCE, VALIDITY, OTHER = range(4)


def test_kappa_is_that_of_cohens_formula():
    # 50 items, 35 alike: p_o = .7, p_e = .5 * .6 + .5 * .4 = .5
    assert cohens_kappa(np.array([[20, 5], [10, 15]])) == pytest.approx(0.4)
    assert cohens_kappa(np.array([[3, 0], [0, 4]])) == 1.0
    assert cohens_kappa(np.array([[1, 1], [1, 1]])) == 0.0
    assert cohens_kappa(np.array([[0, 2], [2, 0]])) == -1.0
    assert isnan(cohens_kappa(np.array([[5, 0], [0, 0]])))
    assert isnan(cohens_kappa(np.zeros((2, 2), np.int64)))


def test_agreement_counts_transitions_with_both_labels():
    operators = np.array([EXECUTION, EVIDENCE, VALIDITY, OTHER, OTHER, EVIDENCE])
    model = np.array([EXECUTION, EVIDENCE, OTHER, OTHER, UNLABELLED, VALIDITY])
    result = agreement(operators, model)
    assert (result.labelled, result.unlabelled) == (5, 1)
    assert result.agreement == pytest.approx(3 / 5)
    # p_e = (1*1 + 2*1 + 1*1 + 1*2) / 25
    assert result.kappa == pytest.approx((0.6 - 6 / 25) / (1 - 6 / 25))
    # Evidence against the rest: both 1, only operators 1, only model 0, neither 3
    assert result.kappas["Evidence"] == pytest.approx((4 / 5 - 14 / 25) / (1 - 14 / 25))
    assert result.useful == {"operators": pytest.approx(4 / 5), "model": pytest.approx(3 / 5)}
    assert result.confusion["Evidence"] == {
        "Execution": 0,
        "Evidence": 1,
        "Validity": 1,
        "Other": 0,
    }
    nothing = agreement(operators[:1], np.array([UNLABELLED]))
    assert (nothing.labelled, nothing.unlabelled) == (0, 1)
    assert isnan(nothing.agreement)


def test_transitions_are_of_failed_rollouts_and_drawn_once():
    drawn = draw_transitions([WON, LOST, WON], 100)
    assert drawn == [(LOST, number) for number in range(8)]
    few = draw_transitions([WON, LOST], 3, seed=4)
    assert few == draw_transitions([WON, LOST], 3, seed=4) != draw_transitions([LOST], 3, seed=5)
    assert len({number for _, number in few}) == 3


def test_operators_label_each_drawn_transition():
    other = rollout(step("100"), step())
    drawn = [(other, 1), (LOST, 5), (LOST, 0), (other, 0), (LOST, 2)]
    assert operator_labels(drawn, CATEGORIES).tolist() == [
        VALIDITY, OTHER, EXECUTION, EVIDENCE, EVIDENCE,
    ]  # fmt: skip


def test_the_prompt_shows_only_observations_of_the_agent():
    steps = [make_step(action=f"go to {n}", observation=f"place {n}") for n in range(15)]
    steps.append(make_step(observation="the end", parsed=False, action="", response="<think>hm"))
    result = make_rollout(steps, instruction="heat some egg.", last_observation="nothing happens")
    prompt = transition_prompt(result, 14)
    assert "TASK\nheat some egg.\n" in prompt
    assert "EARLIER ACTIONS\n- (2 more)\n- go to 2\n" in prompt
    assert "- go to 13\n\nOBSERVATION BEFORE\nplace 14\n\nACTION\ngo to 14\n" in prompt
    assert "OBSERVATION AFTER\nthe end\n" in prompt
    assert "EARLIER ACTIONS\n(none)\n" in transition_prompt(result, 0)
    last = transition_prompt(result, 15)
    assert "ACTION\n(no action could be read) <think>hm\n" in last
    assert "OBSERVATION AFTER\nnothing happens\n" in last
    long = make_rollout([make_step(observation="x" * 9000)], last_observation="y" * 9000)
    assert len(transition_prompt(long, 0)) < 5000


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ('{"label": "Evidence"}', EVIDENCE),
        ('```json\n{"label": "Other"}\n```', OTHER),
        (" Validity\n", VALIDITY),
        ('<|im_start|>assistant{"label": "Evidence"}<|end|>', EVIDENCE),
        ('It is not {"label": "Other"}. {"label": "Evidence"}', UNLABELLED),
        ('{"label": {}}', UNLABELLED),
        ('{"label": null} {}', UNLABELLED),
        ('"Execution"', EXECUTION),
        ("evidence", UNLABELLED),
        ('{"label": "Evidence and Execution"}', UNLABELLED),
        ('{"label": ["Evidence"]}', UNLABELLED),
        ('{"labels": "Evidence"}', UNLABELLED),
        ("[[" * 50_000, UNLABELLED),
        (f'{{"label": {"[" * 50_000}{"]" * 50_000}}}', UNLABELLED),
        ('{"label": "Execution", "why": "opened {drawer 1}"}', EXECUTION),
        ('{"label": "Evidence", "meta": {}}', EVIDENCE),
        ('{"reason": "x"} {"label": "Execution"}', EXECUTION),
        ('{"result": {"label": "Execution"}}', EXECUTION),
        ('{"a": [' * 100_000, UNLABELLED),
        ("7", UNLABELLED),
        ("", UNLABELLED),
    ],
)
def test_a_reply_is_a_label_or_nothing(reply, label):
    assert read_label(reply) == label


def test_labelled_prompts_are_not_sent_again(tmp_path):
    kept, asked = tmp_path / "judge.jsonl", list[str]()

    def ask(prompt):
        asked.append(prompt)
        if prompt == "c":
            raise ConnectionError("gone")
        return "who knows" if prompt == "b" else '{"label": "Evidence"}'

    with pytest.raises(ConnectionError):
        label_transitions(["a", "b", "c"], ask, kept, "m")
    assert asked.count("a") == 1
    assert asked.count("b") == 1
    with kept.open("a") as file:
        file.write('{"key": "cut o')
    asked.clear()
    done = []
    labels = label_transitions(["a", "b", "d", "a"], ask, kept, "m", done.append)
    assert labels.tolist() == [EVIDENCE, UNLABELLED, EVIDENCE, EVIDENCE]
    assert sorted(asked) == ["b", "d"]  # the prompt with an unreadable reply is sent again
    assert done == [3, 4]
    asked.clear()
    assert label_transitions(["a", "d"], ask, kept, "m").tolist() == [EVIDENCE, EVIDENCE]
    assert not asked
    label_transitions(["a"], ask, kept, "another model")
    assert asked == ["a"]


def test_labels_are_kept_though_an_earlier_prompt_fails(tmp_path):
    kept, answered = tmp_path / "judge.jsonl", Barrier(3, timeout=600)

    def ask(prompt):
        answered.wait()  # all three are asked at the same time
        if prompt == "a":
            raise ConnectionError("gone")
        return '{"label": "Evidence"}'

    with pytest.raises(ConnectionError):
        label_transitions(["a", "b", "c"], ask, kept, "m")
    assert len(kept.read_text().splitlines()) == 2
