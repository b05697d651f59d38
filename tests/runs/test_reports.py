"""Reports: tables over several seeds."""

from types import SimpleNamespace

import pytest

from trca.envs.panel import Panel
from trca.records import Rollout
from trca.records.rollout import Failure
from trca.runs.reports import Report
from trca.runs.success_tables import as_markdown, by_task_type


def evaluation(*scores, times=1):
    """An evaluation with ``times`` episodes per task; score 1 is success."""
    rollouts = [
        SimpleNamespace(
            task_id=f"t{k}",
            task_type="mug",
            won=score == 1.0,
            score=score,
            steps=[],
            measures={},
            group=k,
            index=index,
            agent_id="default_agent",
        )
        for k, score in enumerate(scores)
        for index in range(times)
    ]
    return SimpleNamespace(rollouts=rollouts, failures=[])


@pytest.mark.parametrize(
    ("second", "scores"), [((0.5, 1.0), [0.0, 0.5, 1.0, 1.0]), ((0.0, 1.0), [])]
)
def test_scores_are_reported_for_all_seeds_or_for_no_seed(second, scores):
    panel = Panel("environment", "valid", ("t0", "t1"))
    report = Report.of(panel, {0: evaluation(0.0, 1.0), 1: evaluation(*second)})
    values = [each.measures["score"] for each in report.outcomes if "score" in each.measures]
    assert values == scores


def test_the_interval_of_a_run_counts_a_task_once_however_often_it_was_played():
    """Ten tasks, always or never solved: four rollouts per task add no information to one."""
    scores = [0.0] * 5 + [1.0] * 5
    panel = Panel("environment", "valid", tuple(f"t{k}" for k in range(10)))
    interval = Report.of(panel, {0: evaluation(*scores, times=4)}).interval()
    assert interval == pytest.approx({"success_low": 0.2, "success_high": 0.8}, abs=0.01)
    missing = SimpleNamespace(rollouts=[], failures=[Failure(0, "t0", 2, "stuck")])
    assert Report.of(panel, {0: missing}).interval() == {}


def test_the_steps_of_a_team_are_those_of_all_its_roles():
    rollouts = [
        Rollout(
            "t0",
            "valid",
            "mug",
            0,
            index,
            0,
            agent_id=role,
            steps=[SimpleNamespace(parsed=True)] * steps,
        )
        for index, lengths in enumerate(((4, 13), (1, 2)))
        for role, steps in zip(("planner", "executor"), lengths, strict=True)
    ]
    played = SimpleNamespace(rollouts=rollouts, failures=[])
    report = Report.of(Panel("environment", "valid", ("t0",)), {0: played})
    assert [outcome.steps for outcome in report.outcomes] == [17, 3]


def test_gold_that_training_read_stands_in_the_report(tmp_path):
    report = Report.of(Panel("environment", "valid", ("t0",)), {0: evaluation(1.0)})
    report.write(tmp_path / "evaluation", gold_in_training=("gold_answers", "gold_passages"))
    page = (tmp_path / "evaluation.md").read_text()
    assert "- gold_in_training: gold_answers, gold_passages\n" in page


def test_the_share_of_readable_responses_is_over_the_steps_of_all_roles():
    steps = [SimpleNamespace(parsed=number % 4 != 0) for number in range(8)]
    rollouts = [
        Rollout("t0", "valid", "mug", 0, 0, 0, agent_id="planner", steps=steps[:2]),
        Rollout("t0", "valid", "mug", 0, 0, 0, agent_id="executor", steps=steps[2:]),
    ]
    played = SimpleNamespace(rollouts=rollouts, failures=[])
    report = Report.of(Panel("environment", "valid", ("t0",)), {0: played})
    row = by_task_type(report.outcomes)[-1]
    assert row.parsed_ratio == 0.75
    assert "| All | 1 | 0.0% | 0.0% - 79.3% | 75.0% | 8.0 | 0 |" in as_markdown([row])
    assert by_task_type([])[-1].parsed_ratio is None
