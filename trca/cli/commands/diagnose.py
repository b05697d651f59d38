"""``trca diagnose``: the paper's diagnostic study on recorded rollouts, and signs of trouble."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trca.cli.console import console, print_folded, refusing, use_one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from trca.algorithms.diagnosis import Diagnosis
    from trca.algorithms.llm_judge import Agreement
    from trca.algorithms.records import Rollout
    from trca.rubric import RubricLibrary
    from trca.tune_configs.settings import RunSettings

_REPLY_TOKENS: Final = 32
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
    judge: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A model at --base-url that labels transitions, too."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Base URL of an OpenAI-compatible endpoint; the key is OPENAI_API_KEY."),
    ] = None,
    transitions: Annotated[
        int, typer.Option(min=1, help="Transitions that --judge labels, of all parts together.")
    ] = 200,
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
    - `trca diagnose outputs/quickstart --judge NAME --base-url https://HOST/v1` lets a model label
      transitions of failed rollouts beside the operators, with Cohen's kappa; it resumes where it
      was stopped
    """
    use_one_thread()
    from dataclasses import asdict

    from trca.algorithms.diagnosis import alarms
    from trca.algorithms.diagnosis import diagnose as diagnose_rollouts
    from trca.cli.curve import draw_diagnosis
    from trca.cli.rollout_files import judged, load_library, recorded
    from trca.cli.run_folder import RunFolder
    from trca.common.chat_endpoint import EndpointError
    from trca.common.files import write_json
    from trca.tune_configs.files import ConfigError, read
    from trca.tune_configs.settings import RunSettings

    metrics: Sequence[Mapping[str, Any]] = ()
    with refusing(ConfigError, EndpointError, ValueError, OSError):
        if bool(judge) != bool(base_url):
            raise ConfigError("--judge NAME and --base-url URL go together")
        if run.endswith(".jsonl"):
            source = config or "quickstart"
            settings = RunSettings.resolve(read(source), source, need_data=False)
            parts, mend = {"all": {0: Path(run)}}, "name the right --config, or "
            folder = output or Path(run).parent
        else:
            if config:
                raise ConfigError("--config goes with a file: a run brings its own")
            opened = RunFolder.open(run, storage_path)
            name = f"{opened.name}/config.yaml"
            settings = RunSettings.resolve(opened.read_config(), name, need_data=False)
            parts, mend, metrics = _fifths(recorded(opened)), "", opened.metrics()
            folder = output or opened.path
        library = load_library(settings.run.env, settings.run.env_config)
        if library is None:
            raise ConfigError(f"nothing judges {settings.run.env}: there is no rubric to ask")
        found, everything = {}, list["Rollout"]()
        for words, paths in parts.items():
            rollouts, groups = list["Rollout"](), list[object]()
            for iteration, played in judged(paths, library, "diagnose", mend):
                rollouts += played
                # The groups of a file are its tasks: iteration is 0.
                groups += [(iteration, r.group) if iteration else r.task_id for r in played]
            found[words] = diagnose_rollouts(rollouts, groups, library.categories)
            everything += rollouts if judge else []
        first, *_, last = [*found.values(), *found.values()]
        categories = {o.id: o.category for o in library.operators}
        wanted = [name for name, category in categories.items() if category != "invalidity"]
        told = alarms(first, last, wanted, metrics)
        folder.mkdir(parents=True, exist_ok=True)
        data = {words: asdict(each) for words, each in found.items()} | {"alarms": told}
        agreed = None
        if judge and base_url:
            agreed = _ask(everything, library, judge, base_url, transitions, folder)
            data["judge"] = {"model": judge, **asdict(agreed)}
        write_json(folder / "diagnosis.json", data)
        draw_diagnosis(found, categories, folder / "diagnosis.png", _title(run, settings))
    _print(found, categories)
    if agreed:
        _print_agreement(agreed, judge or "")
    for each in told:
        console.print("! ", style="bold red", end="")
        print_folded(each, indent=0, hanging=2)
    console.print(f"Written to {folder}: diagnosis.json, diagnosis.png", markup=False)


def _title(run: str, settings: RunSettings) -> str:
    """The run or file, its games, its algorithm and its environment."""
    games = settings.run.env_config.get("games")
    name = Path(run).name + (f", games={games}" if games else "")
    return f"{name}: {settings.run.algorithm} on {settings.run.env}"


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


def _ask(
    rollouts: Sequence[Rollout],
    library: RubricLibrary,
    model: str,
    url: str,
    number: int,
    folder: Path,
) -> Agreement:
    """Lets a model label transitions, and compares with the operators' labels."""
    from trca.algorithms.llm_judge import (
        SCHEMA,
        agreement,
        draw_transitions,
        label_transitions,
        operator_labels,
        transition_prompt,
    )
    from trca.common.chat_endpoint import ChatEndpoint
    from trca.common.progress import progress_bar

    drawn = draw_transitions(rollouts, number)
    if not drawn:
        raise ValueError("no rollout failed: there is no transition to label")
    form = {"name": "label", "strict": True, "schema": SCHEMA}
    request = {
        "temperature": 0.0,
        "max_tokens": _REPLY_TOKENS,
        "response_format": {"type": "json_schema", "json_schema": form},
    }
    with ChatEndpoint(url, model) as endpoint, progress_bar() as report:
        labels = label_transitions(
            [transition_prompt(rollout, step) for rollout, step in drawn],
            lambda prompt: endpoint.ask(prompt, **request).text,
            folder / "judge.jsonl",
            model,
            lambda done: report("labelled", done, len(drawn)),
        )
    return agreement(operator_labels(drawn, library.categories), labels)


def _print_agreement(agreed: Agreement, model: str) -> None:
    from trca.cli.tables import terminal_table

    table = terminal_table()
    table.add_column("operators say", no_wrap=True)
    for name in agreed.confusion:
        table.add_column(f"model: {name}", justify="right")
    table.add_column("kappa", justify="right")
    for name, row in agreed.confusion.items():
        table.add_row(name, *map(str, row.values()), f"{agreed.kappas[name]:.2f}")
    console.print(table, soft_wrap=False)
    unread = f"; {agreed.unlabelled} replies could not be read" if agreed.unlabelled else ""
    print_folded(
        f"{model} and the operators agree on {agreed.agreement:.1%} of {agreed.labelled}"
        f" transitions of failed rollouts, Cohen's kappa {agreed.kappa:.2f}; useful are"
        f" {agreed.useful['operators']:.1%} by the operators and {agreed.useful['model']:.1%} by"
        f" the model{unread}.",
        indent=0,
        hanging=0,
    )


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
