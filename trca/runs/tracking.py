"""`Tracking`: sends metrics and samples of rollouts of a run to its experiment trackers.

The run folder holds TensorBoard's event files, and ``tracking.json`` with the run's id in each of
the remaining trackers. A resumed run continues under these ids (`trca.runs.trackers`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from trca.common.errors import short_line
from trca.runs.rollout_samples import sample
from trca.runs.trackers import TRACKERS, TrackedRun, Tracker

if TYPE_CHECKING:
    from trca.records import Rollout
    from trca.runs.folder import RunFolder
    from trca.tune_configs.run_parameters import RunParameters

logger = logging.getLogger(__name__)

RECORD: Final = "tracking.json"


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
        about = TrackedRun.of(run, settings, first)
        try:
            for name in settings.tracking:
                record = self._records.get(name, {})
                tracker = TRACKERS[name](about, str(record.get("run", "")))
                self._trackers[name] = tracker
                if tracker.key:
                    self._note(name, int(record.get("iteration", 0)))
        except BaseException:
            self.close(ended=False)
            raise

    def log(
        self,
        row: Mapping[str, float],
        rollouts: Sequence[Rollout],
        iteration: int,
    ) -> None:
        """Logs an iteration in every tracker that does not have the iteration yet.

        A resumed run repeats the iterations since its last checkpoint, with equal results.

        Args:
            row: Metrics of the iteration.
            rollouts: Rollouts of the iteration.
            iteration: Number of the iteration.
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
        """Closes the trackers.

        Args:
            ended: Whether the run is complete.
        """
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
