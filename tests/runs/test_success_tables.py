import io

import pytest
from rich.console import Console
from scipy.stats import binomtest

from trca.runs.success_tables import (
    Outcome,
    as_markdown,
    as_rich,
    by_task_type,
    wilson,
)

OUTCOMES = [
    *(Outcome(f"heat-{i}", "Heat", 0, won=i < 3, steps=10) for i in range(4)),
    *(Outcome(f"pick-{i}", "Pick", 0, won=i < 1, steps=4) for i in range(2)),
    Outcome("pick-2", "Pick", 0, won=None, failure="runner 1 died"),
]


def test_success_is_counted_by_task_type_and_over_all():
    heat, pick, whole = by_task_type(OUTCOMES)
    assert (heat.task_type, heat.n, heat.won, heat.mean) == ("Heat", 4, 3, 0.75)
    assert (pick.n, pick.mean, pick.missing) == (2, 0.5, 1)
    assert (whole.task_type, whole.n, whole.won, whole.steps) == ("All", 6, 4, 8.0)
    assert "| Heat | 4 | 75.0% | 30.1% - 95.4% | 10.0 | 0 |" in as_markdown([heat])
    (row, _) = by_task_type([OUTCOMES[-1]])  # missing episodes are never zero
    assert row.n == 0
    assert row.mean is None
    assert "| Pick | 0 | - | - | - | 1 |" in as_markdown([row])


def test_intervals_are_wilsons():
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    for won in range(8):
        exact = binomtest(won, 7).proportion_ci(0.95, method="wilson")
        assert wilson(won, 7) == pytest.approx((exact.low, exact.high))
    assert wilson(2, 3) < wilson(2.5, 3) < wilson(3, 3)


def test_further_metrics_have_columns_and_fit_a_terminal():
    outcomes = [
        Outcome("a", "two-hop", 0, won=True, steps=3, measures={"f1": 1.0, "gold_recall": 0.5}),
        Outcome("b", "two-hop", 0, won=False, steps=4, measures={"f1": 0.5}),
        Outcome("c", "who", 0, won=None, failure="the server died"),
    ]
    rows = by_task_type(outcomes)
    markdown = as_markdown(rows)
    assert "| n | success | 95% interval | f1 | gold_recall | steps | missing |" in markdown
    assert "| 0.750 | 0.500 | 3.5 | 0 |" in markdown
    assert "| who | 0 | - | - | - | - | - | 1 |" in markdown
    out = io.StringIO()
    Console(file=out, width=80).print(as_rich(rows, "title"))
    assert "two-hop" in out.getvalue()
    assert "9.5% - 90.5%" in out.getvalue()
    assert "…" not in out.getvalue()


def played(task, wins):
    return [Outcome(task, "Heat", seed, won) for seed, won in enumerate(wins)]


def test_a_metric_with_the_name_of_a_column_leaves_the_column():
    names = ("n", "success", "95% interval", "parsed_ratio", "steps", "missing")
    measures = dict.fromkeys(names, 0.125)
    rows = by_task_type([Outcome("a", "Heat", 0, won=True, steps=3, measures=measures, parsed=3)])
    assert rows[-1].measures == {f"measures/{name}": 0.125 for name in names}
    head, _, *lines = as_markdown(rows).splitlines()
    cells = [cell.strip() for cell in lines[-1].strip("|").split("|")]
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    shown = dict(zip(columns, cells, strict=True))
    assert (shown["n"], shown["success"], shown["steps"]) == ("1", "100.0%", "3.0")
    assert (shown["missing"], shown["parsed_ratio"]) == ("0", "100.0%")
    assert shown["measures/steps"] == "0.125"


def test_tasks_played_more_than_once_are_the_unit_of_the_interval():
    """Ten tasks, always or never solved: four episodes per task add no information to one."""
    once = [each for k in range(10) for each in played(f"t{k}", [k < 5])]
    often = [each for k in range(10) for each in played(f"t{k}", [k < 5] * 4)]
    (row, _), (single, _) = by_task_type(often), by_task_type(once)
    assert (row.n, row.mean, single.mean) == (40, 0.5, 0.5)
    assert (row.low, row.high) == pytest.approx((0.2, 0.8), abs=0.01)
    assert (single.low, single.high) == wilson(5, 10)


def test_missing_episodes_leave_mean_and_interval_over_tasks_centred():
    often = [each for k in range(50) for each in played(f"a{k}", [True] * 3)]
    lost = [each for k in range(50) for each in played(f"b{k}", [False, None, None])]
    row = by_task_type(often + lost)[-1]
    assert (row.won, row.n, row.mean) == (150, 200, 0.5)
    assert (row.low, row.high) == pytest.approx((0.4, 0.6), abs=0.01)

    row = by_task_type(played("a", [True, False]))[-1]
    assert (row.low + row.high) / 2 == pytest.approx(0.5)


def test_pass_at_k_is_the_share_of_tasks_that_some_episode_solved():
    outcomes = [
        *played("a", [True, False, False]),
        *played("b", [False, False, False]),
        *played("c", [True, True, None]),
        *played("d", [False, True, True]),
    ]
    row = by_task_type(outcomes)[-1]
    assert row.measures == {"pass@3": pytest.approx(2 / 3)}
    assert (row.n, row.won, row.missing) == (11, 5, 1)
    assert "pass@3" in as_markdown([row])
    assert by_task_type(played("a", [True]))[-1].measures == {}
