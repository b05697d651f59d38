"""``trca evaluate``: a policy on a frozen panel, every task, nothing dropped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trca.cli.console import console, noise_to, refusing, use_one_thread

if TYPE_CHECKING:
    from trca.cli.checkpoints import Policy
    from trca.cli.reports import Report
    from trca.envs.panel import Panel


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
        str, typer.Option(help="Config that says world and prompt, for a model without a run.")
    ] = "quickstart",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the report. [default: the run, or outputs]")
    ] = None,
) -> None:
    """Evaluate a run or a model: success by task type, with n and 95% intervals.

    Every task of the panel is played with every seed. What is missing for a technical reason is
    counted and named, and never a zero.

    - `trca evaluate outputs/quickstart`
    - `trca evaluate outputs/quickstart@last --split valid_unseen --seeds 3`
    - `trca evaluate Qwen/Qwen2.5-1.5B-Instruct --config paper/alfworld_qwen2.5_1.5b --tasks 16`
    """
    use_one_thread()
    from trca.cli.checkpoints import policy
    from trca.cli.provenance import panel as whole_panel
    from trca.tune_configs.files import ConfigError, assignments

    with refusing(ConfigError, ValueError):
        given = assignments(set_ or [])
        if split is not None:
            given["evaluation_split"] = split
        subject = policy(run_or_model, config, given)
        panel = whole_panel(subject.settings, subject.settings.parameters.evaluation_split)
    panel = panel.head(tasks)
    count = len(panel.task_ids)
    console.print(f"{subject.name} on {panel.split}, {count} tasks, {seeds} times", markup=False)
    report = _play(subject, panel, seeds, temperature)
    folder = output or subject.folder
    folder.mkdir(parents=True, exist_ok=True)
    if temperature is None:
        temperature = subject.settings.parameters.evaluation_temperature
    path = folder / f"evaluation_{subject.label}_{panel.split}"
    report.write(path, policy=subject.name, seeds=seeds, temperature=temperature)
    console.print(report.table(), soft_wrap=False)
    for reason, missing in report.failures().items():
        console.print(f"{missing} missing: {reason}", markup=False, style="bold red")
    console.print(f"Written to {path}.md and {path.name}.json", markup=False)


def _play(subject: Policy, panel: Panel, seeds: int, temperature: float | None) -> Report:
    from trca.cli.reports import Report

    with (
        noise_to(subject.folder / "logs" / "evaluate.log") as terminal,
        terminal.status("loading the model") as status,
    ):
        from trca.algorithms.evaluation import evaluate_panel, local_runner

        runner = local_runner(subject.algorithm_config())
        evaluations = {}
        for seed in range(seeds):
            status.update(f"playing {len(panel.task_ids)} tasks with seed {seed}")
            evaluations[seed] = evaluate_panel(runner, panel, seed=seed, temperature=temperature)
        runner.stop()
    return Report.of(panel, evaluations)
