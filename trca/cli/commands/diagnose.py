"""``trca diagnose``: the paper's diagnostic study on recorded rollouts, and signs of trouble."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trca.cli.run.new_settings import EndpointOption, RolloutsArgument, RunsOption
from trca.cli.show.console import console, make_writable, print_folded, refusing, use_one_thread
from trca.common.registry import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trca.analysis.llm_labels import Agreement
    from trca.envs.annotate import Operators
    from trca.records import Rollout

    _Pairs = list[tuple[Rollout, object]]


def diagnose(
    run: RolloutsArgument,
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
    base_url: EndpointOption = None,
    transitions: Annotated[
        int, typer.Option(min=1, help="Transitions that --judge labels, of each role.")
    ] = 200,
    storage_path: RunsOption = "outputs",
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
    from trca.algorithms.settings.parameters import TextParameters
    from trca.common.chat_endpoint import EndpointError
    from trca.envs.text_env import DEFAULT_AGENT
    from trca.runs.folder import RunFolder
    from trca.runs.rollout_files import agent_operators, judged, recorded
    from trca.tune_configs.files import read
    from trca.tune_configs.run_parameters import method_name

    metrics: Sequence[Mapping[str, Any]] = ()
    with refusing(EndpointError, ValueError, OSError):
        if bool(judge) != bool(base_url):
            raise ValueError("--judge NAME and --base-url URL go together")
        if run.endswith((".parquet", ".jsonl")):
            source = config or "quickstart"
            settings = TextParameters.resolve(read(source), source, need_data=False)
            parts, fix = {"all": {0: Path(run)}}, "name the right --config, or "
            folder = output or Path(run).parent
        else:
            if config:
                raise ValueError("--config goes with a file: a run has its config")
            opened = RunFolder.open_run(run, storage_path)
            name = f"{opened.name}/config.yaml"
            settings = TextParameters.resolve(opened.read_config(), name, need_data=False)
            parts, fix, metrics = _fifths(recorded(opened)), "", opened.metrics()
            folder = output or opened.path
        operators = agent_operators(settings.env, settings.env_config)
        if not any(each.ids for each in operators.values()):
            raise ValueError(f"nothing judges {settings.env}: diagnose needs a rubric")
        played = {words: _by_agent(judged(p, operators, fix)) for words, p in parts.items()}
        agents = [agent for agent in operators if all(part.get(agent) for part in played.values())]
        if not agents:
            raise ValueError("no rollout with a step is recorded")
        for absent in operators.keys() - agents:
            console.print(f"{absent} did not act in every part: left out", markup=False)
        make_writable(folder)
        games = settings.env_config.get("games")
        title = Path(run).name + (f", games={games}" if games else "")
        title += f": {method_name(settings.flat())} on {short_name(settings.env)}"
        for agent in agents:
            pairs = {words: part[agent] for words, part in played.items()}
            agreed = None
            if judge and base_url:
                failed = [rollout for part in pairs.values() for rollout, _ in part]
                agreed = _ask(failed, operators[agent], judge, base_url, transitions, folder)
            role = "" if agent == DEFAULT_AGENT else agent
            _study(pairs, operators[agent], metrics, folder, title, role, judge or "", agreed)


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
    """Writes and prints the study of an agent; its role is empty without a team."""
    from trca.analysis.diagnosis import alarms, diagnose
    from trca.cli.show.diagnosis import plot_diagnosis, print_agreement, print_diagnosis
    from trca.common.files import write_json
    from trca.rubric import CATEGORIES
    from trca.runs.curve import figure_in

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
    with figure_in(folder / f"{name}.png", (10.4, 5.2)) as figure:
        plot_diagnosis(figure, diagnoses, categories, f"{title}, {role}" if role else title)
    if role:
        console.print(role, style="bold", markup=False)
    print_diagnosis(diagnoses, categories)
    if agreed:
        print_agreement(agreed, model)
    for each in alarm_texts:
        print_folded(f"! {each}", indent=0, style="red", hanging=2)
    console.print(f"Written to {folder}: {name}.json, {name}.png", markup=False)


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
    rollouts: list[Rollout],
    operators: Operators,
    model: str,
    url: str,
    number: int,
    folder: Path,
) -> Agreement | None:
    """Returns how the labels of a model agree with the operators; `None` if no reply is a label."""
    from trca.analysis import llm_labels
    from trca.common.chat_endpoint import ChatEndpoint
    from trca.common.progress import progress_bar

    drawn = llm_labels.draw_transitions(rollouts, number)
    if not drawn:
        raise ValueError("no rollout failed: there is no transition to label")
    request = llm_labels.request()
    with ChatEndpoint(url, model) as endpoint:
        try:
            with progress_bar() as report:
                labels = llm_labels.label_transitions(
                    [llm_labels.transition_prompt(rollout, step) for rollout, step in drawn],
                    lambda prompt: endpoint.ask(prompt, **request).after_thought,
                    folder / "judge.jsonl",
                    model,
                    lambda done: report("labelled", done, len(drawn)),
                )
        finally:
            if endpoint.usage.requests:
                console.print(f"Endpoint: {endpoint.usage.words()}", markup=False)
    judged = llm_labels.operator_labels(drawn, operators.categories)
    agreed = llm_labels.agreement(judged, labels)
    if agreed.labelled:
        return agreed
    print_folded(
        f"! none of {model}'s {len(drawn)} replies is a label: it must reply with the JSON object"
        f" that it is asked for, within {llm_labels.REPLY_TOKENS} tokens",
        indent=0,
        style="red",
        hanging=2,
    )
    return None
