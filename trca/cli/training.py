"""One training run: RLlib's algorithm, driven iteration by iteration into a run folder."""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from trca.cli.checks import too_few_gpus
from trca.cli.curve import draw_curve, panel_words
from trca.cli.failures import append_failures
from trca.cli.progress import Progress
from trca.cli.reports import Report
from trca.cli.rollout_files import write_rollouts
from trca.cli.selection import is_best
from trca.cli.tracking import tracking
from trca.common.registry import short_name
from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from trca.algorithms.text_algorithm import TextAlgorithm
    from trca.cli.run_folder import RunFolder
    from trca.tune_configs.settings import RunParameters, RunSettings

_PATIENCE_S: Final = 600.0
"""Seconds from the first start of Ray after which a late start ends the run."""
_LONGEST_PAUSE_S: Final = 30.0
_LEFT_OUT: Final = frozenset(
    {"config", "timers", "perf", "fault_tolerance", "env_runner_group", "done", "pid", "timestamp"}
)
"""Parts of RLlib's result that are not metrics of the run."""


class InterruptedRunError(Exception):
    """The user asked the run to stop; the last checkpoint is whole."""


def train(settings: RunSettings, run: RunFolder, progress: Progress) -> None:
    """Trains to the last iteration, from the run's last checkpoint where it has one.

    Every iteration writes its metrics, rollouts and curve, and every ``checkpoint_interval`` a
    checkpoint: a run that is killed loses only what came after its last checkpoint. The last
    iteration ends with an evaluation.

    Args:
        settings: The run's settings.
        run: Its folder.
        progress: Shows the stages and the metrics.

    Raises:
        InterruptedRunError: When the user asked to stop.
        OSError: When the disk is full; the last checkpoint is whole.
    """
    from trca.algorithms.records import episodes
    from trca.policies.models import load_tokenizer

    first = run.last_iteration()
    _note_a_killed_driver(run, first)
    run.rewind(first)
    rows = run.metrics()
    progress.earlier(rows)
    run.set_status("running", first)
    with (
        stopping_politely(progress) as asked_to_stop,
        tracking(settings, run, first, progress.stage) as trackers,
        _algorithm(settings, run, progress) as algorithm,
    ):
        decode = load_tokenizer(algorithm.config.resolved_model()).decode
        for iteration in range(first + 1, settings.parameters.iterations + 1):
            progress.stage(f"iteration {iteration}", announce=False)
            start = time.monotonic()
            algorithm.evaluation = None
            try:
                result = algorithm.train()
            finally:
                append_failures(run.failures, iteration, algorithm.incidents)
            done = iteration == settings.parameters.iterations
            if done and algorithm.evaluation is None:
                progress.stage("evaluating on the held-out panel")
                result = {**result, "evaluation": algorithm.evaluate()}
            if algorithm.evaluation is None:
                # RLlib repeats its last evaluation in the result of the iteration after it.
                result = {name: part for name, part in result.items() if name != "evaluation"}
            report = _report(algorithm)
            before = rows[-1] if rows else {"trajectories": 0, "env_steps": 0}
            row = {
                "iteration": iteration,
                "trajectories": before["trajectories"] + len(episodes(algorithm.rollouts)),
                "env_steps": before["env_steps"] + sum(r.env_steps() for r in algorithm.rollouts),
                "seconds": time.monotonic() - start,
                **flatten(result),
                **flatten(report.interval() if report else {}, "evaluation/"),
            }
            rows.append(row)
            run.append_metrics(row)
            if algorithm.evaluation is not None:
                append_failures(run.failures, iteration, algorithm.evaluation.incidents)
            _save_rollouts(algorithm, run, iteration, decode)
            if report is not None:
                _save_report(algorithm, run, iteration, report)
            trackers.log(row, algorithm.rollouts, iteration)
            draw_curve(rows, run.path / "curve.png", _title(settings, run), _panel(settings))
            best = is_best(rows)
            due = iteration % settings.run.checkpoint_interval == 0
            if due or done or asked_to_stop() or (best and algorithm.evaluation is not None):
                run.save_checkpoint(iteration, lambda to: algorithm.save_to_path(str(to)), best)
            run.set_status("running", iteration)
            progress.show(row)
            if asked_to_stop() and not done:
                raise InterruptedRunError(f"after iteration {iteration}")


def flatten(result: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a nested result, by names joined with ``/``; the rest is left out."""
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


@contextmanager
def stopping_politely(progress: Progress) -> Iterator[Callable[[], bool]]:
    """Stops after the current iteration on the first Ctrl-C, at once on the second.

    Args:
        progress: Shows that the run is stopping.

    Yields:
        A function that says whether to stop.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, usual)
        progress.stage("stopping after this iteration; Ctrl-C again stops at once")

    usual = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def _algorithm(settings: RunSettings, run: RunFolder, progress: Progress) -> Iterator[Any]:
    """The `TextAlgorithm`, restored where the run has a checkpoint; Ray is up as long as it is."""
    import ray

    progress.stage("starting Ray")
    started = not ray.is_initialized()
    if started:
        start_ray(run.path, settings.run, progress.stage)
    progress.stage("building the algorithm")
    algorithm: Any = settings.algorithm_config().build_algo()
    try:
        if run.has_checkpoint():
            progress.stage("restoring the checkpoint")
            algorithm.restore_from_path(str(run.checkpoint("last")))
        yield algorithm
    finally:
        folder = Path(algorithm.logdir)
        algorithm.stop()
        with suppress(OSError):
            folder.rmdir()
        if started:
            ray.shutdown()


def init_ray(cpus: float, say: Callable[[str], object]) -> Any:
    """Starts Ray with at least these CPUs, or joins the cluster that ``RAY_ADDRESS`` names.

    Ray allows its first process 30 seconds to start, which no setting changes. On a busy machine
    that is too short. Then Ray is started again for ten minutes, with pauses of 2, 4, 8, 16 and
    30 seconds.

    Args:
        cpus: The CPUs that the processes of all runs ask for; may be more than the cores.
        say: Shows a line for each start that came too late.

    Returns:
        Ray's context.

    Raises:
        RuntimeError: When Ray does not start in ten minutes.
        Exception: Ray's own, for any other reason.
    """
    import os

    import psutil
    import ray

    # The driver waits for its workers; under Ray's default nice 15 any other program slows them.
    os.environ.setdefault("RAY_worker_niceness", "0")
    joining = bool(os.environ.get("RAY_ADDRESS"))
    us = psutil.Process()
    before = {child.pid for child in us.children(recursive=True)}
    since = time.monotonic()
    tries = 0
    while True:
        tries += 1
        try:
            return ray.init(
                None if joining else "local",  # not a cluster that runs on this machine already
                num_cpus=None if joining else max(os.cpu_count() or 1, math.ceil(cpus)),
                include_dashboard=None if joining else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except Exception as error:  # Ray has no class for it
            if "timed out during startup" not in str(error):
                raise
            for child in us.children(recursive=True):  # what has started goes on otherwise
                if child.pid not in before:
                    with suppress(psutil.NoSuchProcess):
                        child.kill()
            seconds = time.monotonic() - since
            if seconds > _PATIENCE_S:
                raise RuntimeError(
                    f"Ray did not start in {seconds:.0f} s and {tries} tries of 30 s: this machine"
                    " is too busy. End other programs, or set RAY_ADDRESS to a cluster that runs"
                ) from error
            pause = min(2.0**tries, _LONGEST_PAUSE_S)
            say(
                f"Ray did not start in 30 s on this busy machine (try {tries}, {seconds:.0f} of"
                f" {_PATIENCE_S:.0f} s): trying again in {pause:.0f} s"
            )
            time.sleep(pause)


def start_ray(folder: Path, run: RunParameters, say: Callable[[str], object]) -> None:
    """Starts Ray on this machine, or joins the cluster that ``RAY_ADDRESS`` names.

    On one machine the processes of a run may outnumber the cores. On a cluster Ray waits for
    missing resources, since the cluster may grow.

    Args:
        folder: A run's folder; ``logs/ray`` in it links to Ray's own logs.
        run: The resources that the run asks for.
        say: See `init_ray`.

    Raises:
        ConfigError: When it asks for more GPUs than this machine has.
    """
    import os

    import ray

    cpus, gpus = run.resources()
    joining = bool(os.environ.get("RAY_ADDRESS"))
    context = init_ray(cpus, say)
    there = ray.cluster_resources().get("GPU", 0.0)
    if gpus > there and not joining:
        ray.shutdown()
        raise ConfigError(too_few_gpus(gpus, there))
    session = Path(context.address_info["session_dir"]) / "logs"
    link = folder / "logs" / "ray"
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    with suppress(OSError):
        link.symlink_to(session, target_is_directory=True)


def _note_a_killed_driver(run: RunFolder, first: int) -> None:
    """Writes down that the run goes on after its process ended without a word."""
    from trca.algorithms.rollout import Incident

    status = run.status()
    if status.get("state") == "running":
        reason = f"it ended after iteration {status['iteration']} without a word"
        action = f"resumed after iteration {first}"
        driver = Incident(time.time(), "driver", f"process {status['pid']}", "", reason, action)
        append_failures(run.failures, int(status["iteration"]) + 1, [driver])


def _save_rollouts(
    algorithm: TextAlgorithm, run: RunFolder, iteration: int, decode: Callable[[Any], str]
) -> None:
    folder = run.rollouts(iteration)
    write_rollouts(
        folder / "train.jsonl",
        algorithm.rollouts,
        decode,
        algorithm.failures,
    )
    evaluation = algorithm.evaluation
    if evaluation is not None:
        path = folder / "eval.jsonl"
        write_rollouts(path, evaluation.rollouts, decode, failures=evaluation.failures)


def _report(algorithm: TextAlgorithm) -> Report | None:
    """The report of the iteration's evaluation, where it has one."""
    config: Any = algorithm.config
    evaluation = algorithm.evaluation
    return None if evaluation is None else Report.of(evaluation.panel, {config.seed: evaluation})


def _save_report(algorithm: TextAlgorithm, run: RunFolder, iteration: int, report: Report) -> None:
    about: dict[str, Any] = {"iteration": iteration}
    if gold := algorithm.gold_reads:
        about["gold_in_training"] = gold
    report.write(run.path / "evaluation", **about)


def _title(settings: RunSettings, run: RunFolder) -> str:
    return f"{run.name}: {settings.run.algorithm} on {short_name(settings.run.env)}"


def _panel(settings: RunSettings) -> str:
    env_config, held_out = settings.run.env_config, settings.evaluation_split
    return panel_words(env_config, settings.train_split, held_out)
