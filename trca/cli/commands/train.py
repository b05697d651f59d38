"""``trca train``: one run, from a config to a curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trca.cli.console import console, fail, noise_to, refusing, use_one_thread

if TYPE_CHECKING:
    from trca.cli.run_folder import RunFolder
    from trca.tune_configs.settings import RunSettings


def train(
    config: Annotated[
        str, typer.Argument(help="A config that comes with the package, or a YAML file.")
    ] = "quickstart",
    algorithm: Annotated[str | None, typer.Option(help="TRCA, GRPO or GiGPO.")] = None,
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
        str | None, typer.Option(help="small, medium, large, official, or a folder or archive.")
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
    storage_path: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path(
        "outputs"
    ),
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with this run from its last checkpoint."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would run and what it needs; run nothing.")
    ] = False,
) -> None:
    """Train a policy; the run folder then holds its curve, checkpoints, metrics and rollouts.

    - `trca train` is the quickstart: a tiny policy, two CPU cores, minutes
    - `trca train quickstart --algorithm GRPO --seed 1`
    - `trca train quickstart --set lr=2e-4 --set budgets.execution=1`
    - `trca train quickstart --set credit=my_rule.py:mine` tries a credit rule of your own
    - `trca train quickstart --env my_env.py:MyEnv` trains in an environment of your own
    - `trca train paper/alfworld_qwen2.5_1.5b --dry-run`
    - `trca train --resume outputs/quickstart` goes on after a stop, a crash or a kill
    """
    use_one_thread()
    from trca.cli.run_folder import RunFolder
    from trca.tune_configs.files import ConfigError, assign, assignments, read
    from trca.tune_configs.settings import RunSettings, in_environment, switch

    options = {
        "algorithm": algorithm,
        "model": model,
        "env_config.games": games,
        "seed": seed,
        "iterations": iterations,
    }
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    with refusing(ConfigError):
        given |= assignments(set_ or [])
        if resume is not None:
            run = RunFolder.open(resume, storage_path)
            settings = _resumed(run, given)
        else:
            source = Path(config).stem
            base = read(config)
            if "algorithm" in given:
                base = switch(base, given["algorithm"])
            if env is not None:
                base = in_environment(base, env)
            settings = RunSettings.resolve(assign(base, given), source)
        if dry_run:
            _show_plan(settings)
            return
        if resume is None:
            run = RunFolder.create(storage_path, name or source, numbered=name is None)
    _run(settings, run)


def _resumed(run: RunFolder, given: dict[str, Any]) -> RunSettings:
    from trca.tune_configs.files import ConfigError
    from trca.tune_configs.settings import RunSettings

    others = sorted(set(given) - {"iterations"})
    if others:
        raise ConfigError(
            f"{', '.join(others)} with --resume: a run goes on with its own settings; only "
            "--iterations may be given, to train longer"
        )
    settings = RunSettings.resolve({**run.read_config(), **given}, f"{run.name}/config.yaml")
    if run.last_iteration() >= settings.parameters.iterations:
        raise ConfigError(
            f"{run.path} is through, after {run.last_iteration()} iterations: give more "
            "--iterations to train longer"
        )
    return settings


def _run(settings: RunSettings, run: RunFolder) -> None:
    from trca.cli.progress import Progress
    from trca.cli.provenance import panel_record, panels, versions
    from trca.cli.training import InterruptedRunError, train

    run.write_config(settings.flat())
    run.write_json("versions.json", versions())
    run.write_json("panels.json", {k: panel_record(p) for k, p in panels(settings).items()})
    console.print(f"[bold]{run.path}[/]: {settings.run.algorithm} on {settings.run.env}")
    settings.algorithm_config().resolved_model()
    again = f"trca train --resume {run.path}"
    try:
        with (
            noise_to(run.path / "logs" / "output.log") as terminal,
            Progress(terminal, run.name, settings.parameters.iterations) as progress,
        ):
            train(settings, run, progress)
    except (InterruptedRunError, KeyboardInterrupt):
        run.set_status("interrupted", run.last_iteration())
        console.print(f"stopped; iteration {run.last_iteration()} is saved. Go on with: {again}")
        raise typer.Exit(130) from None
    except OSError as error:
        _failed(run, error)
        fail(f"{error}. Iteration {run.last_iteration()} is saved; go on with: {again}")
    except Exception as error:
        _failed(run, error)
        raise
    run.set_status("finished", settings.parameters.iterations)
    _say_what_next(run)


def _failed(run: RunFolder, error: Exception) -> None:
    """Notes the failure; a disk that is too full for the note must not hide the error itself."""
    from contextlib import suppress

    with suppress(OSError):
        run.set_status("failed", run.last_iteration(), f"{type(error).__name__}: {error}")


def _say_what_next(run: RunFolder) -> None:
    from trca.cli.reports import read_table

    console.print()
    console.print(read_table(run.path / "evaluation"), soft_wrap=False)
    console.print(f"Curve:       {run.path / 'curve.png'}")
    console.print("What next:")
    for command, why in (
        (f"trca evaluate {run.path}@best --seeds 3", "the held-out panel again, three times"),
        (f"trca train {run.path}/config.yaml --algorithm GRPO", "another algorithm, same tasks"),
        (f"trca export {run.path} --to my-policy", "a folder that from_pretrained opens"),
        (f"tensorboard --logdir {run.path}", "every metric over time"),
    ):
        console.print(f"  [cyan]{command}[/]  {why}")


def _show_plan(settings: RunSettings) -> None:
    import yaml

    from trca.cli.plan import plan

    console.print(yaml.safe_dump(settings.flat(), sort_keys=False).rstrip(), markup=False)
    console.print()
    console.print(plan(settings), soft_wrap=False)
