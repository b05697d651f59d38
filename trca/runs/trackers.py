"""Experiment trackers of one run: TensorBoard, MLflow, Weights & Biases, trackio.

Ray's integrations (`ray.air.integrations`) set up MLflow and Weights & Biases. trackio has W&B's
API. Addresses and credentials come from the trackers' environment variables.

Ray Tune's callbacks (`MLflowLoggerCallback`, `WandbLoggerCallback`, `TBXLoggerCallback`) suffice
for the metrics of a `tune.Tuner`. This module serves runs without Tune (``trca train``) and does
three things that the callbacks of Ray 2.60 cannot do:

- log samples of rollouts: a callback receives only the numbers of an iteration;
- continue in the same tracker run: `MLflowLoggerCallback` keeps the run ids in memory and starts a
  new run after ``Tuner.restore``, and `WandbLoggerCallback` starts with ``resume=False``;
- skip the iterations since the last checkpoint, which a resumed run repeats.
"""

from __future__ import annotations

import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from filelock import FileLock

from trca.common.cache import cache_folder
from trca.common.extras import missing_extra
from trca.runs.rollout_samples import COLUMNS, as_markdown

if TYPE_CHECKING:
    from trca.runs.folder import RunFolder
    from trca.tune_configs.run_parameters import RunParameters

_PARAM: Final = 500
"""Longest value of a setting, in characters, that every MLflow server accepts."""
_PARAMS: Final = 100
"""Largest number of settings per request that every MLflow server accepts."""
_REFUSED: Final = re.compile(r"[^\w\-./: ]")
"""Characters that MLflow refuses in names."""


@dataclass(frozen=True)
class TrackedRun:
    """The description of a run for trackers.

    Attributes:
        folder: Folder of the run.
        name: Name of the run.
        group: Name of the sweep; blank for a run that is not a trial.
        project: Project of the trackers.
        settings: All settings by name.
        first: Last iteration before the run continues; 0 for a new run.
    """

    folder: Path
    name: str
    group: str
    project: str
    settings: dict[str, Any]
    first: int

    @classmethod
    def of(cls, run: RunFolder, settings: RunParameters, first: int) -> TrackedRun:
        """Returns the description of a run folder."""
        group = (run.read_json("trial.json") or {}).get("sweep", "")
        project = settings.tracking_project
        return cls(run.path, run.name, group, project, settings.flat(), first)


class Tracker(ABC):
    """A tracker of one run.

    Attributes:
        package: Required package. The extra of ``trca`` has the tracker's name.
        key: Id of the tracker's run, used to resume the run.
    """

    package: ClassVar[str]
    key: str

    @abstractmethod
    def __init__(self, run: TrackedRun, key: str) -> None:
        """Starts or resumes the tracker's run.

        Args:
            run: The run.
            key: Id of the tracker's run to resume; blank for a new run.
        """

    @abstractmethod
    def log(self, row: Mapping[str, float], iteration: int) -> None:
        """Logs the metrics of an iteration."""

    @abstractmethod
    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs samples of rollouts: mappings with the keys `COLUMNS`."""

    @abstractmethod
    def close(self, ended: bool) -> None:
        """Closes the tracker's run.

        Args:
            ended: Whether the run is complete.
        """


class TensorBoard(Tracker):
    """Event files in ``tensorboard/`` of the run folder."""

    package = "tensorboard"

    def __init__(self, run: TrackedRun, key: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.key = ""
        self._board = SummaryWriter(str(run.folder / "tensorboard"), purge_step=run.first + 1)

    def log(self, row: Mapping[str, float], iteration: int) -> None:
        """Writes the metrics as scalars."""
        for name, value in row.items():
            self._board.add_scalar(name, value, iteration)
        self._board.flush()

    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Writes the samples as a text."""
        self._board.add_text("rollouts", as_markdown(samples), iteration)

    def close(self, ended: bool) -> None:
        """Closes the run."""
        self._board.close()


class MLflow(Tracker):
    """MLflow: ``MLFLOW_TRACKING_URI`` names the server or database."""

    package = "mlflow"

    def __init__(self, run: TrackedRun, key: str) -> None:
        import mlflow
        from ray.air.integrations.mlflow import setup_mlflow

        place = urlsplit(os.environ.get("MLFLOW_TRACKING_URI", ""))
        if place.password and place.scheme in ("http", "https"):
            raise ValueError(
                "MLFLOW_TRACKING_URI contains a password, which error messages would show: use"
                " MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead"
            )
        cache_folder().mkdir(parents=True, exist_ok=True)
        with FileLock(cache_folder() / "mlflow.lock"):  # several trials may create the database
            if key:
                mlflow.start_run(run_id=key)  # Ray's integration uses the active run
            self._mlflow: Any = setup_mlflow(
                experiment_name=run.project,
                run_name=run.name,
                tags={"sweep": run.group} if run.group else None,
                create_experiment_if_not_exists=True,
                rank_zero_only=False,
            )
        self.key = str(self._mlflow.active_run().info.run_id)
        if not key:
            params = [(name, str(value)[:_PARAM]) for name, value in run.settings.items()]
            for start in range(0, len(params), _PARAMS):
                self._mlflow.log_params(dict(params[start : start + _PARAMS]))

    def log(self, row: Mapping[str, float], iteration: int) -> None:
        """Logs metrics. An underscore replaces each character that MLflow refuses in names."""
        metrics = {_REFUSED.sub("_", name): value for name, value in row.items()}
        self._mlflow.log_metrics(metrics, step=iteration)

    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs the samples as a Markdown artifact."""
        self._mlflow.log_text(as_markdown(samples), f"rollouts/iteration_{iteration:06d}.md")

    def close(self, ended: bool) -> None:
        """Closes the run."""
        self._mlflow.end_run("FINISHED" if ended else "KILLED")


class WandB(Tracker):
    """Weights & Biases: ``WANDB_API_KEY``, or ``WANDB_MODE=offline`` for a local folder."""

    package = "wandb"

    def __init__(self, run: TrackedRun, key: str) -> None:
        import wandb
        from ray.air.integrations.wandb import setup_wandb

        self._wandb: Any = wandb
        self.key = key or uuid.uuid4().hex[:12]
        self._run: Any = setup_wandb(
            run.settings,
            rank_zero_only=False,
            project=run.project,
            trial_id=self.key,
            trial_name=run.name,
            group=run.group or None,
            resume="allow",
            reinit="finish_previous",
            settings=wandb.Settings(console="off"),
        )

    def log(self, row: Mapping[str, float], iteration: int) -> None:
        """Logs metrics."""
        self._run.log(dict(row), step=iteration)

    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs the samples as a table."""
        cells = [list(sample.values()) for sample in samples]
        table = self._wandb.Table(columns=list(COLUMNS), data=cells)
        self._run.log({"rollouts": table}, step=iteration)

    def close(self, ended: bool) -> None:
        """Closes the run."""
        self._run.finish(exit_code=0 if ended else 1)


class Trackio(Tracker):
    """trackio: ``TRACKIO_DIR`` is the local folder, ``TRACKIO_SPACE_ID`` a Space."""

    package = "trackio"

    def __init__(self, run: TrackedRun, key: str) -> None:
        import trackio

        self._trackio: Any = trackio
        self.key = key or f"{run.name}-{uuid.uuid4().hex[:6]}"  # trackio resumes a run by name
        self._run: Any = trackio.init(
            run.project,
            name=self.key,
            group=run.group or None,
            config=run.settings,
            resume="allow",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )

    def log(self, row: Mapping[str, float], iteration: int) -> None:
        """Logs metrics."""
        self._run.log(dict(row), step=iteration)

    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs the samples as a table."""
        table = self._trackio.Table(data=[dict(sample) for sample in samples])
        self._run.log({"rollouts": table}, step=iteration)

    def close(self, ended: bool) -> None:
        """Closes the run."""
        self._run.finish()


TRACKERS: Final[dict[str, type[Tracker]]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
    "trackio": Trackio,
}


def missing_trackers(names: Sequence[str]) -> list[str]:
    """Returns one line per tracker with a missing package: how to install the package."""
    lines = [missing_extra(TRACKERS[n].package, f"tracking: {n}", n) for n in names]
    return [line for line in lines if line]
