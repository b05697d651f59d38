"""``trca diagnose``: the paper's diagnostic study on recorded rollouts, and signs of trouble."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trca.cli.console import console, print_folded, refusing, use_one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from trca.algorithms.diagnosis import Diagnosis
    from trca.algorithms.records import Rollout

_ROWS: Final = (
    ("failed rollouts", "failure_rate"),
    ("groups without a success", "success_free_groups"),
    ("useful transitions in failed rollouts", "useful_transitions"),
)


def diagnose(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run, or a .jsonl file of trca evaluate --transcripts."
        ),
    ],
    config: Annotated[
        str | None,
        typer.Option(help="Config that names the environment of a file. [default: quickstart]"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for diagnosis.{json,png}. [default: the run's]")
    ] = None,
    storage_path: Annotated[str, typer.Option(help="Folder or URI that holds the runs.")] = (
        "outputs"
    ),
) -> None:
    """Say how scarce success is, what failed rollouts still show, and what looks wrong.

    The paper's diagnostic study with the rubric's operators as judges: failure rate, groups without
    a success, and the share of useful transitions (Evidence, Execution, Validity) in failed
    rollouts. Of a run the first and the last fifth of the iterations stand beside each other.

    - `trca diagnose outputs/quickstart`
    - `trca evaluate tiny --split train --tasks 16 --seeds 8 --transcripts` samples 16 groups of 8,
      and `trca diagnose outputs/evaluation_....jsonl` makes the study of the warm start
    """
    use_one_thread()
    from dataclasses import asdict

    from trca.algorithms.diagnosis import alarms
    from trca.algorithms.diagnosis import diagnose as diagnose_rollouts
    from trca.cli.curve import draw_diagnosis
    from trca.cli.rollout_files import library_of, recorded
    from trca.cli.run_folder import RunFolder
    from trca.common.files import write_text
    from trca.rubric import RubricLibrary
    from trca.tune_configs.files import ConfigError, read
    from trca.tune_configs.settings import RunSettings

    metrics: Sequence[Mapping[str, Any]] = ()
    with refusing(ConfigError, ValueError, OSError):
        if run.endswith(".jsonl"):
            source = config or "quickstart"
            settings = RunSettings.resolve(read(source), source, need_data=False)
            parts = {"all": {0: Path(run)}}
            folder = output or Path(run).parent
        else:
            if config:
                raise ConfigError("--config goes with a file: a run brings its own")
            opened = RunFolder.open(run, storage_path)
            name = f"{opened.name}/config.yaml"
            settings = RunSettings.resolve(opened.read_config(), name, need_data=False)
            parts, metrics = _fifths(recorded(opened)), opened.metrics()
            folder = output or opened.path
        library = library_of(settings)
        if library is None:
            raise ConfigError(f"nothing judges {settings.run.env}: there is no rubric to ask")
        loaded = RubricLibrary.load(library)
        found = {}
        for words, paths in parts.items():
            rollouts, groups = _read(paths, loaded.ids)
            found[words] = diagnose_rollouts(rollouts, groups, loaded.categories)
        first, *_, last = [*found.values(), *found.values()]
        categories = {o.id: o.category for o in loaded.operators}
        wanted = [name for name, category in categories.items() if category != "invalidity"]
        told = alarms(first, last, wanted, metrics)
        folder.mkdir(parents=True, exist_ok=True)
        data = {words: asdict(each) for words, each in found.items()} | {"alarms": told}
        write_text(folder / "diagnosis.json", json.dumps(data, indent=1) + "\n")
        draw_diagnosis(
            found, categories, folder / "diagnosis.png", f"{Path(run).name}: {settings.run.env}"
        )
    _print(found, categories)
    for each in told:
        console.print("! ", style="bold red", end="")
        print_folded(each, indent=0, hanging=2)
    console.print(f"Written to {folder}: diagnosis.json, diagnosis.png", markup=False)


def _fifths(paths: dict[int, Path]) -> dict[str, dict[int, Path]]:
    """The first and the last fifth of the iterations, by their words; all where they are few."""
    numbers = list(paths)
    size = max(1, len(numbers) // 5)
    parts = [numbers[:size], numbers[-size:]] if len(numbers) > 1 else [numbers]
    return {
        f"iterations {p[0]}-{p[-1]}" if len(p) > 1 else f"iteration {p[0]}": {
            k: paths[k] for k in p
        }
        for p in parts
    }


def _read(
    paths: Mapping[int, Path], operators: tuple[str, ...]
) -> tuple[list[Rollout], list[object]]:
    """Rollouts, and what tells their groups: iteration and number, or the task of a file."""
    from trca.algorithms.records import read_rollouts

    rollouts, groups = list[Any](), list[object]()
    for iteration, path in paths.items():
        for rollout in read_rollouts(path):
            if rollout.operators != operators:
                raise ValueError(
                    f"{path}: judged by another rubric library than that of the config: name the"
                    " right --config, or put the library back as it was"
                )
            rollouts.append(rollout)
            groups.append((iteration, rollout.group) if iteration else rollout.task_id)
    return rollouts, groups


def _print(found: Mapping[str, Diagnosis], categories: Mapping[str, str]) -> None:
    from trca.cli.tables import terminal_table

    def table(first: str) -> Table:
        made = terminal_table()
        made.add_column(first, no_wrap=True)
        for words in found:
            made.add_column(words, justify="right")
        return made

    def row(made: Table, name: str, values: list[float], style: str = "") -> None:
        cells = ["-" if value != value else f"{value:.1%}" for value in values]
        made.add_row(name, *cells, style=style)

    each = list(found.values())
    ratios = table("")
    ratios.add_row("rollouts", *(f"{d.rollouts:,} in {d.groups:,} groups" for d in each))
    for words, name in _ROWS:
        row(ratios, words, [getattr(d, name) for d in each], "bold")
    for kind in each[0].classes:
        row(ratios, f"  {kind}", [d.classes[kind] for d in each])
    row(ratios, "responses with an action", [d.parsed for d in each])
    row(ratios, "actions carried out", [d.accepted for d in each])
    console.print(ratios, soft_wrap=False)
    fired = table("operator fired, share of all steps")
    for category in dict.fromkeys(categories.values()):
        fired.add_row(category, style="bold")
        for name in (n for n in categories if categories[n] == category):
            row(fired, f"  {name}", [d.fired.get(name, 0.0) for d in each])
    console.print(fired, soft_wrap=False)
