"""The log of a run's failures: one line per failure, with its reason and the action taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trca.common.errors import short_line
from trca.common.json_lines import append_lines

if TYPE_CHECKING:
    from rich.table import Table

    from trca.records.failures import Incident


def append_failures(path: Path, iteration: int, incidents: Sequence[Incident]) -> None:
    """Appends a line for each incident and flushes the lines to disk.

    Args:
        path: The file. The first incident creates it.
        iteration: The iteration of the incidents.
        incidents: The incidents.
    """
    if not incidents:
        return
    append_lines(
        path,
        (
            {
                **asdict(incident),
                "time": datetime.fromtimestamp(incident.time, UTC).isoformat(timespec="seconds"),
                "iteration": iteration,
            }
            for incident in incidents
        ),
    )


def failure_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a table of failures by kind and action: their number and the last reason."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    by_kind: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        by_kind.setdefault((line["kind"], line["action"]), []).append(line["reason"])
    table = Table(box=box.SIMPLE_HEAD, title="Failures", title_justify="left")
    table.add_column("kind")
    table.add_column("number", justify="right")
    table.add_column("action")
    table.add_column("last reason", overflow="fold")
    for (kind, action), reasons in sorted(by_kind.items()):
        table.add_row(kind, str(len(reasons)), Text(action), Text(short_line(reasons[-1])))
    return table
