"""The driver of runs and of trials: the loop over iterations, the start of Ray, and Ctrl-C.

``trca train`` runs `iterations` in its own process. As a Tune experiment of one trial it would
start many seconds later (`benchmarks/start.py`): the process of a trial imports PyTorch, Ray and
RLlib once more.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from trca.cli.preflight.preflight import too_few_gpus
from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from ray.train._internal.storage import StorageContext

    from trca.algorithms.base.text_config import TextAlgorithmConfig
    from trca.algorithms.settings.parameters import TextParameters
    from trca.cli.show.progress import Progress
    from trca.runs.folder import RunFolder

_PATIENCE_S: Final = 600.0
"""Seconds from the first start of Ray after which a late start ends the run."""
_LONGEST_PAUSE_S: Final = 30.0
_LATE: Final = ("timed out during startup", "Timed out waiting for file")
"""Words of Ray's errors about a raylet, and about a server of the cluster, that comes late."""
MOST_LOSSES: Final = 3
"""Times that a run or trial starts again after it loses a process or node."""
_STOPPING: Final = Event()

Tell = Callable[[str], object]
logger = logging.getLogger(__name__)


def iterations(
    config: TextAlgorithmConfig, storage: StorageContext | None = None, tell: Tell = logger.info
) -> Generator[list[dict[str, Any]]]:
    """Trains to the last iteration: the loop of ``trca train`` and of each trial of a sweep.

    The recorder (`trca.algorithms.base.recorder`) writes the run folder, and continues from its
    last checkpoint. A caller that stops early closes the generator, which saves a checkpoint.

    Args:
        config: The config of the algorithm; for a run without Tune with its ``run_folder``.
        storage: The storage of Ray Tune for the trial; `None` for a run without Tune.
        tell: Takes the stages within an iteration, and failures of trackers.

    Yields:
        All rows of metrics: once the recorded rows, then the rows after each iteration.

    Raises:
        LearnersLostError: If a learner was lost.
        ConfigError: If the folder holds a run with other settings.
        OSError: If the disk is full; the last checkpoint is complete.
    """
    algorithm: Any = config.algo_class(config=config, storage=storage)  # type: ignore[misc]
    try:
        algorithm.recorder.tell = tell
        yield algorithm.recorder.rows
        while algorithm.iteration < config.settings.iterations:
            algorithm.train()
            yield algorithm.recorder.rows
    except GeneratorExit:
        algorithm.recorder.save(algorithm)
        raise
    finally:
        algorithm.stop()
        if storage is None:
            with suppress(OSError):
                Path(algorithm.logdir).rmdir()


def train(settings: TextParameters, run: RunFolder, progress: Progress) -> bool:
    """Trains to the last iteration, from the run's last checkpoint if there is one.

    A run that loses a learner continues from its last checkpoint, `MOST_LOSSES` times at most.
    Returns whether Ctrl-C stopped the run; the last checkpoint is complete. Raises the errors of
    `iterations`, and a `ConfigError` if the run asks for more GPUs than this machine has.
    """
    from trca.algorithms.learner.group import LearnersLostError

    def tell() -> None:
        progress.stage("stopping after this iteration; Ctrl-C again stops at once")

    with stopping_politely(tell) as stop:
        for losses in range(MOST_LOSSES + 1):
            try:
                return _train(settings, run, progress)
            except LearnersLostError:
                if losses == MOST_LOSSES or stop.is_set():
                    raise
                progress.warn("a learner was lost: the run continues from its last checkpoint")
    raise AssertionError


def _train(settings: TextParameters, run: RunFolder, progress: Progress) -> bool:
    """Trains to the last iteration, or until Ctrl-C; returns whether Ctrl-C stopped the run."""
    progress.stage("starting Ray")
    import ray

    cpus, gpus = settings.resources()
    with running_ray(cpus, progress.stage) as context:
        if context is not None:
            there = ray.cluster_resources().get("GPU", 0.0)
            if gpus > there and not os.environ.get("RAY_ADDRESS"):  # a cluster may grow: Ray waits
                raise ConfigError(too_few_gpus(gpus, there))
            link = run.path / "logs" / "ray"
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            with suppress(OSError):
                link.symlink_to(Path(context.address_info["session_dir"]) / "logs", True)
        restored = " from its checkpoint" if run.has_checkpoint() else ""
        progress.stage(f"building the algorithm{restored}")
        # Env runners may have another working directory, and write to the log in the folder.
        folder = run.address if run.storage else str(run.path.absolute())
        config = settings.algorithm_config().reporting(run_folder=folder)
        with closing(iterations(config, tell=progress.stage)) as every:
            progress.earlier(next(every))
            for rows in every:
                progress.show(rows[-1])
                if stopping().is_set() and rows[-1]["iteration"] < settings.iterations:
                    return True
    return False


def stopping() -> Event:
    """Set when the run or the sweep shall stop after the running iterations."""
    return _STOPPING


@contextmanager
def stopping_politely(tell: Callable[[], object] = lambda: None) -> Iterator[Event]:
    """Stops after the running iterations on the first Ctrl-C, at once on the second.

    ``tell`` shows that the run is stopping; the signal may come during a print. Yields `stopping`.
    """
    _STOPPING.clear()

    def ask(number: int, frame: FrameType | None) -> None:
        _STOPPING.set()
        signal.signal(signal.SIGINT, usual)
        tell()

    usual = signal.signal(signal.SIGINT, ask)
    try:
        yield _STOPPING
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def running_ray(cpus: float, say: Tell) -> Iterator[Any]:
    """Starts Ray for the block, see `init_ray`; yields its context, `None` if Ray ran before."""
    import ray

    if ray.is_initialized():
        yield None
        return
    context = init_ray(cpus, say)
    try:
        yield context
    finally:
        ray.shutdown()


def make_auth_token() -> None:
    """Writes Ray's token into the home folder, unless it is there or the environment sets it.

    Ray's first start writes the token, too. But several first starts at once overwrite each other's
    token, and then refuse their own processes (Ray 2.60). Ray itself reports a folder that cannot
    be written.
    """
    path = Path.home() / ".ray" / "auth_token"
    if path.exists() or any(name.startswith("RAY_AUTH_") for name in os.environ):
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent) as draft:
            draft.write(secrets.token_hex(32))
            draft.flush()
            os.link(draft.name, path)  # never replaces a file


def init_ray(cpus: float, say: Tell) -> Any:
    """Starts Ray with at least these CPUs, or joins the cluster that ``RAY_ADDRESS`` names.

    A late start is repeated, see `start_ray`.
    """
    import ray

    # The driver waits for its workers; under Ray's default nice 15 any other program slows them.
    os.environ.setdefault("RAY_worker_niceness", "0")
    joining = bool(os.environ.get("RAY_ADDRESS"))
    if not joining:
        make_auth_token()

    def start() -> Any:
        return ray.init(
            None if joining else "local",  # not a cluster that runs on this machine already
            num_cpus=None if joining else max(os.cpu_count() or 1, math.ceil(cpus)),
            include_dashboard=None if joining else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )

    return start_ray(start, say)


def start_ray(start: Callable[[], Any], say: Tell) -> Any:
    """Returns what ``start`` returns, and calls it again if Ray comes late.

    Ray allows its first processes 30 seconds to start, which no setting changes for all of them. On
    a busy machine that is too short. Then Ray is started again for ten minutes, with pauses of 2,
    4, 8, 16 and 30 seconds, and ``say`` shows a line for each try.

    Raises:
        RuntimeError: If Ray does not start in ten minutes. Other errors of Ray are raised at once.
    """
    import psutil

    us = psutil.Process()
    before = {child.pid for child in us.children(recursive=True)}
    since = time.monotonic()
    tries = 0
    while True:
        tries += 1
        try:
            return start()
        except Exception as error:  # Ray has no class for it
            if not any(words in str(error) for words in _LATE):
                raise
            for child in us.children(recursive=True):  # of the failed start
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
