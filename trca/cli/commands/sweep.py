"""``trca sweep``: points of settings with seeds and panels, a run for every trial."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.markup import escape

from trca.cli.show.console import console, fail, noise_to, refusing, tracing_to, use_one_thread
from trca.common.errors import words

if TYPE_CHECKING:
    from trca.cli.sweep.trials import Trial
    from trca.runs.folder import RunFolder
    from trca.tune_configs.sweeps import SweepSettings

_CONFIG: Final = "sweeps/lambda"


def sweep(
    config: Annotated[
        str, typer.Argument(help="A sweep that comes with the package, or a YAML file.")
    ] = _CONFIG,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting that is not swept."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the sweep's folder. [default: the config's]")
    ] = None,
    storage_path: Annotated[str, typer.Option(help="Folder that holds the runs.")] = "outputs",
    resume: Annotated[
        str | None,
        typer.Option(metavar="SWEEP", help="Resume this sweep after a stop or a kill."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the trials and what they need; run nothing.")
    ] = False,
) -> None:
    """Run points of settings, with every seed on every panel; one table and one picture.

    Every trial is a run with a folder of its own, evaluated at its end. One that fails is counted
    and the others go on; Ctrl-C stops all after their iteration.

    - `trca sweep sweeps/lambda --dry-run`
    - `trca sweep sweeps/lambda --set iterations=25`
    - `trca sweep --resume outputs/lambda` resumes after a stop, a crash or a kill
    - `trca evaluate outputs/lambda/trials/001_lambda-0.2_seed-0` takes a trial like any run

    A sweep is a YAML file; `algorithm` may be swept too, and `sample` draws by Ray Tune's
    distributions:

        base: quickstart
        set: {iterations: 12}
        grid: {algorithm: [TRCA, GRPO]}
        sample: {lr: {loguniform: [1e-4, 1e-3]}}
        samples: 8
        seeds: [0, 1]
        panels: [{env_config.games: small-31}, {env_config.games: small-32}]
        side_by_side: 2

    With `search: optuna` Optuna chooses the `samples` points, and no grid is given; with
    `scheduler: asha` trials that are behind are stopped early. Both read `metric`. docs/sweeps.md
    has every key.
    """
    use_one_thread()
    from trca.cli.sweep.trials import begin
    from trca.runs.folder import RunFolder, is_uri, run_name
    from trca.tune_configs.files import ConfigError, assignments, read
    from trca.tune_configs.sweeps import SweepSettings

    with refusing(ConfigError, OSError):
        if is_uri(storage_path):
            raise ConfigError(
                f"--storage-path is {storage_path}: a sweep's trials lie in a folder that all"
                " nodes see, such as /shared/runs; a single run takes a URI"
            )
        if resume is not None:
            folder = RunFolder.open(resume, storage_path)
            options = {
                config: config != _CONFIG,
                "--set": set_,
                "--name": name,
                "--dry-run": dry_run,
            }
            if others := ", ".join(option for option, value in options.items() if value):
                raise ConfigError(f"{others} with --resume: a sweep goes on with its own settings")
            if "seeds" not in folder.read_config():
                raise ConfigError(
                    f"{folder.path} is no sweep: go on with a run by trca train --resume"
                )
            with folder.locked():
                _run(folder)
            return
        data = read(config)
        if isinstance(given := data.get("set") or {}, dict):
            data["set"] = given | assignments(set_ or [])
        settings = SweepSettings.resolve(data, run_name(config), need_data=not dry_run)
        _check(settings, dry_run)
        if dry_run:
            return
        folder = RunFolder.create(storage_path, name or run_name(config), name is None)
        with folder.locked():
            begin(settings, folder)
            _run(folder)


def _check(sweep: SweepSettings, dry_run: bool) -> None:
    """Checks every point; a dry run shows the plan in place of asking for what is missing here.

    Raises:
        ConfigError: Names the first point with a problem, and the problem.
    """
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
    rollouts = sum(s.trajectories_per_iteration * s.parameters.iterations for s in settings)
    most = " at most" if sweep.scheduler else ""
    console.print(
        f"{len(points) * sweep.repeats} trials, {sweep.side_by_side} side by side:"
        f" {len(points)} points with {_repeats(sweep)};"
        f" {rollouts * len(sweep.seeds):,} rollouts in all{most}"
    )
    if sweep.search:
        spaces = "  ".join(f"{key}={space}" for key, space in sweep.sample.items())
        points = [f"chosen by Optuna, for {sweep.metric}: {spaces}"]
    for point in points:
        console.print(f"  {point}", markup=False)
    if sweep.scheduler:
        grace = sweep.scheduler.asha.grace_period
        console.print(f"  ASHA stops trials early by {sweep.metric}, from iteration {grace} on")
    console.print("\nThe first trial alone:")
    with Preflight(settings[0], here=False) as preflight:
        console.print(plan(preflight), soft_wrap=False)
        for note in preflight.lacks():
            console.print(f"[yellow]note:[/] {escape(note)}")


def _repeats(sweep: SweepSettings) -> str:
    """What every point is run with, in words."""
    seeds, panels = len(sweep.seeds), len(sweep.panels)
    words = f"{seeds} seed{'s' * (seeds > 1)}"
    return f"{words} on {panels} panels" if panels > 1 else words


def _run(folder: RunFolder) -> None:
    from trca.cli.sweep.sweeping import Tuning, run_sweep
    from trca.cli.sweep.table import as_rich, draw_sweep, summarise, write_table
    from trca.cli.sweep.trials import OVER, read_trials
    from trca.runs.folder import quoted
    from trca.tune_configs.settings import RunSettings
    from trca.tune_configs.sweeps import SweepSettings

    sweep = SweepSettings.model_validate(folder.read_config())
    tuning = Tuning(sweep, folder)
    tuning.more([])
    trials = read_trials(folder)
    settings = RunSettings.resolve(trials[0].run.read_config(), "trial")
    settings.algorithm_config().resolved_model()
    total = sweep.samples * sweep.repeats if sweep.search else len(trials)
    left = total - sum(trial.state in OVER for trial in trials)
    todo = f"{total} trials" if left == total else f"{left} of {total} trials"
    again = f"trca sweep --resume {quoted(folder.path)}"
    log = folder.path / "logs" / "output.log"
    try:
        _note(folder, trials, "running")
        console.print(f"[bold]{folder.path}[/]: {todo}, {sweep.side_by_side} side by side")
        with noise_to(log) as terminal, tracing_to(log):
            interrupted = run_sweep(sweep, trials, tuning, terminal)
    except KeyboardInterrupt:
        interrupted = True
    except Exception as error:
        _note(folder, trials, "failed", words(error))
        fail(f"{words(error)}. Log: {log}\nGo on with: {again}")
    trials = read_trials(folder)
    rows = summarise(trials, sweep.repeats)
    over = sum(trial.state in OVER for trial in trials)
    console.print()
    write_table(rows, folder)
    console.print(as_rich(rows), soft_wrap=False)
    drawn = ", sweep.png" if draw_sweep(trials, folder) else ""
    console.print(f"Written to {folder.path}: sweep.md, sweep.json{drawn}", markup=False)
    if interrupted:
        _note(folder, trials, "interrupted")
        console.print(f"stopped; {over} of {total} trials are done. Go on with: {again}")
        raise typer.Exit(130)
    if over < total:
        message = f"{total - over} of {total} trials failed"
        _note(folder, trials, "failed", message)
        fail(f"{message}. Try them again: {again}")
    _note(folder, trials, "finished")
    console.print(f"Look at a trial: trca evaluate {quoted(trials[0].run.path)}", markup=False)


def _note(folder: RunFolder, trials: list[Trial], state: str, message: str = "") -> None:
    states = Counter(trial.state for trial in trials)
    with suppress(OSError):
        folder.write_json(
            "status.json",
            {"state": state, "trials": dict(states), "pid": os.getpid(), "message": message},
        )
