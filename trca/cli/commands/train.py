"""``trca train``: one run, from a config to a curve."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from trca.cli.show.console import console, fail, noise_to, refusing, tracing_to, use_one_thread
from trca.common.errors import words
from trca.common.registry import short_name

if TYPE_CHECKING:
    from trca.cli.preflight.preflight import Preflight
    from trca.runs.folder import RunFolder
    from trca.tune_configs.settings import RunSettings


def train(
    config: Annotated[
        str, typer.Argument(help="A config that comes with the package, or a YAML file.")
    ] = "quickstart",
    algorithm: Annotated[
        str | None, typer.Option(help="Such as TRCA or GiGPO: docs/algorithms.md lists all.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="tiny, a Hugging Face name, or a model folder.")
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            help="An environment in place of the config's: an id, module:Class or file.py:Class."
        ),
    ] = None,
    games: Annotated[
        str | None,
        typer.Option(
            help="ALFWorld: small, medium, large, small-SEED, official, or a folder or archive."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Training iterations.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the run folder. [default: the config's]")
    ] = None,
    storage_path: Annotated[
        str, typer.Option(help="Folder that holds the runs, or a URI such as s3://bucket/runs.")
    ] = "outputs",
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Resume this run from its last checkpoint."),
    ] = None,
    auto_resume: Annotated[
        bool,
        typer.Option(
            "--auto-resume",
            help="Resume the run of this name if it exists: for jobs that restart.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and all settings; run nothing.")
    ] = False,
) -> None:
    """Train a policy. The run folder holds its curve, checkpoints, metrics and rollouts.

    Start here:

    - `trca train` trains a tiny policy on two CPU cores in minutes, with no download
    - `trca train --dry-run` shows the plan and every setting, and runs nothing

    Change something; `--set` takes any setting that the dry run shows:

    - `trca train quickstart --algorithm GRPO --set lr=2e-4 --name grpo`
    - `trca train quickstart --set lr=2e-4 --set budgets.execution=1`

    Bring your own; the run keeps a copy of each file:

    - `trca train quickstart --set credit=my_rule.py:mine` for a credit rule
    - `trca train quickstart --set env_config.library=my_rubric.yaml` for a rubric library
    - `trca train quickstart --env my_env.py:MyEnv` for an environment
    - `trca train my_config.yaml` for settings

    Ctrl-C stops after the iteration under way and saves a checkpoint; a second Ctrl-C stops at
    once. Resume after a stop, a crash or a kill:

    - `trca train --resume outputs/quickstart`

    A second run without `--name` becomes `outputs/quickstart-2`.

    Keep runs where other machines reach them:

    - `trca train quickstart --storage-path s3://bucket/runs`
    """
    use_one_thread()
    from trca.cli.preflight.preflight import Preflight
    from trca.runs.folder import RunFolder, run_name
    from trca.tune_configs.files import ConfigError, absolute, assignments

    options = {
        "algorithm": algorithm,
        "model": model,
        "env": env,
        "env_config.games": games,
        "seed": seed,
        "iterations": iterations,
    }
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    with refusing(ConfigError):
        given = absolute(given) | assignments(set_ or [])
        named = name or run_name(config)
        if resume is not None:
            run = RunFolder.open(resume, storage_path)
        elif auto_resume and RunFolder.exists(named, storage_path):
            resume, run = named, RunFolder.open(named, storage_path)
            given = _longer(run, _new(config, given))
        if resume is not None:
            base, source = _resumed(run, given), f"{run.name}/config.yaml"
        else:
            if name is not None and not dry_run:
                RunFolder.check_name(storage_path, name)
            base, source = _new(config, given), run_name(config)
        with Preflight.of(base, source, here=not dry_run) as preflight:
            settings = preflight.settings
            if resume is not None:
                _check_iterations(run, settings, given)
            if dry_run:
                _show_plan(preflight)
                return
            preflight.check()
            for note in preflight.notes():
                console.print(f"[yellow]note:[/] {escape(note)}")
        if resume is None:
            run = RunFolder.create(storage_path, name or run_name(config), numbered=name is None)
        with run.locked():
            _run(_prepare(settings, run), run)


def _resumed(run: RunFolder, given: dict[str, Any]) -> dict[str, Any]:
    """The flat settings of a run that continues.

    Raises:
        ConfigError: For a sweep, and for a setting that a run cannot change.
    """
    from trca.tune_configs.files import ConfigError

    if (run.path / "trials").is_dir():
        raise ConfigError(f"{run.path} is a sweep: go on with trca sweep --resume {run.path}")
    others = sorted(set(given) - {"iterations"})
    if others:
        raise ConfigError(
            f"{', '.join(others)} with --resume: a run goes on with its own settings; only "
            "--iterations may be given, to train longer"
        )
    return {**run.read_config(), **given}


def _new(config: str, given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a new run.

    Raises:
        ConfigError: For a config that does not exist, and for a sweep.
    """
    from trca.tune_configs.files import ConfigError, assign, read
    from trca.tune_configs.settings import in_environment, switch

    base = read(config)
    if "base" in base:
        raise ConfigError(f"{config} is a sweep: start it with trca sweep {config}")
    if "algorithm" in given:
        base = switch(base, given["algorithm"])
    if "env" in given:
        base = in_environment(base, given["env"])
    return assign(base, given)


def _longer(run: RunFolder, asked: dict[str, Any]) -> dict[str, Any]:
    """The iterations of a run that exists, if a job asks for more.

    Raises:
        ConfigError: For a sweep, and if the job asks for other settings than the run has.
    """
    from trca.algorithms.base.recorder import ANY_MACHINE
    from trca.tune_configs.files import ConfigError
    from trca.tune_configs.settings import RunSettings

    has = _resumed(run, {})
    now = RunSettings.resolve(asked, "config", need_data=False).flat()
    if words := run.differing(now, ANY_MACHINE):
        raise ConfigError(f"{run.address} exists with {words}: name another run")
    more = now["iterations"] > has["iterations"]
    return {"iterations": now["iterations"]} if more else {}


def _check_iterations(run: RunFolder, settings: RunSettings, given: dict[str, Any]) -> None:
    """Refuses to continue a run that has all its iterations.

    Raises:
        ConfigError: Asks for more iterations.
    """
    from trca.tune_configs.files import ConfigError

    last, iterations = run.last_iteration(), settings.parameters.iterations
    # A run that was killed after its last checkpoint continues to its end: report and status.
    ended = run.status().get("state") == "finished" or given.get("iterations") == last
    if last > iterations or (last == iterations and ended):
        raise ConfigError(
            f"{run.address} has its {last} iterations: give more --iterations to train longer"
        )


def _prepare(settings: RunSettings, run: RunFolder) -> RunSettings:
    """Writes a run's settings; returns them with the run's copies of the user's files."""
    from trca.tune_configs.files import ConfigError
    from trca.tune_configs.settings import RunSettings

    try:
        run.write_settings(settings.flat())
        run.push()
    except OSError as error:
        raise ConfigError(f"cannot write to {run.path}: {words(error)}. Nothing is saved") from None
    if not run.own_files():
        return settings
    return RunSettings.resolve(run.read_config(), f"{run.name}/config.yaml")


def _run(settings: RunSettings, run: RunFolder) -> None:
    from trca.cli.run.start_policy import build_start
    from trca.cli.run.training import InterruptedRunError, train
    from trca.cli.show.progress import Progress
    from trca.cli.show.slow_steps import slow_steps_shown
    from trca.runs.refusals import quoted

    again = f"trca train --resume {quoted(run.address)}"
    log = run.path / "logs" / "output.log"
    try:
        console.print(
            f"[bold]{run.address}[/]: {settings.run.algorithm} on {short_name(settings.run.env)}"
        )
        build_start(settings, log)
        with (
            noise_to(log) as terminal,
            tracing_to(log),
            Progress(terminal, run.name, settings.parameters.iterations) as progress,
            slow_steps_shown(log, progress.warn),
        ):
            train(settings, run, progress)
    except (InterruptedRunError, KeyboardInterrupt):
        _note(run, "interrupted")
        console.print(f"stopped; {_saved(run)} Go on with: {again}")
        raise typer.Exit(130) from None
    except Exception as error:
        _note(run, "failed", words(error))
        fail(f"{words(error)}. Log: {log}\n{_saved(run)} Go on with: {again}")
    run.set_status("finished", settings.parameters.iterations)
    _say_what_next(run, settings)


def _saved(run: RunFolder) -> str:
    if not run.has_checkpoint():
        return "Nothing is saved yet."
    return f"Iteration {run.last_iteration()} is saved."


def _note(run: RunFolder, state: Literal["interrupted", "failed"], message: str = "") -> None:
    """Writes the status; storage that cannot take it must not hide the error itself."""
    from trca.tune_configs.files import ConfigError

    with suppress(OSError, ConfigError):
        run.set_status(state, run.last_iteration(), message)


def _say_what_next(run: RunFolder, settings: RunSettings) -> None:
    from trca.cli.show.warnings import training_warnings
    from trca.common.json_lines import read_lines
    from trca.envs.registration import lacks_rubric
    from trca.runs.failures import failure_table
    from trca.runs.refusals import quoted
    from trca.runs.reports import read_table

    console.print()
    for warning in training_warnings(run.metrics()).values():
        console.print(f"warning: {warning}", markup=False, style="yellow")
    console.print(read_table(run.path / "evaluation"), soft_wrap=False)
    if failed := read_lines(run.failures):
        console.print(failure_table(failed))
    console.print(f"Curve:       {run.path / 'curve.png'}", markup=False)
    console.print("What next:")
    address, config = run.address, quoted(run.path / "config.yaml")
    other = "GiGPO" if settings.run.algorithm == "GRPO" else "GRPO"
    commands = [
        (f"trca inspect {quoted(address)}", "the rollouts of the last iteration, step by step"),
        (f"trca view {quoted(address)}", "the rollouts in a browser"),
        (
            f"trca evaluate {quoted(f'{address}@last')} --seeds 3",
            "the last checkpoint on held-out tasks, 3 times, fresh random streams",
        ),
        (
            f"trca train {config} --algorithm {other} --name {other.lower()}",
            "another algorithm on the same tasks",
        ),
        (f"trca export {quoted(address)} --to my-policy", "a folder that from_pretrained opens"),
    ]
    if not lacks_rubric(settings.run.env, settings.run.env_config.get("library")):
        why = "what failed rollouts contain, and what looks wrong"
        commands.insert(0, (f"trca diagnose {quoted(address)}", why))
    if "tensorboard" in settings.run.tracking:
        commands.append((f"tensorboard --logdir {quoted(run.path)}", "every metric over time"))
    for command, why in commands:
        console.print(f"  [cyan]{escape(command)}[/]\n      {why}")


def _show_plan(preflight: Preflight) -> None:
    import yaml

    from trca.cli.preflight.plan import plan

    preflight.check()
    console.print(plan(preflight), soft_wrap=False)
    for note in [*preflight.notes(), *preflight.lacks()]:
        console.print(f"[yellow]note:[/] {escape(note)}")
    console.print("\n[bold]settings[/]")
    console.print(yaml.safe_dump(preflight.settings.flat(), sort_keys=False).rstrip(), markup=False)
