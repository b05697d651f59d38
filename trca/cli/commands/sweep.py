"""``trca sweep``: a grid of settings and seeds through Ray Tune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trca.cli.console import console, noise_to, refusing, use_one_thread


def sweep(
    config: Annotated[
        str, typer.Argument(help="A sweep that comes with the package, or a YAML file.")
    ] = "sweeps/lambda",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, for every trial."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the sweep's folder. [default: the config's]")
    ] = None,
    storage_path: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path(
        "outputs"
    ),
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with this sweep after a stop or a kill."),
    ] = None,
) -> None:
    """Run every point of a grid with every seed; one table of means and deviations over seeds.

    - `trca sweep sweeps/lambda`
    - `trca sweep sweeps/lambda --set iterations=25`
    - `trca sweep --resume outputs/lambda` goes on after a stop, a crash or a kill
    """
    use_one_thread()
    from trca.cli.provenance import versions
    from trca.cli.run_folder import RunFolder
    from trca.tune_configs.files import ConfigError, assignments, read
    from trca.tune_configs.sweeps import SweepSettings

    with refusing(ConfigError):
        if resume is not None:
            folder = RunFolder.open(resume, storage_path)
            settings = SweepSettings.resolve(folder.read_config(), f"{folder.name}/config.yaml")
        else:
            data = read(config)
            data["set"] = {**data.get("set", {}), **assignments(set_ or [])}
            settings = SweepSettings.resolve(data, Path(config).stem)
            folder = RunFolder.create(storage_path, name or Path(config).stem, name is None)
    folder.write_config(settings.model_dump())
    folder.write_json("versions.json", versions())
    first = settings.trial(settings.points()[0], settings.seeds[0])
    first.algorithm_config().resolved_model()

    from trca.cli.sweeping import run_sweep, write_table

    trials = len(settings.points()) * len(settings.seeds)
    console.print(f"[bold]{folder.path}[/]: {trials} trials, {settings.side_by_side} side by side")
    folder.set_status("running", 0)
    with noise_to(folder.path / "logs" / "output.log") as terminal:
        rows = run_sweep(settings, folder, terminal)
    failed = sum(row["failed"] for row in rows)
    folder.set_status("failed" if failed else "finished", first.parameters.iterations)
    console.print()
    console.print(write_table(rows, folder), markup=False)
    console.print(f"Written to {folder.path}/sweep.md and sweep.json")
    if failed:
        console.print(f"{failed} trials failed. Try them again: trca sweep --resume {folder.path}")
        raise typer.Exit(1)
