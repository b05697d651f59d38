"""``trca diagnose``: the paper's diagnostic study on recorded rollouts, and signs of trouble."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trca.cli.show.console import console, print_folded, refusing, use_one_thread
from trca.common.registry import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.table import Table

    from trca.analysis.diagnosis import Diagnosis
    from trca.analysis.llm_labels import Agreement
    from trca.envs.annotate import Operators
    from trca.records import Rollout
    from trca.tune_configs.settings import RunSettings

    _Pairs = list[tuple[Rollout, object]]

_REPLY_TOKENS: Final = 1024
"""Room for a model that thinks before it labels."""
_ROWS: Final = (
    ("failed rollouts", "failure_rate"),
    ("groups without a success", "success_free_groups"),
    ("useful transitions in failed rollouts", "useful_transitions"),
)


def diagnose(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run, or a .parquet file of trca evaluate --transcripts."
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
        typer.Option(metavar="NAME", help="A model at --base-url that also labels transitions."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Base URL of an OpenAI-compatible endpoint; the key is OPENAI_API_KEY."),
    ] = None,
    transitions: Annotated[
        int, typer.Option(min=1, help="Transitions that --judge labels, of each role.")
    ] = 200,
    storage_path: Annotated[str, typer.Option(help="Folder or URI that holds the runs.")] = (
        "outputs"
    ),
) -> None:
    """Show how scarce success is, what failed rollouts contain, and signs of trouble.

    The paper's diagnostic study with the rubric's operators as judges: failure rate, groups without
    a success, and the share of useful transitions (Evidence, Execution, Validity) in failed
    rollouts. For a run, the tables compare the first and the last fifth of the iterations. Each
    role of a team has a separate study.

    - `trca diagnose outputs/quickstart`
    - `trca evaluate tiny --split train --tasks 16 --seeds 8 --transcripts` samples 16 groups of 8,
      and `trca diagnose outputs/evaluation_....parquet` makes the study of the warm start
    - `trca diagnose outputs/quickstart --judge NAME --base-url https://HOST/v1` lets a model label
      transitions of failed rollouts and compares its labels with the operators by Cohen's kappa;
      a second call resumes after a stop
    """
    use_one_thread()
    from trca.common.chat_endpoint import EndpointError
    from trca.envs.text_env import DEFAULT_AGENT
    from trca.runs.folder import RunFolder
    from trca.runs.refusals import make_writable
    from trca.runs.rollout_files import agent_operators, judged, recorded
    from trca.tune_configs.files import ConfigError, read
    from trca.tune_configs.settings import RunSettings

    metrics: Sequence[Mapping[str, Any]] = ()
    with refusing(ConfigError, EndpointError, ValueError, OSError):
        if bool(judge) != bool(base_url):
            raise ConfigError("--judge NAME and --base-url URL go together")
        if run.endswith((".parquet", ".jsonl")):
            source = config or "quickstart"
            settings = RunSettings.resolve(read(source), source, need_data=False)
            parts, mend = {"all": {0: Path(run)}}, "name the right --config, or "
            folder = output or Path(run).parent
        else:
            if config:
                raise ConfigError("--config goes with a file: a run has its config")
            opened = RunFolder.open_run(run, storage_path)
            name = f"{opened.name}/config.yaml"
            settings = RunSettings.resolve(opened.read_config(), name, need_data=False)
            parts, mend, metrics = _fifths(recorded(opened)), "", opened.metrics()
            folder = output or opened.path
        operators = agent_operators(settings.run.env, settings.run.env_config)
        if not any(each.ids for each in operators.values()):
            raise ConfigError(f"nothing judges {settings.run.env}: diagnose needs a rubric")
        played = {words: _by_agent(judged(p, operators, mend)) for words, p in parts.items()}
        agents = [
            a for a in operators if all(agent_parts.get(a) for agent_parts in played.values())
        ]
        if not agents:
            raise ValueError("no rollout with a step is recorded")
        for absent in operators.keys() - agents:
            console.print(f"{absent} did not act in every part: left out", markup=False)
        make_writable(folder)
        for agent in agents:
            agent_parts = {words: pairs[agent] for words, pairs in played.items()}
            agreed = None
            if judge and base_url:
                agreed = _ask(agent_parts, operators[agent], judge, base_url, transitions, folder)
            role = "" if agent == DEFAULT_AGENT else agent
            title = _title(run, settings) + (f", {role}" if role else "")
            _study(agent_parts, operators[agent], metrics, folder, title, role, judge or "", agreed)


def _study(
    played: Mapping[str, _Pairs],
    operators: Operators,
    metrics: Sequence[Mapping[str, Any]],
    folder: Path,
    title: str,
    role: str,
    model: str,
    agreed: Agreement | None,
) -> None:
    """Writes and prints the study of an agent.

    Args:
        played: Its rollouts by part of the run.
        operators: What judged them.
        metrics: The run's metrics.
        folder: Where files go.
        title: Of the figure.
        role: The agent's role; blank without a team.
        model: The model that labelled transitions; blank for none.
        agreed: How it agrees with the operators.
    """
    from dataclasses import asdict

    from trca.analysis.diagnosis import alarms, diagnose
    from trca.cli.show.diagnosis_figure import draw_diagnosis
    from trca.common.files import write_json
    from trca.rubric import CATEGORIES

    diagnoses = {}
    for words, pairs in played.items():
        rollouts, groups = zip(*pairs, strict=True)
        diagnoses[words] = diagnose(rollouts, groups, operators.categories)
    kinds = [CATEGORIES[category] for category in operators.categories.tolist()]
    categories = dict(zip(operators.ids, kinds, strict=True))
    wanted = [name for name, category in categories.items() if category != "invalidity"]
    first, *_, last = [*diagnoses.values(), *diagnoses.values()]
    alarm_texts = alarms(first, last, wanted, metrics)
    name = f"diagnosis_{role}" if role else "diagnosis"
    data = {words: asdict(each) for words, each in diagnoses.items()} | {"alarms": alarm_texts}
    if agreed:
        data["judge"] = {"model": model, **asdict(agreed)}
    write_json(folder / f"{name}.json", data)
    draw_diagnosis(diagnoses, categories, folder / f"{name}.png", title)
    if role:
        console.print(role, style="bold", markup=False)
    _print(diagnoses, categories)
    if agreed:
        _print_agreement(agreed, model)
    for each in alarm_texts:
        console.print("! ", style="bold red", end="")
        print_folded(each, indent=0, hanging=2)
    console.print(f"Written to {folder}: {name}.json, {name}.png", markup=False)


def _title(run: str, settings: RunSettings) -> str:
    """The run or file, its games, its algorithm and its environment."""
    from trca.tune_configs.run_parameters import method_name

    games = settings.run.env_config.get("games")
    name = Path(run).name + (f", games={games}" if games else "")
    return f"{name}: {method_name(settings.flat())} on {short_name(settings.run.env)}"


def _by_agent(
    iterations: Iterable[tuple[int, Mapping[str, Sequence[Rollout]]]],
) -> dict[str, _Pairs]:
    """The rollouts of each agent, with the key of their group; in a file, the key is the task."""
    pairs: dict[str, _Pairs] = {}
    for iteration, played in iterations:
        for agent, rollouts in played.items():
            pairs.setdefault(agent, []).extend(
                (r, (iteration, r.group) if iteration else r.task_id) for r in rollouts
            )
    return pairs


def _fifths(paths: dict[int, Path]) -> dict[str, dict[int, Path]]:
    """The first and the last fifth of the iterations, by name; all iterations of a short run."""
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
    played: Mapping[str, _Pairs],
    operators: Operators,
    model: str,
    url: str,
    number: int,
    folder: Path,
) -> Agreement | None:
    """Lets a model label transitions, and compares with the operators' labels.

    Returns:
        How they agree; None where no reply is a label.
    """
    from trca.analysis.llm_labels import (
        SCHEMA,
        agreement,
        draw_transitions,
        label_transitions,
        operator_labels,
        transition_prompt,
    )
    from trca.common.chat_endpoint import ChatEndpoint
    from trca.common.progress import progress_bar

    drawn = draw_transitions([r for pairs in played.values() for r, _ in pairs], number)
    if not drawn:
        raise ValueError("no rollout failed: there is no transition to label")
    form = {"name": "label", "strict": True, "schema": SCHEMA}
    request = {
        "temperature": 0.0,
        "max_tokens": _REPLY_TOKENS,
        "response_format": {"type": "json_schema", "json_schema": form},
    }
    with ChatEndpoint(url, model) as endpoint:
        try:
            with progress_bar() as report:
                labels = label_transitions(
                    [transition_prompt(rollout, step) for rollout, step in drawn],
                    lambda prompt: endpoint.ask(prompt, **request).after_thought,
                    folder / "judge.jsonl",
                    model,
                    lambda done: report("labelled", done, len(drawn)),
                )
        finally:
            if endpoint.usage.requests:
                console.print(f"Endpoint: {endpoint.usage.words()}", markup=False)
    agreed = agreement(operator_labels(drawn, operators.categories), labels)
    if agreed.labelled:
        return agreed
    console.print("! ", style="bold red", end="")
    print_folded(
        f"none of {model}'s {len(drawn)} replies is a label: it must reply with the JSON object"
        f" that it is asked for, within {_REPLY_TOKENS} tokens",
        indent=0,
        hanging=2,
    )
    return None


def _print_agreement(agreed: Agreement, model: str) -> None:
    from trca.runs.success_tables import terminal_table

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


def _print(diagnoses: Mapping[str, Diagnosis], categories: Mapping[str, str]) -> None:
    from trca.runs.success_tables import terminal_table

    def table(first: str) -> Table:
        made = terminal_table()
        made.add_column(first, no_wrap=True)
        for words in diagnoses:
            made.add_column(words, justify="right")
        return made

    def row(made: Table, name: str, values: list[float], style: str = "") -> None:
        cells = ["-" if value != value else f"{value:.1%}" for value in values]
        made.add_row(name, *cells, style=style)

    each = list(diagnoses.values())
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
