"""Credit of another trainer's batch equals our credit of the same rollouts."""

import json
import subprocess
import sys

import numpy as np
import pytest

from foreign import LIBRARY, masks, play, trajectories
from trca.algorithms.rules.beacon import BEACONParameters, beacon
from trca.algorithms.rules.gigpo import GiGPOParameters, gigpo
from trca.algorithms.rules.trca import TRCAParameters, trca
from trca.records import StepBatch
from trca.rubric import RubricLibrary
from trca_interop.credit import Credit
from trca_interop.dumps import write_dump

OURS = {
    "trca": (trca, TRCAParameters),
    "gigpo": (gigpo, GiGPOParameters),
    "beacon": (beacon, BEACONParameters),
}
CASES = [
    ("trca", {}),
    ("trca", {"lambda_": 0.3, "gamma": 0.9, "budget_schedule": "group_success"}),
    ("trca", {"step_group": "stage", "gamma": 0.6}),
    ("gigpo", {}),
    ("gigpo", {"anchor": "observation", "baseline_over": "step_row", "normalizer": "one"}),
    ("gigpo", {"anchor": "similar"}),
    ("beacon", {}),
    ("beacon", {"milestones": "environment", "normalizer": "std"}),
]


@pytest.fixture(scope="module")
def played():
    return play()


def ours(rule, settings, rollouts):
    function, model = OURS[rule]
    batch = StepBatch.from_rollouts(rollouts, RubricLibrary.load(LIBRARY).categories)
    return function(batch, model(**settings))


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(("rule", "settings"), CASES)
def test_rows_of_steps_in_any_order_and_with_copies(rule, settings, played):
    rollouts, rows = played
    wanted = ours(rule, settings, rollouts)
    assert len(np.unique(wanted)) > 10
    rng = np.random.default_rng(1)
    order = rng.permutation([*range(len(rows)), *rng.integers(len(rows), size=9)])
    mask = masks(len(order), rng)
    credit = Credit.bind(rule, LIBRARY, **settings)
    got = credit(*columns([rows[k] for k in order]), mask)
    np.testing.assert_allclose(got, wanted[order, None] * mask, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("rule", "settings"), CASES)
def test_rows_of_whole_trajectories(rule, settings, played):
    rollouts, rows = played
    groups, ids, annotations, mask, step = trajectories(rows, np.random.default_rng(2))
    got = Credit.bind(rule, LIBRARY, **settings)(groups, ids, annotations, mask)
    wanted = np.where(mask, ours(rule, settings, rollouts)[step], 0.0)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


def test_a_rule_without_judgments_needs_no_library(played):
    rollouts, rows = played
    got = Credit.bind("gigpo")(*columns(rows), np.ones((len(rows), 1)))
    np.testing.assert_allclose(got[:, 0], ours("gigpo", {}, rollouts), rtol=0, atol=1e-12)


def test_padding_rows_have_no_advantage(played):
    _, rows = played
    padded = [*rows, ("pad0", "pad0", None)]
    credit = Credit.bind("trca", LIBRARY)
    got = credit(*columns(padded), np.ones((len(padded), 2)))
    assert (got[-1] == 0).all()
    assert (got[:-1] == credit(*columns(rows), np.ones((len(rows), 2)))).all()
    assert not Credit.bind("trca", LIBRARY)(["pad"], ["pad"], [None], np.ones((1, 2))).any()


def test_stages_need_no_context(played):
    rollouts, rows = played
    rows = [(g, r, {k: v for k, v in a.items() if "context" not in k}) for g, r, a in rows]
    got = Credit.bind("trca", LIBRARY, step_group="stage")(*columns(rows), np.ones((len(rows), 1)))
    wanted = ours("trca", {"step_group": "stage"}, rollouts)
    np.testing.assert_allclose(got[:, 0], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "settings", "key"),
    [
        ("trca", {}, "judgments"),
        ("trca", {}, "context"),
        ("trca", {}, "reward"),
        ("trca", {"budget_schedule": "group_success"}, "won"),
        ("gigpo", {}, "context"),
        ("gigpo", {"anchor": "observation"}, "observation"),
        ("beacon", {}, "judgments"),
        ("beacon", {"milestones": "environment"}, "milestone"),
        ("beacon", {}, "step"),
    ],
)
def test_a_missing_key_is_named_with_its_row(rule, settings, key, played):
    rows = list(played[1][:3])
    group, rollout, annotation = rows[1]
    rows[1] = group, rollout, {k: v for k, v in annotation.items() if k != key}
    with pytest.raises(ValueError, match=f"row 1: the annotation lacks {key}: write"):
        Credit.bind(rule, LIBRARY, **settings)(*columns(rows), np.ones((3, 1)))


def test_a_rollout_with_a_gap_is_named(played):
    rows = [row for row in played[1] if row[1] == "rollout 0.0"]
    assert len(rows) > 2
    del rows[1]
    with pytest.raises(ValueError, match=r"'rollout 0.0' of group 'task 0' has the steps 0, 2"):
        Credit.bind("gigpo")(*columns(rows), np.ones((len(rows), 1)))


def test_a_row_that_is_cut_off_has_the_credit_of_its_first_steps(played):
    groups, ids, annotations, mask, _ = trajectories(played[1], np.random.default_rng(3))
    credit = Credit.bind("trca", LIBRARY)
    whole = credit(groups, ids, annotations, mask)
    end = int(np.flatnonzero(mask[0])[-2])  # in the last run, or before it
    cut = mask.copy()
    cut[0, end:] = False
    np.testing.assert_array_equal(credit(groups, ids, annotations, cut), np.where(cut, whole, 0))
    cut[0] = False
    np.testing.assert_array_equal(credit(groups, ids, annotations, cut), np.where(cut, whole, 0))


def test_judgments_that_a_rule_does_not_read_may_be_missing(played):
    rows = played[1]
    mask = np.ones((len(rows), 1))
    group, rollout, annotation = rows[0]
    without = {k: v for k, v in annotation.items() if k != "judgments"}
    credit = Credit.bind("gigpo", LIBRARY)
    np.testing.assert_array_equal(
        credit(*columns([(group, rollout, without), *rows[1:]]), mask), credit(*columns(rows), mask)
    )


def test_two_rollouts_with_one_id_are_refused(played):
    group, rollout, annotation = played[1][0]
    rows = [(group, rollout, annotation), (group, rollout, annotation | {"reward": 7.0})]
    with pytest.raises(ValueError, match=r"two different annotations of step 0: give each rollout"):
        Credit.bind("gigpo")(*columns(rows), np.ones((2, 1)))


def test_annotations_may_hold_numpy_values(played, tmp_path):
    _, rows = played
    mask = np.ones((len(rows), 1))
    of_numpy = [
        (g, r, {k: v if isinstance(v, str) else np.array(v)[()] for k, v in a.items()})
        for g, r, a in rows
    ]
    assert isinstance(of_numpy[0][2]["won"], np.bool_)
    for rule in OURS:
        credit = Credit.bind(rule, LIBRARY)
        np.testing.assert_array_equal(
            credit(*columns(of_numpy), mask), credit(*columns(rows), mask)
        )
    write_dump(tmp_path / "1.jsonl", *columns(of_numpy))
    read = [json.loads(line)["trca"] for line in (tmp_path / "1.jsonl").read_text().splitlines()]
    assert read == [annotation for _, _, annotation in rows]


@pytest.mark.parametrize("wrong", ["text", 3, [["step", 0]]])
def test_a_row_with_something_else_is_named(wrong, played):
    group, rollout, annotation = played[1][0]
    rows = [(group, rollout, annotation), (group, rollout, wrong)]
    with pytest.raises(ValueError, match=r"row 1 has .* as annotation"):
        Credit.bind("gigpo")(*columns(rows), np.ones((2, 1)))


def test_other_numbers_of_judgments_runs_and_rows_are_refused(played):
    rows = played[1]
    few = [(g, r, a | {"judgments": a["judgments"][:8]}) for g, r, a in rows]
    with pytest.raises(ValueError, match=r"row 0: 8 judgments, and the library has 15"):
        Credit.bind("trca", LIBRARY)(*columns(few), np.ones((len(rows), 1)))
    groups, ids, annotations, mask, _ = trajectories(rows, np.random.default_rng(2))
    annotations[0] = annotations[0][:-1]
    with pytest.raises(ValueError, match=r"row 0 has \d annotated steps and \d runs"):
        Credit.bind("gigpo")(groups, ids, annotations, mask)
    annotations[0] = annotations[0][::-1]
    with pytest.raises(
        ValueError, match="annotations of row 0 are not in order: sort them by step"
    ):
        Credit.bind("gigpo")(groups, ids, annotations, mask)
    with pytest.raises(ValueError, match="1 groups, 2 rollouts, 1 annotations and 1 rows"):
        Credit.bind("gigpo")(["a"], ["b", "c"], [None], np.ones((1, 1)))


def test_unknown_rules_and_settings_are_refused():
    with pytest.raises(ValueError, match="unknown credit rule 'grpo'"):
        Credit.bind("grpo")
    with pytest.raises(ValueError, match=r"^unknown key 'lamda': did you mean 'lambda_'"):
        Credit.bind("trca", LIBRARY, lamda=0.5)
    with pytest.raises(ValueError, match=r"^lambda_ is 5: .* less than or equal to 1"):
        Credit.bind("trca", LIBRARY, lambda_=5)
    with pytest.raises(ValueError, match="'trca' reads judgments: name their library"):
        Credit.bind("trca")


def test_neither_ray_nor_pytorch_is_imported():
    program = (
        "import sys, trca_interop.verl, trca_interop.skyrl\n"
        "from trca_interop.credit import Credit\n"
        "for rule in ('trca', 'gigpo', 'beacon'): Credit.bind(rule, 'alfworld')\n"
        "sys.exit(' '.join({'ray', 'torch', 'verl', 'skyrl'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
