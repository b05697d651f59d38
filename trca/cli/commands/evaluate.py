"""``trca evaluate``: a policy on a frozen panel, every task, nothing dropped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trca.cli.console import (
    console,
    fail,
    noise_to,
    refusing,
    tracing_to,
    use_one_thread,
    words,
)

if TYPE_CHECKING:
    from trca.algorithms.evaluation import Evaluation
    from trca.cli.checkpoints import Policy
    from trca.envs.panel import Panel


_NAMED: Final = frozenset({"evaluation_split", "evaluation_temperature", "evaluation_tasks"})
"""Settings that a report's name has anyway, or that do not shape it."""


def evaluate(
    run_or_model: Annotated[
        str,
        typer.Argument(
            metavar="RUN[@best|@last] | MODEL", help="A run folder, a model folder, or a hub name."
        ),
    ],
    split: Annotated[str | None, typer.Option(help="Split. [default: the run's]")] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Only the head of the panel. [default: all of it]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Times the panel is played.")] = 1,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="0 is greedy. [default: the run's]")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="Config that names environment and prompt, for a model without a run. [default:"
            " quickstart]"
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the report. [default: the run, or outputs]")
    ] = None,
    transcripts: Annotated[
        bool, typer.Option("--transcripts", help="Keep every rollout too, as JSON lines.")
    ] = False,
) -> None:
    """Evaluate a run or a model: success by task type, with n and 95% intervals.

    Every task of the panel is played with every seed. A rollout that is missing for a technical
    reason is counted and named; it is never a zero. Each panel, number of seeds and temperature
    gets a report of its own.

    - `trca evaluate outputs/quickstart` plays the best checkpoint on the run's held-out panel
    - `trca evaluate outputs/quickstart@last --split valid_unseen --seeds 3`
    - `trca evaluate outputs/quickstart --temperature 0 --transcripts` keeps what was said and done
    - `trca evaluate my-policy --config outputs/quickstart/config.yaml` evaluates an exported folder
    - `trca evaluate Qwen/Qwen2.5-1.5B-Instruct --config paper/alfworld_qwen2.5_1.5b --tasks 16`
    """
    use_one_thread()
    from trca.cli.checkpoints import policy
    from trca.cli.provenance import panel as whole_panel
    from trca.cli.reports import Report
    from trca.tune_configs.files import ConfigError, assignments

    with refusing(ConfigError, ValueError, OSError):
        given = assignments(set_ or [])
        if split is not None:
            given["evaluation_split"] = split
        subject = policy(run_or_model, config, given)
        panel = whole_panel(subject.settings, subject.settings.evaluation_split)
        panel = panel.head(tasks)
        folder = output or subject.folder
        folder.mkdir(parents=True, exist_ok=True)
    if temperature is None:
        temperature = subject.settings.parameters.evaluation_temperature
    count = len(panel.task_ids)
    console.print(
        f"{subject.name} on {panel.split}: tasks {count}, seeds {seeds}, temperature"
        f" {temperature:g}",
        markup=False,
    )
    log = subject.folder / "logs" / "evaluate.log"
    changed = {k: v for k, v in given.items() if k not in _NAMED}
    path = folder / report_name(subject.label, panel, seeds, temperature, changed)
    try:
        evaluations = _play(subject, panel, seeds, temperature, log)
        report = Report.of(panel, evaluations)
        about = {"policy": subject.name, "seeds": seeds, "temperature": temperature}
        report.write(path, **about, **({"set": changed} if changed else {}))
        if transcripts:
            _write_transcripts(path.with_name(f"{path.name}.jsonl"), evaluations, subject.model)
    except Exception as error:
        fail(f"{words(error)}. Log: {log}")
    console.print(report.table(), soft_wrap=False)
    for reason, missing in report.failures().items():
        console.print(f"{missing} missing: {reason}", markup=False, style="bold red")
    kinds = "md,json,jsonl" if transcripts else "md,json"
    console.print(f"Written to {path.parent}:\n  {path.name}.{{{kinds}}}", markup=False)


def report_name(
    label: str, panel: Panel, seeds: int, temperature: float, changed: Mapping[str, Any]
) -> str:
    """The name of a report's files: policy, split and panel, seeds, temperature, changed settings.

    The settings' values stand in the report; a hash of them tells the files apart.
    """
    name = (
        f"evaluation_{label}_{panel.split}-{len(panel.task_ids)}-{panel.hash[:8]}"
        f"_seeds-{seeds}_t-{temperature:g}"
    )
    if not changed:
        return name
    text = json.dumps(changed, sort_keys=True, default=str)
    return f"{name}_set-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _play(
    subject: Policy, panel: Panel, seeds: int, temperature: float, log: Path
) -> dict[int, Evaluation]:
    with (
        noise_to(log) as terminal,
        tracing_to(log),
        terminal.status("loading the model") as status,
    ):
        from trca.algorithms.evaluation import evaluate_panel, local_runner

        runner = local_runner(subject.algorithm_config())
        evaluations = {}
        for seed in range(seeds):
            status.update(f"playing {len(panel.task_ids)} tasks with seed {seed}")
            evaluations[seed] = evaluate_panel(runner, panel, seed=seed, temperature=temperature)
        runner.stop()
    return evaluations


def _write_transcripts(path: Path, evaluations: dict[int, Evaluation], model: str) -> None:
    """Writes the rollouts of all seeds, seed by seed."""
    from trca.cli.rollout_files import write_rollouts
    from trca.policies.models import load_tokenizer

    write_rollouts(
        path,
        [rollout for each in evaluations.values() for rollout in each.rollouts],
        load_tokenizer(model).decode,
        failures=[failure for each in evaluations.values() for failure in each.failures],
    )
