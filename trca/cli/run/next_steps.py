"""The end of ``trca train``: warnings, results, failures, and the commands that come next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.markup import escape

from trca.cli.show.console import console

if TYPE_CHECKING:
    from rich.table import Table

    from trca.algorithms.settings.parameters import TextParameters
    from trca.runs.folder import RunFolder

_GRPO: Final = "GRPO"
_TINY_GRPO: Final = " --set lr=2e-4"
"""GRPO with the tiny policy needs a lower learning rate than the quickstart, tuned on panel 31
(docs/results_settings.md)."""
_GROUP: Final = 8


def show_results(run: RunFolder, settings: TextParameters) -> None:
    """Prints the results of a finished run, and commands that come next."""
    from trca.analysis.diagnosis import held_out_gap
    from trca.cli.show.warnings import training_warnings
    from trca.common.json_lines import read_lines
    from trca.runs.reports import read_table

    console.print()
    metrics = run.metrics()
    for warning in [*training_warnings(metrics).values(), *held_out_gap(metrics)]:
        console.print(f"warning: {warning}", markup=False, style="yellow")
    console.print(read_table(run.path / "evaluation"), soft_wrap=False)
    if failed := read_lines(run.failures):
        console.print(failure_table(failed))
    console.print(f"Curve:       {run.path / 'curve.png'}", markup=False)
    console.print("What next:")
    for command, why in next_steps(run, settings):
        console.print(f"  [cyan]{escape(command)}[/]\n      {why}")


def next_steps(run: RunFolder, settings: TextParameters) -> list[tuple[str, str]]:
    """Commands for a finished run, each with its purpose."""
    from trca.envs.registration import lacks_rubric
    from trca.policies.model_names import TINY
    from trca.runs.refusals import quoted

    address, config = run.address, quoted(run.path / "config.yaml")
    other = "GiGPO" if settings.algorithm == _GRPO else _GRPO
    tiny_grpo = other == _GRPO and settings.model == TINY
    changes = _TINY_GRPO if tiny_grpo else ""
    if settings.group_size == 1:  # imitation; the other algorithm compares rollouts
        changes += f" --set group_size={_GROUP}"
    commands = [
        (f"trca inspect {quoted(address)}", "the rollouts of the last iteration, step by step"),
        (f"trca view {quoted(address)}", "the rollouts in a browser"),
        (
            f"trca evaluate {quoted(f'{address}@last')} --seeds 3",
            "the last checkpoint on held-out tasks, 3 times, fresh random streams",
        ),
        (
            f"trca train {config} --algorithm {other}{changes} --name {other.lower()}",
            "another algorithm on the same tasks",
        ),
        (f"trca export {quoted(address)} --to my-policy", "a folder that from_pretrained opens"),
    ]
    if not lacks_rubric(settings.env, settings.env_config.get("library")):
        why = "what failed rollouts contain, and what looks wrong"
        commands.insert(0, (f"trca diagnose {quoted(address)}", why))
    if "tensorboard" in settings.tracking:
        commands.append((f"tensorboard --logdir {quoted(run.path)}", "every metric over time"))
    return commands


def failure_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a table of failures by kind and action: their number and the last reason."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from trca.common.errors import short_line

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
