"""Experiment trackers: where metrics and samples of rollouts go, beside the run folder.

TensorBoard's event files lie in the run folder. MLflow and Weights & Biases are set up by Ray's
integrations (`ray.air.integrations`), trackio by its own API, which is W&B's. Where they log to and
their credentials are for their own environment variables to say: the run folder keeps the id of
the tracker's run alone, in ``tracking.json``, and a resumed run goes on with it.
"""

from __future__ import annotations

import logging
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol
from urllib.parse import urlsplit

from filelock import FileLock

from trca.common.cache import cache_folder
from trca.common.extras import missing_extra
from trca.common.short_line import short_line

if TYPE_CHECKING:
    from trca.records import Rollout
    from trca.runs.folder import RunFolder

logger = logging.getLogger(__name__)

RECORD: Final = "tracking.json"
_SAMPLES: Final = 2
"""Rollouts of a sample that won, and as many that did not."""
_LONGEST: Final = 10_000
"""Characters of a rollout's text."""
_PARAM: Final = 500
_PARAMS: Final = 100
"""Characters of a setting, and settings at a time, that every MLflow server takes."""
_REFUSED: Final = re.compile(r"[^\w\-./: ]")
"""What MLflow has in no name."""
_COLUMNS: Final = ("iteration", "task", "won", "score", "steps", "text")


class Settings(Protocol):
    """The settings of a run; `trca.tune_configs.settings.RunSettings` is one."""

    @property
    def run(self) -> Any:
        """The settings of tracking."""

    @property
    def parameters(self) -> Any:
        """The hyperparameters."""

    def flat(self) -> dict[str, Any]:
        """Returns all settings by name."""


@dataclass(frozen=True)
class TrackedRun:
    """A run, as trackers are told of it.

    Attributes:
        folder: Its folder.
        name: Its name.
        group: The sweep it belongs to; blank where it is no trial.
        project: The trackers' project.
        settings: Its settings, flat.
        first: The iteration it goes on after; 0 for a new run.
    """

    folder: Path
    name: str
    group: str
    project: str
    settings: dict[str, Any]
    first: int

    @classmethod
    def of(cls, run: RunFolder, settings: Settings, first: int) -> TrackedRun:
        """A run folder's."""
        group = (run.read_json("trial.json") or {}).get("sweep", "")
        project = settings.run.tracking_project
        return cls(run.path, run.name, group, project, settings.flat(), first)


class Tracker(ABC):
    """One tracker of one run.

    Attributes:
        package: What it needs to be installed; the extra of ``trca`` has the tracker's name.
        key: What it finds its run by when the run is resumed.
    """

    package: ClassVar[str]
    key: str

    @abstractmethod
    def __init__(self, run: TrackedRun, key: str) -> None:
        """Starts or resumes the tracker's run.

        Args:
            run: The run.
            key: The key it had before; blank for a new one.
        """

    @abstractmethod
    def log(self, row: Mapping[str, float], iteration: int) -> None:
        """Takes the metrics of an iteration."""

    @abstractmethod
    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Takes samples of rollouts: mappings with the keys of a table."""

    @abstractmethod
    def close(self, ended: bool) -> None:
        """Closes the tracker's run.

        Args:
            ended: Whether the run came to its end.
        """


class TensorBoard(Tracker):
    """Event files in ``tensorboard/`` of the run folder."""

    package = "tensorboard"

    def __init__(self, run: TrackedRun, key: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.key = ""
        self._board = SummaryWriter(str(run.folder / "tensorboard"), purge_step=run.first + 1)

    def log(self, row: Mapping[str, float], iteration: int) -> None:
        """Writes scalars."""
        for name, value in row.items():
            self._board.add_scalar(name, value, iteration)
        self._board.flush()

    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Writes a text."""
        self._board.add_text("rollouts", as_markdown(samples), iteration)

    def close(self, ended: bool) -> None:
        """Closes it."""
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
                "MLFLOW_TRACKING_URI holds a password, which errors would show: give it in"
                " MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            )
        cache_folder().mkdir(parents=True, exist_ok=True)
        with FileLock(cache_folder() / "mlflow.lock"):  # trials beside it make the database too
            if key:
                mlflow.start_run(run_id=key)  # Ray's integration takes the active run
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
        """Logs metrics, under names that MLflow takes."""
        plain = {_REFUSED.sub("_", name): value for name, value in row.items()}
        self._mlflow.log_metrics(plain, step=iteration)

    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs a text as an artifact."""
        self._mlflow.log_text(as_markdown(samples), f"rollouts/iteration_{iteration:06d}.md")

    def close(self, ended: bool) -> None:
        """Closes it."""
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
        """Logs a table."""
        cells = [list(sample.values()) for sample in samples]
        table = self._wandb.Table(columns=list(_COLUMNS), data=cells)
        self._run.log({"rollouts": table}, step=iteration)

    def close(self, ended: bool) -> None:
        """Closes it."""
        self._run.finish(exit_code=0 if ended else 1)


class Trackio(Tracker):
    """trackio: ``TRACKIO_DIR`` is the local folder, ``TRACKIO_SPACE_ID`` a Space."""

    package = "trackio"

    def __init__(self, run: TrackedRun, key: str) -> None:
        import trackio

        self._trackio: Any = trackio
        self.key = key or f"{run.name}-{uuid.uuid4().hex[:6]}"  # it resumes a run by its name
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
        """Logs a table."""
        table = self._trackio.Table(data=[dict(sample) for sample in samples])
        self._run.log({"rollouts": table}, step=iteration)

    def close(self, ended: bool) -> None:
        """Closes it."""
        self._run.finish()


_TRACKERS: Final[dict[str, type[Tracker]]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
    "trackio": Trackio,
}


def missing_trackers(names: Sequence[str]) -> list[str]:
    """What is to be installed for some trackers, a line each."""
    told = [missing_extra(_TRACKERS[n].package, f"tracking: {n}", n) for n in names]
    return [each for each in told if each]


class Tracking:
    """The trackers of a run.

    A tracker that cannot be started is an error. One that fails later, such as for want of a
    network, is told of once, and training goes on.
    """

    def __init__(
        self, settings: Settings, run: RunFolder, first: int, tell: Callable[[str], None]
    ) -> None:
        """Starts the trackers, or resumes them.

        Args:
            settings: The run's settings.
            run: Its folder.
            first: The iteration it goes on after.
            tell: Takes what is to be said of a tracker that fails.

        Raises:
            Exception: Whatever a tracker raises that cannot be started; the others are closed.
        """
        self._run, self._tell = run, tell
        self._last = settings.parameters.iterations
        self._interval = settings.run.tracked_rollouts_interval
        self._known: dict[str, dict[str, Any]] = run.read_json(RECORD) or {}
        self._failed: set[str] = set()
        self._trackers: dict[str, Tracker] = {}
        about = TrackedRun.of(run, settings, first)
        try:
            for name in settings.run.tracking:
                known = self._known.get(name, {})
                tracker = _TRACKERS[name](about, str(known.get("run", "")))
                self._trackers[name] = tracker
                if tracker.key:
                    self._note(name, int(known.get("iteration", 0)))
        except BaseException:
            self.close(ended=False)
            raise

    def log(
        self,
        row: Mapping[str, float],
        rollouts: Sequence[Rollout],
        iteration: int,
    ) -> None:
        """Gives an iteration to every tracker that does not have it.

        An iteration that is repeated after a kill is the same again.

        Args:
            row: Its metrics.
            rollouts: Its rollouts.
            iteration: The iteration.
        """
        due = iteration % self._interval == 0 or iteration in (1, self._last)
        samples = sample(rollouts, iteration) if due else []
        for name, tracker in self._trackers.items():
            if iteration <= self._known.get(name, {}).get("iteration", 0):
                continue
            with self._surviving(name):
                tracker.log(row, iteration)
                if tracker.key:
                    self._note(name, iteration)
                if samples:
                    tracker.show(samples, iteration)

    def close(self, ended: bool) -> None:
        """Closes the trackers.

        Args:
            ended: Whether the run came to its end.
        """
        for name, tracker in self._trackers.items():
            with self._surviving(name):
                tracker.close(ended)

    def _note(self, name: str, iteration: int) -> None:
        self._known[name] = {"run": self._trackers[name].key, "iteration": iteration}
        self._run.write_json(RECORD, self._known)

    @contextmanager
    def _surviving(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            logger.warning("tracking: %s failed", name, exc_info=True)
            if name not in self._failed:
                self._failed.add(name)
                self._tell(f"{name} failed, training goes on: {short_line(error)}")


@contextmanager
def tracking(
    settings: Settings, run: RunFolder, first: int, tell: Callable[[str], None]
) -> Iterator[Tracking]:
    """The trackers of a run, closed at its end; takes what `Tracking` takes."""
    trackers, ended = Tracking(settings, run, first, tell), False
    try:
        yield trackers
        ended = True
    finally:
        trackers.close(ended)


def sample(rollouts: Sequence[Rollout], iteration: int) -> list[dict[str, Any]]:
    """The first rollouts that won and the first that did not, as rows of a table."""
    won = [rollout for rollout in rollouts if rollout.won][:_SAMPLES]
    lost = [rollout for rollout in rollouts if not rollout.won][:_SAMPLES]
    return [
        dict(
            zip(
                _COLUMNS,
                (iteration, r.task_id, r.won, r.score, len(r.steps), _text(r)),
                strict=True,
            )
        )
        for r in (*won, *lost)
    ]


def as_markdown(samples: Sequence[Mapping[str, Any]]) -> str:
    """Samples of rollouts as Markdown; what a model wrote stands in blocks of code."""
    return "\n\n".join(
        f"### {each['task']}: {'won' if each['won'] else 'lost'}, score {each['score']:g},"
        f" {each['steps']} steps\n\n" + "    " + each["text"].replace("\n", "\n    ")
        for each in samples
    )


def _text(rollout: Rollout) -> str:
    parts = [rollout.instruction]
    for step in rollout.steps:
        parts += [f"> {step.observation}", step.response]
    parts.append(f"> {rollout.last_observation}")
    text = "\n\n".join(parts)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
