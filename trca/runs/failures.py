"""The ledger of a run: all that failed in it, and what was done about it, a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trca.common.json_lines import append_lines
from trca.common.short_line import short_line

if TYPE_CHECKING:
    from rich.table import Table

    from trca.records.failures import Incident


def append_failures(path: Path, iteration: int, incidents: Sequence[Incident]) -> None:
    """Adds a line for each incident; they are on disk when this returns.

    Args:
        path: The file; made with the first incident.
        iteration: The iteration in which they were.
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
    """How often each kind of thing failed, what was done, and the last reason."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    by_kind: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        by_kind.setdefault((line["kind"], line["action"]), []).append(line["reason"])
    table = Table(box=box.SIMPLE_HEAD, title="What failed", title_justify="left")
    table.add_column("what")
    table.add_column("times", justify="right")
    table.add_column("action")
    table.add_column("last reason", overflow="fold")
    for (kind, action), reasons in sorted(by_kind.items()):
        table.add_row(kind, str(len(reasons)), Text(action), Text(short_line(reasons[-1])))
    return table
