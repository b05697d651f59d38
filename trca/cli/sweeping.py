"""A sweep through Ray Tune: trials side by side, one table, and a way back after a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from ray import tune
from rich.console import Console

from trca.cli.run_folder import RunFolder
from trca.cli.training import init_ray
from trca.common.files import write_text
from trca.tune_configs.files import assign

if TYPE_CHECKING:
    from trca.tune_configs.sweeps import SweepSettings

MEASURES: Final = {
    "evaluation/success_rate": "success, held out",
    "success_rate": "success, training, last 5",
}
"""Columns of Tune's results that the table shows."""


class Lines(tune.Callback):
    """Prints one line for every iteration of every trial.

    Tune keeps its callbacks on disk, and a console cannot go there: the class has it.

    Attributes:
        console: Where to print.
    """

    console: ClassVar[Console]

    def __init__(self, keys: Sequence[str], iterations: int) -> None:
        """Takes which settings tell the trials apart, and how many iterations a trial has."""
        self._keys = keys
        self._iterations = iterations

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Tune's hook."""
        point = "  ".join(f"{key}={lookup(trial.config, key)}" for key in self._keys)
        self.console.print(
            f"{point}  iteration {result['training_iteration']}/{self._iterations}  "
            f"success {result.get('success_rate', float('nan')):.1%}"
        )

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tune's hook."""
        self.console.print(f"trial {trial} failed: {trial.error_file}", markup=False, style="red")


def run_sweep(sweep: SweepSettings, folder: RunFolder, console: Console) -> list[dict[str, Any]]:
    """Runs what is left of a sweep and returns one row a point of the grid.

    Args:
        sweep: The sweep.
        folder: Its folder; trials that are in it are gone on with.
        console: Where to print how it goes.
    """
    import ray

    base = sweep.trial(sweep.points()[0], sweep.seeds[0])
    run, iterations = base.run, base.parameters.iterations
    cpus = 1 + run.resources()[0]
    os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "5")
    started = not ray.is_initialized()
    if started and not os.environ.get("RAY_ADDRESS"):
        init_ray(sweep.side_by_side * cpus)
    Lines.console = console
    trials = folder.path.resolve() / "trials"
    if tune.Tuner.can_restore(str(trials)):
        tuner = tune.Tuner.restore(
            str(trials),
            run.algorithm,
            resume_unfinished=True,
            resume_errored=True,
            param_space=_space(sweep),
        )
    else:
        tuner = tune.Tuner(
            run.algorithm,
            param_space=_space(sweep),
            tune_config=tune.TuneConfig(max_concurrent_trials=sweep.side_by_side),
            run_config=tune.RunConfig(
                name="trials",
                storage_path=str(folder.path.resolve()),
                stop={"training_iteration": iterations},
                checkpoint_config=tune.CheckpointConfig(
                    checkpoint_frequency=run.checkpoint_interval,
                    checkpoint_at_end=True,
                    num_to_keep=1,
                ),
                callbacks=[Lines((*sweep.grid, "seed"), iterations)],
                verbose=0,
            ),
        )
    results = tuner.fit()
    if started:
        ray.shutdown()
    return summarise(sweep, [results[k] for k in range(len(results))])


def summarise(sweep: SweepSettings, results: Iterable[Any]) -> list[dict[str, Any]]:
    """One row a point: its settings, and mean, std and n of each measure over its seeds."""
    finished = list(results)
    rows = []
    for point in sweep.points():
        trials = [
            result
            for result in finished
            if all(lookup(result.config, key) == value for key, value in point.items())
        ]
        sound = [result for result in trials if result.error is None]
        row: dict[str, Any] = {"point": point, "n": len(sound), "failed": len(trials) - len(sound)}
        for column in MEASURES:
            values = [value for value in map(_measure(column), sound) if not np.isnan(value)]
            row[column] = {
                "mean": float(np.mean(values)) if values else None,
                "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
                "values": values,
            }
        rows.append(row)
    return rows


def write_table(rows: Sequence[Mapping[str, Any]], folder: RunFolder) -> str:
    """Writes ``sweep.md`` and ``sweep.json`` and returns the Markdown."""
    keys = list(rows[0]["point"])
    lines = [
        "| " + " | ".join([*keys, "seeds", *MEASURES.values(), "failed"]) + " |",
        "|" + "---:|" * (len(keys) + len(MEASURES) + 2),
    ]
    for row in rows:
        cells = [*(str(row["point"][key]) for key in keys), str(row["n"])]
        cells += [_cell(row[column]) for column in MEASURES]
        lines.append("| " + " | ".join([*cells, str(row["failed"])]) + " |")
    text = "\n".join(lines) + "\n"
    write_text(folder.path / "sweep.md", text)
    write_text(folder.path / "sweep.json", json.dumps(list(rows), indent=2) + "\n")
    return text


def lookup(config: Mapping[str, Any], key: str) -> Any:
    """The value of a key, which may be ``a.b``, in a trial's config.

    RLlib writes ``lambda_`` as ``lambda`` there.
    """
    value: Any = config
    for part in key.split("."):
        value = value[part] if part in value else value[part.removesuffix("_")]
    return value


def _space(sweep: SweepSettings) -> dict[str, Any]:
    """The sweep as a ``param_space`` of Ray Tune."""
    settings = sweep.trial(sweep.points()[0], sweep.seeds[0]).rllib()
    grid = {**sweep.grid, "seed": sweep.seeds}
    return assign(settings, {key: tune.grid_search(values) for key, values in grid.items()})


def _measure(column: str) -> Any:
    def measure(result: Any) -> float:
        frame = result.metrics_dataframe
        if frame is None or column not in frame:
            return float("nan")
        values = frame[column].dropna().to_numpy(dtype=float)
        last = values[-1:] if column.startswith("evaluation/") else values[-5:]
        return float(last.mean()) if len(last) else float("nan")

    return measure


def _cell(figure: Mapping[str, Any]) -> str:
    if figure["mean"] is None:
        return "-"
    spread = "" if figure["std"] is None else f" ± {figure['std']:.1%}"
    return f"{figure['mean']:.1%}{spread}"
