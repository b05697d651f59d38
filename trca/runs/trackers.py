"""Experiment trackers of one run: TensorBoard, MLflow, Weights & Biases, trackio.

The run folder holds TensorBoard's event files, and ``tracking.json`` with the run's id in each of
the remaining trackers. A resumed run continues under these ids.

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

import logging
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from filelock import FileLock

from trca.common.cache import cache_folder
from trca.common.errors import short_line
from trca.common.extras import missing_extra

if TYPE_CHECKING:
    from trca.records import Rollout
    from trca.runs.folder import RunFolder
    from trca.tune_configs.run_parameters import RunParameters

logger = logging.getLogger(__name__)

RECORD: Final = "tracking.json"
_PARAM: Final = 500
"""Longest value of a setting, in characters, that every MLflow server accepts."""
_REFUSED: Final = re.compile(r"[^\w\-./: ]")
"""Characters that MLflow refuses in names."""
_SAMPLES: Final = 2
"""Number of successful and of failed rollouts in a sample."""
_LONGEST: Final = 10_000
"""Characters of a rollout's text."""
_TURNS: Final = 50
"""Turns of a rollout in a sample."""
_LONGEST_TURN: Final = 1_000
"""Characters of an observation or a response of a turn."""


class Tracker(ABC):
    """A tracker of one run.

    Attributes:
        package: Required package. The extra of ``trca`` has the tracker's name.
        key: Id of the tracker's run, used to resume the run; empty if the tracker needs no id.
    """

    package: ClassVar[str]
    key: str = ""

    @abstractmethod
    def __init__(self, run: RunFolder, settings: RunParameters, key: str, first: int) -> None:
        """Starts or resumes the tracker's run.

        Args:
            run: The run's folder.
            settings: The run's settings.
            key: Id of the tracker's run to resume; empty for a new run.
            first: Last iteration before the run continues; 0 for a new run.
        """

    @abstractmethod
    def log(self, row: Mapping[str, float], iteration: int) -> None:
        """Logs the metrics of an iteration."""

    @abstractmethod
    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs samples of rollouts, from `sample`."""

    @abstractmethod
    def close(self, ended: bool) -> None:
        """Closes the tracker's run; ``ended`` says whether the run is complete."""


class TensorBoard(Tracker):
    """Event files in ``tensorboard/`` of the run folder."""

    package = "tensorboard"

    def __init__(self, run: RunFolder, settings: RunParameters, key: str, first: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._board = SummaryWriter(str(run.path / "tensorboard"), purge_step=first + 1)

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

    def __init__(self, run: RunFolder, settings: RunParameters, key: str, first: int) -> None:
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
                experiment_name=settings.tracking_project,
                run_name=run.name,
                tags={"sweep": sweep} if (sweep := _sweep(run)) else None,
                create_experiment_if_not_exists=True,
                rank_zero_only=False,
            )
        self.key = str(self._mlflow.active_run().info.run_id)
        if not key:
            params = {name: str(value)[:_PARAM] for name, value in settings.flat().items()}
            self._mlflow.log_params(params)

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

    def __init__(self, run: RunFolder, settings: RunParameters, key: str, first: int) -> None:
        import wandb
        from ray.air.integrations.wandb import setup_wandb

        self._table: Any = wandb.Table
        self.key = key or uuid.uuid4().hex[:12]
        self._run: Any = setup_wandb(
            settings.flat(),
            rank_zero_only=False,
            project=settings.tracking_project,
            trial_id=self.key,
            trial_name=run.name,
            group=_sweep(run),
            resume="allow",
            reinit="finish_previous",
            settings=wandb.Settings(console="off"),
        )

    def log(self, row: Mapping[str, float], iteration: int) -> None:
        """Logs metrics."""
        self._run.log(dict(row), step=iteration)

    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs the samples as a table with a row per rollout, and one with a row per turn."""
        rollouts = [
            {k: v for k, v in each.items() if k not in ("instruction", "turns")} for each in samples
        ]
        turns = [
            {"iteration": iteration, "rollout": number, "task": each["task"], **turn}
            for number, each in enumerate(samples)
            for turn in each["turns"]
        ]
        tables = {
            name: self._table(list(rows[0]), [list(row.values()) for row in rows])
            for name, rows in (("rollouts", rollouts), ("turns", turns))
            if rows
        }
        self._run.log(tables, step=iteration)

    def close(self, ended: bool) -> None:
        """Closes the run."""
        self._run.finish(exit_code=0 if ended else 1)


class Trackio(WandB):
    """trackio: ``TRACKIO_DIR`` is the local folder, ``TRACKIO_SPACE_ID`` a Space."""

    package = "trackio"

    def __init__(self, run: RunFolder, settings: RunParameters, key: str, first: int) -> None:
        import trackio

        self._table = trackio.Table
        self.key = key or f"{run.name}-{uuid.uuid4().hex[:6]}"  # trackio resumes a run by name
        self._run: Any = trackio.init(
            settings.tracking_project,
            name=self.key,
            group=_sweep(run),
            config=settings.flat(),
            resume="allow",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )

    def show(self, samples: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs the tables, and a trace of each rollout with the credit of each response."""
        import trackio

        super().show(samples, iteration)
        traces = {}
        for number, each in enumerate(samples):
            messages = [{"role": "system", "content": each["instruction"]}]
            for turn in each["turns"]:
                credit = {k: v for k, v in turn.items() if k not in ("observation", "response")}
                messages.append({"role": "user", "content": turn["observation"]})
                messages.append(
                    {"role": "assistant", "content": turn["response"], "metadata": credit}
                )
            about = {name: each[name] for name in ("iteration", "task", "won", "score", "steps")}
            traces[f"rollout_{number}"] = trackio.Trace(messages, metadata=about)
        self._run.log(traces, step=iteration)

    def close(self, ended: bool) -> None:
        """Closes the run; trackio has no exit code."""
        self._run.finish()


TRACKERS: Final[dict[str, type[Tracker]]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
    "trackio": Trackio,
}


class Tracking:
    """The trackers of a run.

    A tracker that cannot start raises an error. A tracker that fails later, for example without a
    network, is reported once, and training continues.
    """

    def __init__(
        self, settings: RunParameters, run: RunFolder, first: int, tell: Callable[[str], None]
    ) -> None:
        """Starts or resumes the trackers.

        Args:
            settings: The run's settings.
            run: The run's folder.
            first: Last iteration before the run continues; 0 for a new run.
            tell: Receives a message about each tracker that fails.

        Raises:
            Exception: The error of a tracker that cannot start. All started trackers are closed.
        """
        self._run, self._tell = run, tell
        self._last = int(settings.flat()["iterations"])
        self._interval = settings.tracked_rollouts_interval
        self._records: dict[str, dict[str, Any]] = run.read_json(RECORD) or {}
        self._failed: set[str] = set()
        self._trackers: dict[str, Tracker] = {}
        try:
            for name in settings.tracking:
                record = self._records.get(name, {})
                tracker = TRACKERS[name](run, settings, str(record.get("run", "")), first)
                self._trackers[name] = tracker
                if tracker.key:
                    self._note(name, int(record.get("iteration", 0)))
        except BaseException:
            self.close(ended=False)
            raise

    def log(self, row: Mapping[str, float], rollouts: Sequence[Rollout], iteration: int) -> None:
        """Logs an iteration in every tracker that does not have the iteration yet.

        A resumed run repeats the iterations since its last checkpoint, with equal results.
        """
        due = iteration % self._interval == 0 or iteration in (1, self._last)
        samples = sample(rollouts, iteration) if due else []
        for name, tracker in self._trackers.items():
            if iteration <= self._records.get(name, {}).get("iteration", 0):
                continue
            with self._surviving(name):
                tracker.log(row, iteration)
                if tracker.key:
                    self._note(name, iteration)
                if samples:
                    tracker.show(samples, iteration)

    def close(self, ended: bool) -> None:
        """Closes the trackers; ``ended`` says whether the run is complete."""
        for name, tracker in self._trackers.items():
            with self._surviving(name):
                tracker.close(ended)

    def _note(self, name: str, iteration: int) -> None:
        self._records[name] = {"run": self._trackers[name].key, "iteration": iteration}
        self._run.write_json(RECORD, self._records)

    @contextmanager
    def _surviving(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            logger.warning("tracking: %s failed", name, exc_info=True)
            if name not in self._failed:
                self._failed.add(name)
                self._tell(f"{name} failed, training continues: {short_line(error)}")


def missing_trackers(names: Sequence[str]) -> list[str]:
    """Returns one line per tracker with a missing package: how to install the package."""
    lines = [missing_extra(TRACKERS[n].package, f"tracking: {n}", n) for n in names]
    return [line for line in lines if line]


def sample(rollouts: Sequence[Rollout], iteration: int) -> list[dict[str, Any]]:
    """Returns the first successful and the first failed rollouts as plain data."""
    won = [rollout for rollout in rollouts if rollout.won][:_SAMPLES]
    lost = [rollout for rollout in rollouts if not rollout.won][:_SAMPLES]
    samples = []
    for rollout in (*won, *lost):
        parts = [rollout.instruction]
        for step in rollout.steps:
            parts += [f"> {step.observation}", step.response]
        text = "\n\n".join([*parts, f"> {rollout.last_observation}"])
        samples.append(
            {
                "iteration": iteration,
                "task": rollout.task_id,
                "won": rollout.won,
                "score": rollout.score,
                "steps": len(rollout.steps),
                "text": text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...",
                "instruction": rollout.instruction,
                "turns": _turns(rollout),
            }
        )
    return samples


def _turns(rollout: Rollout) -> list[dict[str, Any]]:
    """The first turns of a rollout: texts, rubric rewards, advantage and operators that fired."""
    advantages = rollout.advantages
    return [
        {
            "turn": number,
            "observation": step.observation[:_LONGEST_TURN],
            "response": step.response[:_LONGEST_TURN],
            "r^F": step.foundational,
            "r^B": step.breakthrough,
            "A": None if advantages is None else float(advantages[number]),
            "operators": ", ".join(rollout.operators[k] for k in step.judgments.nonzero()[0]),
        }
        for number, step in enumerate(rollout.steps[:_TURNS])
    ]


def as_markdown(samples: Sequence[Mapping[str, Any]]) -> str:
    """Returns samples as Markdown. Code blocks hold the texts of the environment and the model."""
    return "\n\n".join(
        f"### {each['task']}: {'won' if each['won'] else 'lost'}, score {each['score']:g},"
        f" {each['steps']} steps\n\n" + "    " + each["text"].replace("\n", "\n    ")
        for each in samples
    )


def _sweep(run: RunFolder) -> str | None:
    """Returns the name of the sweep of a trial."""
    return (run.read_json("trial.json") or {}).get("sweep")
