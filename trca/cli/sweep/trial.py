"""`SweepTrial`: Ray Tune's trainable for a trial of a sweep.

A `tune.Tuner` has one trainable, and the points of a sweep may name different algorithms. The
trainable builds the algorithm that its config names. The trial's directory is a run folder, written
by the recorder (`trca.algorithms.base.recorder`).

A trial reports the rows of ``metrics.jsonl``. After a kill of the sweep or the loss of a node the
trial first reports the recorded rows, and then trains.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ray import get_runtime_context
from ray.air.constants import TRAINING_ITERATION
from ray.tune import PlacementGroupFactory, Trainable
from ray.tune.result import DONE

from trca.cli.sweep.table import measure
from trca.common.errors import words
from trca.runs.folder import RunFolder
from trca.runs.names import STOPPED
from trca.tune_configs.files import ConfigError
from trca.tune_configs.sweeps import SweepSettings

if TYPE_CHECKING:
    from trca.algorithms.base.text_algorithm import TextAlgorithm
    from trca.tune_configs.settings import RunSettings

logger = logging.getLogger(__name__)

METRIC: Final = "sweep_metric"
"""The sweep's metric in a result; NaN before it is measured."""
ITERATIONS: Final = "iterations"
"""The last iteration of the trial."""
TRAJECTORIES: Final = "trajectories"
RECORDED: Final = "recorded"
"""Whether an iteration was recorded before the trial was started or continued."""
NODE: Final = "node"
"""The id of the node that runs the trial."""
ERROR: Final = "error_words"
"""The error that ended the trial."""


def failed(result: Mapping[str, Any]) -> bool:
    """Whether a result comes from a trial that failed."""
    return not result or ERROR in result


def whole(result: Mapping[str, Any]) -> bool:
    """Whether a result comes from the last iteration."""
    return bool(result[TRAINING_ITERATION] >= result[ITERATIONS])


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
        algorithm: Any = ALGORITHMS[settings.run.algorithm]
        request: PlacementGroupFactory = algorithm.default_resource_request(settings.rllib())
        driver, *others = request.bundles
        gpus = max(driver.get("GPU", 0), *settings.run.driver_gpus().values())
        return PlacementGroupFactory([{**driver, "GPU": gpus}, *others], strategy=request.strategy)

    def setup(self, config: dict[str, Any]) -> None:
        """Builds the algorithm, unless the trial has ended before."""
        self._algorithm: TextAlgorithm | None = None
        self._error = ""
        self._reported = self._iterations = 0
        self._rows: list[dict[str, Any]] = []
        self._metric = config["sweep"]["metric"]
        assert self._storage is not None
        self._run = RunFolder.of_trial(self._storage)
        about = {key: config["trial"][key] for key in ("point", "panel", "seed")}
        self._run.write_json("trial.json", {**about, "sweep": config["name"]})
        self._run.push()
        try:
            settings = _settings(config)
            self._iterations = settings.parameters.iterations
            if self._has_ended():
                self._rows = self._run.metrics()
            else:
                self._build(settings)
        except Exception as error:
            self._fail(error)
        self._recorded = len(self._rows)

    def step(self) -> dict[str, Any]:
        """Reports the next recorded iteration, or trains one."""
        if self._algorithm and self._reported == len(self._rows):
            from trca.algorithms.learner.group import LearnersLostError

            try:
                self._algorithm.train()
            except LearnersLostError:
                raise  # Tune starts the trial again, on the nodes that are left
            except Exception as error:
                self._fail(error)
        if self._error:
            return {METRIC: math.nan, ITERATIONS: self._iterations, ERROR: self._error, DONE: True}
        self._reported += 1
        return self._result(self._reported)

    def cleanup(self) -> None:
        """Saves the last iteration and stops the algorithm's processes."""
        if self._algorithm:
            if not self._error:
                self._algorithm.recorder.save(self._algorithm)
            self._algorithm.stop()  # type: ignore[no-untyped-call]

    def _build(self, settings: RunSettings) -> None:
        from trca.algorithms import ALGORITHMS

        trackers = [name for name in settings.run.tracking if name != "tensorboard"]
        config = settings.algorithm_config().reporting(tracking=trackers)  # Tune writes its events
        algorithm = ALGORITHMS[settings.run.algorithm]
        recorded = self._run.read_config() if self._run.has("config.yaml") else {}
        self._algorithm = algorithm(config=config, storage=self._storage)
        self._rows = self._algorithm.recorder.rows
        if self._rows and self._rows[-1]["iteration"] > self._algorithm.iteration:
            self._run.write_settings(recorded)
            raise ConfigError(
                f"{self._run.path} holds a trial with other settings: move this folder away to run"
                " the trial again"
            )

    def _fail(self, error: Exception) -> None:
        from trca.cli.show.console import tracing_to

        with suppress(Exception), tracing_to(self._run.path / "logs" / "output.log"):
            raise error
        self._error = words(error)
        self._run.set_status("failed", self._run.last_iteration(), self._error)

    def _has_ended(self) -> bool:
        """Whether the last iteration is recorded, or the sweep stopped the trial early."""
        return self._run.status().get("state") == "finished" or self._run.has(STOPPED)

    def _result(self, count: int) -> dict[str, Any]:
        """The result of the iteration with this number of rows."""
        rows = self._rows[:count]
        return {
            **rows[-1],
            TRAINING_ITERATION: int(rows[-1]["iteration"]),
            METRIC: measure(rows, self._metric),
            ITERATIONS: self._iterations,
            RECORDED: count <= self._recorded,
            NODE: get_runtime_context().get_node_id(),
            DONE: count == len(self._rows) and self._has_ended(),
        }


def _settings(config: Mapping[str, Any]) -> RunSettings:
    """The settings of a trial's run."""
    trial = config["trial"]
    return SweepSettings(**config["sweep"]).trial(
        {**trial["panel"], **trial["point"]}, trial["seed"]
    )
