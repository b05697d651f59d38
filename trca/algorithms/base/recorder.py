"""`RunRecorder`: the RLlib callback that records a run in a folder.

The folder holds settings, versions, panels, status, metrics, rollouts, failures, evaluations,
checkpoints and the learning curve (`trca.runs.folder` lists the files). Under Ray Tune the
folder is the trial's directory, so that each command that reads a run takes a trial. ``trca train``
names the folder in the setting ``run_folder``.

The recorder writes the best and the last checkpoint. Tune's own checkpoints are no substitute: by
default Tune writes one at the end of a trial, which a killed trial does not reach, and Tune does
not know which iterations were evaluated. A restored trial continues from the recorder's last
checkpoint, or from Tune's if Tune loads one.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from ray.air.constants import TIME_THIS_ITER_S, TRAINING_ITERATION
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils.metrics import EVALUATION_RESULTS
from ray.tune.result import DONE
from ray.tune.utils.util import unflatten_dict  # type: ignore[attr-defined]

from trca.algorithms.rollouts.environments import default_split
from trca.algorithms.settings.parameters import TextParameters
from trca.common.errors import words
from trca.common.registry import short_name
from trca.records import episodes, write_rollouts
from trca.records.rollout import Incident
from trca.runs.curve import draw_curve, panel_words
from trca.runs.folder import RunFolder
from trca.runs.provenance import panel_record, versions
from trca.runs.reports import Report
from trca.runs.rollout_files import Kind, rollout_file
from trca.runs.selection import is_best
from trca.runs.trackers import Tracking
from trca.tune_configs.files import ConfigError, absolute
from trca.tune_configs.run_parameters import method_name

logger = logging.getLogger(__name__)

_SECONDS_FOR_THE_LAST_PROCESS: Final = 60.0
"""Seconds that a trial waits for the process that had the trial before: Ray ends it."""
_LEFT_OUT: Final = frozenset(
    {"config", "timers", "perf", "fault_tolerance", "env_runner_group", "done", "pid", "timestamp"}
)
"""Parts of RLlib's result that are not metrics of the run."""
ANY_MACHINE: Final = frozenset(
    {
        *("iterations", "num_env_runners", "num_cpus_per_env_runner", "num_gpus_per_env_runner"),
        *("num_cpus_per_learner", "num_gpus_per_learner", "restart_failed_env_runners"),
        *("checkpoint_interval", "tracking", "tracking_project", "tracked_rollouts_interval"),
    }
)
"""Settings that may change when a run is continued."""


class RunRecorder(RLlibCallback):
    """Records the run of one algorithm.

    Each iteration adds a row of metrics, its rollouts and a new picture of the curve; every
    ``checkpoint_interval`` iterations and each best evaluation add a checkpoint. A killed run loses
    only the iterations after its last checkpoint. The last iteration ends with an evaluation.

    Attributes:
        run: The folder; `None` where the algorithm is not recorded.
        rows: Metrics of the iterations so far.
        tell: Takes the name of a stage, such as the evaluation, or a tracker's failure.
    """

    def __init__(self) -> None:
        self.run: RunFolder | None = None
        self.rows: list[dict[str, Any]] = []
        self.tell: Callable[[str], None] = logger.info
        self._settings: TextParameters
        self._trackers: Tracking | None = None
        self._decode: Callable[[Any], str]
        self._evaluated: object = None
        self._open = ExitStack()

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Opens the folder; continues the run from its last checkpoint if it has one.

        Raises:
            ConfigError: If another process writes to the folder, or the named folder holds a run
                with other settings.
        """
        run = _folder_of(algorithm)
        if run is None:
            return
        from trca.policies.models import load_tokenizer

        config = algorithm.config
        split = config.settings.evaluation_split or default_split(config.env, config.env_config)
        self._settings = config.settings.model_copy(update={"evaluation_split": split})
        named = bool(algorithm.config.run_folder)
        wait_s = 0 if named else _SECONDS_FOR_THE_LAST_PROCESS
        self._open.enter_context(run.locked(again=True, wait_s=wait_s))
        self.run = run
        self._decode = load_tokenizer(algorithm.config.resolved_model()).decode
        named = named or (run.path / "trial.json").is_file()  # a trial of a sweep
        same = self._write_settings(run, named)
        if same and run.has_checkpoint():
            algorithm.restore_from_path(str(run.checkpoint("last")))
        self._write_provenance(algorithm, run, continues=same and run.has_checkpoint())
        self._begin(algorithm, rewind=same)

    def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Continues after the iteration of a checkpoint that Ray Tune loads."""
        if self.run is not None:
            self._begin(algorithm, rewind=True)

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """Records an iteration; the last iteration is evaluated into its result."""
        run = self.run
        if run is None:
            return
        report: Report | None = None
        settings = self._settings
        iteration, last = algorithm.iteration, algorithm.config.settings.iterations
        if self.rows and self.rows[-1]["iteration"] >= iteration:
            self._rewind(run, iteration - 1)
        run.append_failures(iteration, algorithm.incidents)
        seconds = float(result[TIME_THIS_ITER_S])
        if iteration == last and algorithm.evaluation is self._evaluated:
            start = time.monotonic()
            self.tell("evaluating on the held-out panel")
            result[EVALUATION_RESULTS] = algorithm.evaluate()
            seconds += time.monotonic() - start
        evaluation = algorithm.evaluation
        if evaluation is not self._evaluated:
            self._evaluated = evaluation
            report = Report.of(evaluation.panel, {settings.seed: evaluation})
            run.append_failures(iteration, evaluation.incidents)
        row = self._row(algorithm, result, seconds, report)
        self.rows.append(row)
        run.append_metrics(row)
        self._write_rollouts(algorithm, run, iteration, report)
        if self._trackers:
            self._trackers.log(row, algorithm.rollouts, iteration)
        title = f"{run.name}: {method_name(settings.flat())} on {short_name(settings.env)}"
        splits = settings.train_split, str(settings.evaluation_split)
        draw_curve(
            self.rows, run.path / "curve.png", title, panel_words(settings.env_config, *splits)
        )
        best = is_best(self.rows)
        due = iteration % settings.checkpoint_interval == 0
        if due or iteration == last or (best and report):
            self._save(algorithm, run, best)
        run.set_status("finished" if iteration == last else "running", iteration)

    def save(self, algorithm: Any) -> None:
        """Saves a checkpoint of the last iteration if it is missing."""
        if self.run is not None and self.run.last_iteration() < algorithm.iteration:
            self._save(algorithm, self.run, is_best(self.rows))

    def fail(self, algorithm: Any, error: Exception) -> None:
        """Records the error that ends the run."""
        if self.run is None:
            return
        with suppress(OSError, ValueError):  # storage that is full must not hide the error itself
            self.run.append_failures(len(self.rows) + 1, algorithm.incidents)
            self.run.set_status("failed", self.run.last_iteration(), words(error))

    def recorded_end(self, algorithm: Any) -> dict[str, Any] | None:
        """The last result of a run that was complete at its opening; else `None`."""
        if self.run is None or not self._complete:
            return None
        result: dict[str, Any] = unflatten_dict(self.rows[-1])
        filled = algorithm.get_auto_filled_metrics(time_this_iter=0.0)  # Tune adds the times
        return {**result, **filled, TRAINING_ITERATION: algorithm.iteration, DONE: True}

    def close(self, algorithm: Any) -> None:
        """Closes the folder of a run that ends or is stopped."""
        run, self.run = self.run, None
        if run is None:
            return
        ended = run.status().get("state")
        if self._trackers:
            self._trackers.close(ended == "finished")
        if ended == "running":
            with suppress(OSError, ValueError):
                run.set_status("interrupted", run.last_iteration())
        self._open.close()

    def _begin(self, algorithm: Any, rewind: bool) -> None:
        """Continues after the algorithm's iteration; ``rewind`` removes records of later ones.

        With changed settings (population-based training) Ray Tune loads a checkpoint next, and
        records stay.
        """
        run, iteration = self.run, algorithm.iteration
        assert run is not None
        _note_a_killed_process(run, iteration)
        if rewind:
            self._rewind(run, iteration)
        else:
            self.rows = run.metrics()
        self._evaluated = algorithm.evaluation
        if self._trackers:
            self._trackers.close(ended=False)
        self._trackers = Tracking(self._settings, run, iteration, lambda text: self.tell(text))
        self._complete = bool(self.rows) and iteration >= algorithm.config.settings.iterations
        run.set_status("finished" if self._complete else "running", iteration)

    def _rewind(self, run: RunFolder, iteration: int) -> None:
        run.rewind(iteration)
        self.rows = run.metrics()

    def _write_settings(self, run: RunFolder, named: bool) -> bool:
        """Writes the settings; returns whether the run in the folder, if any, has the same."""
        start = os.environ.get("TUNE_ORIG_WORKING_DIR")  # Tune changes a trial's working directory
        settings = absolute(self._settings.flat(), Path(start) if start else None)
        there = run.read_config() if (run.path / "config.yaml").is_file() else {}
        run.write_settings(settings)
        if not there:
            return True
        now = run.read_config()
        changed = [k for k in now if k not in ANY_MACHINE and now[k] != there.get(k, now[k])]
        if changed and named:
            run.write_settings(there)
            raise ConfigError(
                f"{run.path} holds a run with {changed[0]}: {there[changed[0]]!r}, not"
                f" {now[changed[0]]!r}: give another run_folder, or move this folder away"
            )
        return not changed

    def _write_provenance(self, algorithm: Any, run: RunFolder, continues: bool) -> None:
        """Writes versions and panels; refuses a run that continues with other tasks."""
        trained = algorithm.panel(algorithm.config.settings.train_split)
        panels = {"train": trained, "evaluation": algorithm.evaluation_panel}
        records = {name: panel_record(panel) for name, panel in panels.items()}
        now = versions()
        if continues:
            before = run.read_json("panels.json") or {}
            for name, record in before.items():
                if record["hash"] != records[name]["hash"]:
                    raise ConfigError(
                        f"the {name} tasks of {run.path} have changed since the run started (hash"
                        f" {record['hash']}, now {records[name]['hash']}): restore the data of the"
                        " environment, or start a new run"
                    )
            earlier = run.read_json("versions.json") or {}
            now["earlier"] = [
                *earlier.pop("earlier", ()),
                {**earlier, "until": algorithm.iteration},
            ]
        run.write_json("versions.json", now)
        run.write_json("panels.json", records)

    def _row(
        self, algorithm: Any, result: dict[str, Any], seconds: float, report: Report | None
    ) -> dict[str, Any]:
        """The metrics of an iteration; ``seconds`` is its duration, evaluation included."""
        before = self.rows[-1] if self.rows else {"trajectories": 0, "env_steps": 0}
        if report is None:  # RLlib repeats an evaluation in the results of later iterations
            result = {name: part for name, part in result.items() if name != EVALUATION_RESULTS}
        return {
            "iteration": algorithm.iteration,
            "trajectories": before["trajectories"] + len(episodes(algorithm.rollouts)),
            "env_steps": before["env_steps"] + sum(r.env_steps() for r in algorithm.rollouts),
            "seconds": seconds,
            **flatten(result),
            **flatten(report.interval() if report else {}, "evaluation/"),
        }

    def _write_rollouts(
        self, algorithm: Any, run: RunFolder, iteration: int, report: Report | None
    ) -> None:
        played: dict[Kind, Any] = {"train": algorithm}
        if report is not None:
            played["eval"] = algorithm.evaluation
        for kind, each in played.items():
            steps = [step for rollout in each.rollouts for step in rollout.steps]
            prompts = [self._decode(step.prompt_ids) for step in steps]
            write_rollouts(
                rollout_file(run, kind, iteration), each.rollouts, prompts, each.failures
            )
        if report is not None:
            about: dict[str, Any] = {"iteration": iteration}
            if gold := algorithm.gold_reads:
                about["gold_in_training"] = gold
            report.write(run.path / "evaluation", **about)

    def _save(self, algorithm: Any, run: RunFolder, best: bool) -> None:
        run.save_checkpoint(algorithm.iteration, lambda to: algorithm.save_to_path(str(to)), best)


def flatten(result: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a nested result, by names joined with ``/``; leaves out everything else."""
    flat: dict[str, float] = {}
    for key, value in result.items():
        name = f"{prefix}{key}"
        if name in _LEFT_OUT:
            continue
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{name}/")
            continue
        with suppress(TypeError, ValueError):
            number = float(value) if not isinstance(value, (str, bytes)) else math.nan
            if not math.isnan(number):
                flat[name] = number
    return flat


def _folder_of(algorithm: Any) -> RunFolder | None:
    """The folder of an algorithm's run: ``run_folder``, else the directory of its Tune trial."""
    folder, storage = algorithm.config.run_folder, algorithm._storage
    if folder:
        return RunFolder.at(folder)
    return None if folder is False or storage is None else RunFolder.of_trial(storage)


def _note_a_killed_process(run: RunFolder, first: int) -> None:
    """Records that the run continues after its process ended without writing its status."""
    status = run.status()
    if status.get("state") == "running" and status["pid"] != os.getpid():
        reason = f"it ended after iteration {status['iteration']} without writing its status"
        action = f"resumed after iteration {first}"
        driver = Incident(time.time(), "driver", f"process {status['pid']}", "", reason, action)
        run.append_failures(int(status["iteration"]) + 1, [driver])
