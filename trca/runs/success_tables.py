"""Tables of success by task type, with counts, means and 95% intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import sqrt
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from trca.common.markdown import markdown_table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

ALL: Final = "All"
"""Name of the row over all task types."""
_COLUMNS: Final = ("n", "success", "95% interval", "parsed_ratio", "steps", "missing")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One episode of an evaluation.

    Attributes:
        won: Whether the episode succeeded; `None` for a missing episode.
        steps: Number of steps.
        measures: Further metrics by name, such as ``f1``.
        failure: The technical reason of a missing episode.
        parsed: Number of steps whose response contained an action; `None` if unknown.
    """

    task_id: str
    task_type: str
    seed: int
    won: bool | None
    steps: int = 0
    measures: Mapping[str, float | None] = field(default_factory=dict)
    failure: str = ""
    parsed: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Success of one task type, or of `ALL`.

    Attributes:
        n: Finished episodes.
        mean: Mean over tasks of the share of successful episodes; ``won / n`` if no episode is
            missing; `None` without episodes.
        low: Lower end of the 95% interval: Wilson's interval, or the bootstrap interval over tasks
            if tasks have several episodes, since the episodes of a task are not independent.
        steps: Mean number of steps of an episode; `None` without episodes.
        missing: Episodes that are missing for a technical reason. ``n`` and ``won`` exclude them.
        measures: Mean of each further metric, over the episodes with this metric. With k episodes
            per task also ``pass@k``, the share of tasks with a successful episode, over the tasks
            without a missing episode.
        parsed_ratio: Share of the steps whose response contained an action; `None` if unknown.
    """

    task_type: str
    n: int
    won: int
    mean: float | None
    low: float
    high: float
    steps: float | None
    missing: int
    measures: Mapping[str, float | None] = field(default_factory=dict)
    parsed_ratio: float | None = None


def named(measures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Returns metrics of an environment under names that are not columns of a table.

    A metric ``steps`` becomes ``measures/steps``.
    """
    return {f"measures/{n}" if n in _COLUMNS else n: value for n, value in measures.items()}


def by_task_type(outcomes: Sequence[Outcome]) -> list[Row]:
    """Returns one row per task type, in order of appearance, and a row over all episodes."""
    types = list(dict.fromkeys(outcome.task_type for outcome in outcomes))
    rows = [_row(name, [o for o in outcomes if o.task_type == name]) for name in types]
    return [*rows, _row(ALL, outcomes)]


def wilson(won: float, n: int) -> tuple[float, float]:
    """Returns the 95% Wilson score interval of ``won`` successes in ``n`` trials.

    The interval is (0, 1) for ``n = 0``. ``won`` may be a fraction: with several episodes per task
    it is a sum of success rates.
    """
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.975)
    middle = (won + z**2 / 2) / (n + z**2)
    half = z / (n + z**2) * sqrt(won * (n - won) / n + z**2 / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def rank_correlation(first: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Returns Spearman's rank correlation; NaN for less than two values, and for equal values."""
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(other) == 0:
        return float("nan")
    from scipy.stats import spearmanr

    return float(spearmanr(first, other).statistic)


def half_width(values: Sequence[float]) -> float:
    """Returns half of the 95% t interval of a mean over runs; NaN for a single run."""
    import numpy as np
    from scipy.stats import t

    n = len(values)
    return float(t.ppf(0.975, n - 1) * np.std(values, ddof=1) / n**0.5) if n > 1 else float("nan")


def over_tasks(values: Sequence[float]) -> tuple[float, float]:
    """Returns the 95% bootstrap interval of a mean over tasks or panels.

    Percentile method, 10,000 resamples. NaN if all values are equal: a bootstrap then has no
    information about the spread.
    """
    import numpy as np
    from scipy.stats import bootstrap

    if len(set(values)) < 2:
        return (float("nan"),) * 2
    interval = bootstrap(
        (values,),
        np.mean,
        n_resamples=10_000,
        batch=100,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def as_markdown(rows: Sequence[Row]) -> str:
    """Returns the rows as a Markdown table."""
    names = _columns(rows)
    return markdown_table(("task type", *names), [_cells(row, names) for row in rows])


def terminal_table(*headings: str) -> Table:
    """Returns a table for the terminal without a frame: names first, then columns of numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=not number)
    return table


def as_rich(rows: Sequence[Row], title: str) -> Group:
    """Returns a title and the rows as a table for the terminal."""
    from rich.console import Group
    from rich.text import Text

    table = terminal_table()
    table.add_column("task type", no_wrap=True)
    names = _columns(rows)
    for name in names:
        table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    for row in rows:
        if row.task_type == ALL and len(rows) > 1:
            table.add_section()
        table.add_row(*_cells(row, names), style="bold" if row.task_type == ALL else "")
    return Group(Text(title, style="bold"), table)


def _row(name: str, outcomes: Sequence[Outcome]) -> Row:
    played = [outcome for outcome in outcomes if outcome.won is not None]
    n, won = len(played), sum(outcome.won is True for outcome in played)
    tasks: dict[str, list[bool | None]] = {}
    for outcome in outcomes:
        tasks.setdefault(outcome.task_id, []).append(outcome.won)
    times = max(map(len, tasks.values()), default=0)
    measured = [named(outcome.measures) for outcome in played]
    values: dict[str, list[float]] = {}
    for metric, value in chain.from_iterable(each.items() for each in measured):
        if value is not None:
            values.setdefault(metric, []).append(value)
    measures = {each: fmean(numbers) for each, numbers in values.items()}
    steps = sum(outcome.steps for outcome in played)
    parsed = [outcome.parsed for outcome in played if outcome.parsed is not None]
    finished = [[w for w in each if w is not None] for each in tasks.values()]
    rates = [fmean(each) for each in finished if each]
    if times > 1 and len(set(rates)) > 1:
        low, high = over_tasks(rates)
    else:
        low, high = wilson(sum(rates), len(rates))
    if times > 1:
        solved = [any(each) for each in tasks.values() if None not in each and len(each) == times]
        measures |= {f"pass@{times}": fmean(solved)} if solved else {}
    return Row(
        task_type=name,
        n=n,
        won=won,
        mean=fmean(rates) if rates else None,
        low=low,
        high=high,
        steps=steps / n if n else None,
        missing=len(outcomes) - n,
        measures=measures,
        parsed_ratio=sum(parsed) / steps if steps and len(parsed) == n else None,
    )


def _columns(rows: Sequence[Row]) -> tuple[str, ...]:
    measured = dict.fromkeys(name for row in rows for name in row.measures)
    parsed = ("parsed_ratio",) if any(row.parsed_ratio is not None for row in rows) else ()
    return ("n", "success", "95% interval", *measured, *parsed, "steps", "missing")


def _cells(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    cells = {
        "n": str(row.n),
        "success": "-" if row.mean is None else f"{row.mean:.1%}",
        "95% interval": f"{row.low:.1%} - {row.high:.1%}" if row.n else "-",
        "steps": "-" if row.steps is None else f"{row.steps:.1f}",
        "missing": str(row.missing),
        "parsed_ratio": "-" if row.parsed_ratio is None else f"{row.parsed_ratio:.1%}",
        **{name: f"{mean:.3f}" for name, mean in row.measures.items() if mean is not None},
    }
    return (row.task_type, *(cells.get(name, "-") for name in columns))
