"""`SweepTrial`: Ray Tune's trainable for a trial of a sweep.

A `tune.Tuner` has one trainable, and the points of a sweep may name different algorithms. The
trainable runs the loop of ``trca train`` (`trca.cli.run.training.iterations`), one iteration per
step. The trial's directory is a run folder. After a kill of the sweep or the loss of a node the
trial continues from the last checkpoint in the folder.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ray import get_runtime_context
from ray.air.constants import TRAINING_ITERATION
from ray.tune import PlacementGroupFactory, Trainable
from ray.tune.result import DONE

from trca.algorithms.settings.sweeps import SweepSettings
from trca.cli.run.training import iterations
from trca.cli.sweep.table import measure
from trca.common.errors import words
from trca.runs.folder import RunFolder

if TYPE_CHECKING:
    from trca.algorithms.settings.parameters import TextParameters

METRIC: Final = "sweep_metric"
"""The sweep's metric in a result; NaN before it is measured."""
ITERATIONS: Final = "iterations"
"""The last iteration of the trial."""
TRAJECTORIES: Final = "trajectories"
NODE: Final = "node"
"""The id of the node that runs the trial."""
ERROR: Final = "error_words"
"""The error that ended the trial."""


def result_of(rows: list[dict[str, Any]], metric: str, last: int) -> dict[str, Any]:
    """The result of the last of some iterations, from their metrics, for the metric of the sweep.

    ``last`` is the last iteration of the trial.
    """
    iteration = int(rows[-1]["iteration"])
    return {
        **rows[-1],
        TRAINING_ITERATION: iteration,
        METRIC: measure(rows, metric),
        ITERATIONS: last,
        DONE: iteration >= last,
    }


class SweepTrial(Trainable):
    """One point with one seed on one panel.

    An error of the algorithm ends the trial, and its last result has the error. After an exception
    Tune would start the trial again (``max_failures``): right for a lost node, useless for an error
    that comes back.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory:
        """The resources of the algorithm's processes."""
        from trca.algorithms import ALGORITHMS

        settings = _settings(config)
        algorithm: Any = ALGORITHMS[settings.algorithm]
        request: PlacementGroupFactory = algorithm.default_resource_request(
            settings.algorithm_config()
        )
        driver, *others = request.bundles
        gpus = max(driver.get("GPU", 0), *settings.driver_gpus().values())
        return PlacementGroupFactory([{**driver, "GPU": gpus}, *others], strategy=request.strategy)

    def setup(self, config: dict[str, Any]) -> None:
        """Opens the run folder; the first step builds the algorithm."""
        self._every: Generator[list[dict[str, Any]]] | None = None
        self._rows: list[dict[str, Any]] = []
        self._last = 0
        assert self._storage is not None
        self._run = RunFolder.of_trial(self._storage)
        about = {key: config["trial"][key] for key in ("point", "panel", "seed")}
        self._run.write_json("trial.json", {**about, "sweep": config["name"]})
        self._run.push()

    def step(self) -> dict[str, Any]:
        """Trains an iteration, the first after the last checkpoint of the trial."""
        from trca.algorithms.learner.group import LearnersLostError

        try:
            if self._every is None:
                settings = _settings(self.config)
                self._last = settings.iterations
                # Tune writes TensorBoard's events.
                trackers = [name for name in settings.tracking if name != "tensorboard"]
                config = settings.algorithm_config().reporting(tracking=trackers)
                self._every = iterations(config, self._storage)
                self._rows = next(self._every)
            self._rows = next(self._every, self._rows)
        except LearnersLostError:
            raise  # Tune starts the trial again, on the nodes that are left
        except Exception as error:
            return {
                METRIC: math.nan,
                ITERATIONS: self._last,
                ERROR: self._failed(error),
                DONE: True,
            }
        node = get_runtime_context().get_node_id()
        return {**result_of(self._rows, self.config["sweep"]["metric"], self._last), NODE: node}

    def cleanup(self) -> None:
        """Saves the last iteration and stops the algorithm's processes."""
        if self._every is not None:
            self._every.close()

    def _failed(self, error: Exception) -> str:
        from trca.cli.show.console import tracing_to

        with suppress(Exception), tracing_to(self._run.path / "logs" / "output.log"):
            raise error
        self._run.set_status("failed", self._run.last_iteration(), words(error))
        return words(error)


def _settings(config: Mapping[str, Any]) -> TextParameters:
    """The settings of a trial's run."""
    trial = config["trial"]
    return SweepSettings(**config["sweep"]).trial(
        {**trial["panel"], **trial["point"]}, trial["seed"]
    )
