"""The diagnostic study on handmade rollouts, and the warnings."""

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from trca.analysis.diagnosis import Diagnosis, alarms, diagnose, held_out_gap
from trca.records import Rollout, Step

OPERATORS = ("seen", "refused", "done")
CATEGORIES = np.array([0, 1, 2], np.int8)
NO_IDS = np.empty(0, np.int32)


def step(judgments="000", parsed=True, accepted=True):
    bits = np.array([int(bit) for bit in judgments], np.uint8)
    ids = NO_IDS, NO_IDS, NO_IDS.astype(bool), NO_IDS.astype(np.float32)
    return Step(*ids, "", "", "", "", "", 0.0, bits, parsed, accepted)


def rollout(*steps, won=False):
    return Rollout("t", "train", "Any", 0, 0, 0, operators=OPERATORS, steps=list(steps), won=won)


LOST = rollout(
    step("101"),  # Execution has priority over Evidence
    step("100"),
    step("110"),  # Evidence, though refused
    step(),
    step("010"),
    step(parsed=False, accepted=False),
    step(accepted=False),
    step(),
)
WON = rollout(step("001"), step("001"), won=True)


def test_ratios_have_the_denominators_of_the_paper():
    diagnosis = diagnose([LOST, WON, LOST, rollout()], ["a", "a", "b", "c"], CATEGORIES)
    assert (diagnosis.rollouts, diagnosis.groups, diagnosis.steps) == (3, 2, 18)
    assert diagnosis.failure_rate == pytest.approx(2 / 3)
    assert diagnosis.success_free_groups == 0.5
    assert diagnosis.classes == {
        "Execution": 1 / 8,
        "Evidence": 2 / 8,
        "Validity": 2 / 8,
        "Other": 3 / 8,
    }
    assert diagnosis.useful_transitions == 5 / 8
    assert diagnosis.parsed == pytest.approx(16 / 18)
    assert diagnosis.accepted == pytest.approx(14 / 18)
    assert diagnosis.fired == pytest.approx({"seen": 6 / 18, "refused": 4 / 18, "done": 4 / 18})


def test_without_a_failure_the_shares_of_failed_rollouts_are_nan():
    diagnosis = diagnose([WON], ["a"], CATEGORIES)
    assert (diagnosis.failure_rate, diagnosis.success_free_groups) == (0.0, 0.0)
    assert isnan(diagnosis.useful_transitions)


GOOD = Diagnosis(
    rollouts=64,
    groups=8,
    steps=640,
    failure_rate=0.5,
    success_free_groups=0.25,
    useful_transitions=0.7,
    classes={},
    parsed=1.0,
    accepted=0.9,
    fired={"seen": 0.3, "refused": 0.0, "done": 0.1},
)
WANTED = ("seen", "done")


def test_a_policy_in_order_raises_no_alarm():
    assert alarms(GOOD, GOOD, WANTED) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parsed": 0.8}, "20% of the responses have no action"),
        ({"accepted": 0.4}, "executes only 40%"),
        ({"success_free_groups": 1.0}, "no group has a success"),
        ({"failure_rate": 0.01}, "nearly every rollout succeeds"),
        ({"fired": {"seen": 0.95, "refused": 0.0, "done": 0.1}}, "nearly every step"),
    ],
)
def test_each_warning_names_the_problem(change, words):
    [alarm] = alarms(GOOD, replace(GOOD, **change), WANTED)
    assert words in alarm


def test_falling_success_gives_a_warning_after_ten_iterations():
    a_little = replace(GOOD, failure_rate=0.54)
    assert alarms(GOOD, a_little, WANTED, rows(3.0, 0.3, 0.9)) == []
    worse = replace(GOOD, failure_rate=0.6)
    [alarm] = alarms(GOOD, worse, WANTED, rows(3.0, 0.3, 0.9))
    assert alarm.startswith("success fell from 50% to 40%: check with trca inspect --prompts")
    assert alarms(GOOD, worse, WANTED, rows(3.0, 0.3, 0.9)[:9]) == []
    assert alarms(worse, GOOD, WANTED, rows(3.0, 0.3, 0.9)) == []


def evaluated(training, held_out=0.5):
    """Iterations with this success, and an evaluation of 64 episodes after the last of them."""
    ends = {"evaluation/success_low": held_out - 0.12, "evaluation/success_high": held_out + 0.12}
    last = {"evaluation/success_rate": held_out, **ends}
    return [{"success_rate": rate} for rate in training[:-1]] + [
        {"success_rate": training[-1], **last}
    ]


def test_training_success_far_above_held_out_success_is_named_with_a_remedy():
    run = evaluated([0.1, 0.2, 0.8, 0.75, 0.85, 0.8, 0.8])
    [alarm] = alarms(GOOD, GOOD, WANTED, run)
    assert "success is 80% in training" in alarm
    assert "50% on held-out tasks (38% to 62%)" in alarm
    assert "larger tasks_per_iteration" in alarm
    assert held_out_gap([*run, {"success_rate": 0.1}]) == [alarm]  # at the last evaluation


@pytest.mark.parametrize(
    "training",
    [
        [0.6, 0.55, 0.65, 0.6, 0.6],  # inside the interval of the evaluation
        [0.9, 0.3, 1.0, 0.4, 0.9],  # 20 points above, but iterations differ more
        [0.2, 0.2, 0.2, 0.2, 0.2],  # below
        [0.9, 0.9, 0.9, 0.9],  # fewer than five iterations
        [0.9, 0.9, None, 0.9, 0.9],  # an iteration without a rollout
    ],
)
def test_close_or_uncertain_training_and_held_out_success_give_no_warning(training):
    assert held_out_gap(evaluated(training)) == []
    assert held_out_gap([{"success_rate": 0.9}] * 5) == []


def test_an_operator_that_never_fired_is_named_unless_it_is_of_invalidity():
    never = replace(GOOD, fired={"seen": 0.3, "refused": 0.0, "done": 0.0})
    assert alarms(GOOD, never, WANTED) == []
    [alarm] = alarms(never, never, WANTED)
    assert alarm.startswith("never fired: done;")


def rows(gradient, kl, accepted):
    """Twenty iterations; the arguments are the metrics of the last two."""
    calm = {"grad_norm": 3.0, "kl": 0.3, "valid_action_ratio": 0.9}
    end = {"grad_norm": gradient, "kl": kl, "valid_action_ratio": accepted}
    return [calm] * 18 + [end] * 2


def test_a_collapse_is_seen_by_gradient_kl_and_acceptance_together():
    [alarm] = alarms(GOOD, GOOD, WANTED, rows(7.5, 2.1, 0.65))
    assert "gradient norm x2.5 and KL x7.0" in alarm
    assert "90% -> 65%" in alarm
    for calm in (rows(3.0, 2.1, 0.65), rows(7.5, 0.4, 0.65), rows(7.5, 2.1, 0.88)):
        assert alarms(GOOD, GOOD, WANTED, calm) == []
    assert alarms(GOOD, GOOD, WANTED, rows(7.5, 2.1, 0.65)[-5:]) == []


def test_a_run_without_a_kl_penalty_shows_no_collapse():
    for name in ("kl", "grad_norm"):
        still = [row | {name: 0.0} for row in rows(7.5, 2.1, 0.65)]
        assert alarms(GOOD, GOOD, WANTED, still) == []
