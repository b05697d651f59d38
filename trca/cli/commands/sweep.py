"""``trca sweep``: runs points of settings, each with every seed on every panel."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trca.cli.run.new_settings import AutoResumeOption, NameOption, StorageOption
from trca.cli.show.console import (
    console,
    fail,
    noise_to,
    note,
    refusing,
    tracing_to,
    use_one_thread,
)
from trca.common.errors import words

if TYPE_CHECKING:
    from trca.algorithms.settings.sweeps import SweepSettings
    from trca.runs.folder import RunFolder

_CONFIG: Final = "sweeps/lambda"


def sweep(
    config: Annotated[
        str, typer.Argument(help="A sweep that comes with the package, or a YAML file.")
    ] = _CONFIG,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting that is not swept."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG",
            help="Another config for all trials; leaves out the sweep's own set and panels.",
        ),
    ] = None,
    name: NameOption = None,
    storage_path: StorageOption = "outputs",
    resume: Annotated[
        str | None,
        typer.Option(metavar="SWEEP", help="Resume this sweep after a stop or a kill."),
    ] = None,
    auto_resume: AutoResumeOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the trials and what they need; run nothing.")
    ] = False,
) -> None:
    """Run points of settings, with every seed on every panel; one table and one picture.

    Ray Tune runs the trials, on all nodes of a cluster if `RAY_ADDRESS` names one. Each trial is a
    run in its own folder, evaluated at its end. The table counts failed trials, and the
    sweep continues. Ctrl-C stops each trial after its iteration.

    - `trca sweep sweeps/lambda --dry-run`
    - `trca sweep sweeps/lambda --set iterations=25`
    - `trca sweep sweeps/ablations --base webshop` sweeps the same points on another config
    - `trca sweep --resume outputs/lambda` resumes after a stop, a crash or a kill
    - `trca evaluate outputs/lambda/trials/001_lambda-0.2_seed-0` takes a trial like any run

    A sweep is a YAML file. Its grid may have `algorithm`, and `sample` draws from Ray Tune's
    distributions:

        base: quickstart
        set: {iterations: 12}
        grid: {algorithm: [TRCA, GRPO]}
        sample: {lr: {loguniform: [1e-4, 1e-3]}}
        samples: 8
        seeds: [0, 1]
        panels: [{env_config.games: small-31}, {env_config.games: small-32}]
        side_by_side: 2

    With `search: optuna` Optuna chooses the `samples` points, without a grid. With
    `scheduler: asha` ASHA stops trials early that are behind. Both read `metric`. docs/sweeps.md
    has every key.
    """
    use_one_thread()
    from trca.cli.sweep.trials import is_sweep, sweep_of
    from trca.runs.folder import RunFolder, run_name
    from trca.runs.provenance import versions
    from trca.tune_configs.files import ConfigError

    with refusing(ConfigError, OSError):
        asked = None
        if auto_resume and RunFolder.exists(name or run_name(config), storage_path):
            asked = sweep_of(config, set_, need_data=False, base=base)
            resume, config, name = name or run_name(config), _CONFIG, None
            set_ = base = None
        if resume is not None:
            folder = RunFolder.open(resume, storage_path)
            given = {config: config != _CONFIG, "--set": set_, "--base": base, "--name": name}
            given["--dry-run"] = dry_run
            if others := ", ".join(option for option, value in given.items() if value):
                raise ConfigError(f"{others} with --resume: a sweep keeps its settings")
            if not is_sweep(folder.read_config()):
                raise ConfigError(
                    f"{folder.path} is not a sweep: resume a run by trca train --resume {resume}"
                )
            if asked and (words := folder.differing(asked.with_base().model_dump())):
                raise ConfigError(f"{folder.address} exists with {words}: name another sweep")
            with folder.locked():
                _run(folder)
            return
        settings = sweep_of(config, set_, need_data=not dry_run, base=base)
        if base:
            console.print(f"base {base}, without set and panels of {config}", markup=False)
        if not dry_run:
            RunFolder.check_name(storage_path, name or run_name(config), numbered=name is None)
        _check(settings, dry_run)
        if dry_run:
            return
        folder = RunFolder.create(storage_path, name or run_name(config), name is None)
        with folder.locked():
            folder.write_json("versions.json", versions())
            folder.write_settings(settings.with_base().model_dump())
            _run(folder)


def _check(sweep: SweepSettings, dry_run: bool) -> None:
    """Checks every point, and this machine; for a dry run prints the plan instead."""
    from trca.cli.preflight.plan import plan
    from trca.cli.preflight.preflight import Preflight
    from trca.cli.sweep.trials import joined, point_words
    from trca.tune_configs.files import ConfigError

    checked = sweep.checked(need_data=not dry_run)
    points = [joined(words) for words in point_words([point for point, _ in checked])]
    panels = [joined(words) for words in point_words(sweep.panels)]
    for point, (_, trials) in zip(points, checked, strict=True):
        for panel, each in zip(panels, trials, strict=True):
            with Preflight(each, here=not dry_run) as preflight:
                wrong = preflight.problems()
            if wrong:
                raise ConfigError(f"{'  '.join(filter(None, (point, panel)))}: {wrong[0]}")
    if not dry_run:
        return
    settings = [each for _, trials in checked for each in trials]
    rollouts = sum(s.trajectories_per_iteration * s.iterations for s in settings)
    repeats = f"{len(sweep.seeds)} seed{'s' * (len(sweep.seeds) > 1)}"
    if len(panels) > 1:
        repeats += f" on {len(panels)} panels"
    console.print(
        f"{len(points) * sweep.repeats} trials, {_side_by_side(sweep)}:"
        f" {len(points)} points with {repeats};"
        f" {rollouts * len(sweep.seeds):,} rollouts in all{' at most' * bool(sweep.scheduler)}"
    )
    if sweep.search:
        spaces = "  ".join(f"{key}={space}" for key, space in sweep.sample.items())
        points = [f"chosen by Optuna, for {sweep.metric}: {spaces}"]
    for point in points:
        console.print(f"  {point}", markup=False)
    if sweep.scheduler:
        grace = sweep.scheduler.asha.grace_period
        console.print(f"  ASHA stops trials early by {sweep.metric}, from iteration {grace} on")
    console.print("\nThe first trial:")
    with Preflight(settings[0], here=False) as preflight:
        console.print(plan(preflight), soft_wrap=False)
        for text in preflight.lacks():
            note(text)


def _side_by_side(sweep: SweepSettings) -> str:
    if sweep.side_by_side is None:
        return "as many at a time as the resources allow"
    return f"{sweep.side_by_side} side by side"


def _run(folder: RunFolder) -> None:
    from trca.algorithms.settings.sweeps import SweepSettings
    from trca.cli.sweep.sweeping import run_sweep, shown_on
    from trca.cli.sweep.table import as_rich, draw_sweep, summarise, write_table
    from trca.cli.sweep.trials import OVER, read_trials
    from trca.runs.folder import quoted
    from trca.tune_configs.files import ConfigError

    sweep = SweepSettings.model_validate(folder.read_config())
    trials = read_trials(sweep, folder)
    first = sweep.trial(sweep.every_point()[0], sweep.seeds[0])
    first.algorithm_config().resolved_model()
    total = len(sweep.every_point()) * sweep.repeats
    left = total - sum(trial.state in OVER for trial in trials)
    todo = f"{total} trials" if left == total else f"{left} of {total} trials left"
    again = f"trca sweep --resume {quoted(folder.address)}"
    log = folder.path / "logs" / "output.log"

    def record(state: str, message: str = "") -> None:
        states = Counter(trial.state for trial in trials)
        status = {"state": state, "trials": dict(states), "pid": os.getpid(), "message": message}
        with suppress(OSError, ConfigError):  # the storage must not hide the error itself
            # Shared storage compares its copies by the iteration.
            folder.write_json("status.json", {**status, "iteration": states["finished"]})
            folder.push()

    try:
        record("running")
        with noise_to(log) as terminal, tracing_to(log), shown_on(terminal):
            terminal.print(f"[bold]{folder.address}[/]: {todo}, {_side_by_side(sweep)}")
            interrupted = bool(left) and run_sweep(sweep, folder, terminal)
    except KeyboardInterrupt:
        interrupted = True
    except Exception as error:
        record("failed", words(error))
        fail(f"{words(error)}. Log: {log}\nResume: {again}")
    trials = read_trials(sweep, folder)
    over = [trial for trial in trials if trial.state in OVER]
    if trials:
        rows = summarise(trials, sweep.repeats)
        console.print()
        write_table(rows, folder)
        console.print(as_rich(rows), soft_wrap=False)
        drawn = ", sweep.png" if draw_sweep(trials, first, folder) else ""
        console.print(f"Written to {folder.address}: sweep.md, sweep.json{drawn}", markup=False)
    if interrupted:
        record("interrupted")
        console.print(f"stopped; {len(over)} of {total} trials are done. Resume: {again}")
        raise typer.Exit(130)
    if sweep.search:
        total = len(trials)  # a search leaves out points that a run refuses
    if len(over) < total or not over:
        message = f"{total - len(over)} of {total} trials failed"
        record("failed", message)
        reasons = [f"  {t.run.name}: {t.reason}" for t in trials if t.state not in OVER]
        fail("\n".join([f"{message}:", *reasons, f"Try again: {again}"]))
    record("finished")
    console.print(f"Look at a trial: trca evaluate {quoted(over[0].run.address)}", markup=False)
