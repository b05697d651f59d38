"""Causes real faults in training runs, and measures the lost work.

Run it on one core (about ten minutes)::

    OMP_NUM_THREADS=1 python benchmarks/faults.py           # all faults
    OMP_NUM_THREADS=1 python benchmarks/faults.py node disk # faults with "node" or "disk" in a name

Every fault has a separate training run: TRCA in ALFWorld, a random model of Qwen2.5's architecture,
4 groups of 4 rollouts. After two undisturbed iterations, the fault occurs in the next iteration
(with ``trca train``: in the second of three). The table shows the log of failures, the number of
lost iterations and missing rollouts, and the additional seconds compared with the previous
iteration (for a run that ended: seconds from its resumption to its end). The exit status is 1 if
more than the current iteration was lost, or training did not continue.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

os.environ.setdefault("RAY_worker_niceness", "0")

import numpy as np
import ray
from ray._private.internal_api import memory_summary
from ray.cluster_utils import Cluster
from rich import box
from rich.console import Console
from rich.table import Table

from trca.algorithms import TRCAConfig
from trca.algorithms.learner.group import LearnersLostError
from trca.algorithms.learner.learner import TextLearner
from trca.common.json_lines import read_lines
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.text_env import Outcome
from trca.policies.engines.engine import EngineSpec
from trca.policies.engines.transformers import TransformersEngine
from trca.runs.folder import RunFolder

HERE: Final = Path(__file__).resolve()
STORE_MIB: Final = 100
TINY: Final[dict[str, Any]] = {
    "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
    "tasks_per_iteration": 4,
    "group_size": 4,
    "max_new_tokens": 6,
    "max_prompt_tokens": 160,
    "minibatch_size": 64,
    "train_malformed": True,
    "evaluation_interval": None,
    "num_learners": 0,
    "num_env_runners": 0,
}


# The faulty parts. Each waits for a file with the name of a fault, removes the file and fails.


def take(fault: Path) -> str:
    """Reads and removes the file of a fault.

    Empty if there is no file, for example because another process has removed the file.
    """
    with suppress(FileNotFoundError):
        words = fault.read_text()
        fault.unlink()
        return words
    return ""


class FaultyEnv(ALFWorldEnv):
    """An environment whose second step causes the fault in a file.

    Args:
        fault: The file.
        since: Share of the iterations before the fault.
        games: See `ALFWorldEnv`.
        split: See `ALFWorldEnv`.
        max_steps: See `ALFWorldEnv`.
    """

    def __init__(
        self,
        fault: str,
        since: float = 0.0,
        games: str = "small",
        split: str = "train",
        max_steps: int = 3,
    ) -> None:
        super().__init__(games, split, max_steps)
        self._fault, self._since = Path(fault), since
        self._always = self._fault.with_suffix(".always")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Starts an episode; see `gymnasium.Env.reset`."""
        self._done = (options or {}).get("progress", 0.0)
        self._name, self._taken = str(seed), 0
        return super().reset(seed=seed, options=options)

    def take_action(self, action: str) -> Outcome:
        """Takes a step, or causes the fault."""
        self._taken += 1
        if self._taken == 2:
            words = take(self._fault) if self._done >= self._since else ""
            if words == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            elif words == "hangs":
                threading.Event().wait()
            elif words == "fills the disk":
                resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
            elif words == "raises always":
                self._always.write_text(self._name)
            if words == "raises" or (
                self._always.exists() and self._always.read_text() == self._name
            ):
                raise OSError("the simulator fell over")
        return super().take_action(action)


class FaultyLearner(TextLearner):
    """A learner that kills its process during an update."""

    def compute_loss_for_module(self, **kwargs: Any) -> Any:
        """Computes the loss; then kills the process when the fault is due."""
        result = super().compute_loss_for_module(**kwargs)
        if take(Path(self.config.learner_config_dict["fault"])):
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class FaultyEngine(TransformersEngine):
    """An engine that fails permanently once a file names a fault."""

    fault: Path
    broken = ""

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Opens the engine; the option ``fault`` is the file."""
        engine = super().open(replace(spec, options={}))
        engine.fault = Path(spec.options["fault"])
        return engine

    def generate(self, requests: Any, sampling: Any) -> Any:
        """Generates, or breaks."""
        self.broken = self.broken or take(self.fault)
        if self.broken == "hangs":
            threading.Event().wait()
        if self.broken:
            raise RuntimeError("the GPU fell off the bus")
        return super().generate(requests, sampling)


# The results.


@dataclass(frozen=True)
class Seen:
    """The effect of a fault.

    Attributes:
        words: Lines of the log of failures, or the error.
        lost: Number of lost iterations.
        missing: Number of missing rollouts.
        seconds: Seconds until training continued.
    """

    words: str
    lost: int
    missing: int
    seconds: float


def make(folder: Path, **settings: Any) -> Any:
    """Returns the config of the training run of a fault."""
    config = TRCAConfig.from_preset("quickstart")
    config.environment(f"{HERE}:FaultyEnv", env_config={"fault": str(folder / "fault")})
    config.debugging(seed=7)
    config.update_from_dict(TINY | settings)
    config.training(
        learner_class=FaultyLearner, learner_config_dict={"fault": str(folder / "learner")}
    )
    return config


def train(algorithm: Any) -> tuple[float, dict[str, Any]]:
    """Trains an iteration; returns the seconds and the result."""
    start = time.perf_counter()
    result = algorithm.train()
    return time.perf_counter() - start, result


def disturb(config: Any, act: Callable[[Any], None], more: int = 1) -> Seen:
    """Trains two iterations, causes the fault, and continues training."""
    algorithm = config.build_algo()
    train(algorithm)
    usual, _ = train(algorithm)
    act(algorithm)
    lost = missing = 0
    incidents = []
    took = 0.0
    for k in range(1 + more):
        seconds, result = train(algorithm)
        took = took or seconds
        lost += not algorithm.rollouts
        missing += int(result["missing_rollouts"])
        incidents += algorithm.incidents
        if k == more and not algorithm.rollouts:
            raise RuntimeError("training did not go on")
    algorithm.stop()
    return Seen(tell(incidents), lost, missing, took - usual)


def tell(incidents: Sequence[Any]) -> str:
    """Summarizes incidents: number, kind, reason and action."""
    counts: dict[str, int] = {}
    for incident in incidents:
        place = incident.reason.partition(", at ")[0]
        words = f"{incident.kind}: {place}; {incident.action}"
        counts[words] = counts.get(words, 0) + 1
    return "\n".join(f"{count} x {words}" for words, count in counts.items()) or "nothing"


# The faults.


def runner_killed(folder: Path) -> Seen:
    """Kills the process of an env runner in the second step of a rollout."""
    config = make(folder, num_env_runners=2)
    return disturb(config, lambda _: write(folder / "fault", "dies"))


def runner_killed_ahead(folder: Path) -> Seen:
    """Kills the process of an env runner while the runners sample two iterations ahead."""
    config = make(folder, num_env_runners=2, max_staleness=2)
    return disturb(config, lambda _: write(folder / "fault", "dies"), more=3)


def learner_killed(folder: Path) -> Seen:
    """Kills the learner's process after the first mini-batch of an update; the run resumes."""
    config = make(folder, num_learners=1, minibatch_size=8).reporting(run_folder=folder / "run")
    algorithm = config.build_algo()
    train(algorithm)
    usual, _ = train(algorithm)
    write(folder / "learner", "dies")
    start = time.perf_counter()
    try:
        train(algorithm)
    except LearnersLostError:
        incidents = algorithm.incidents
    algorithm.stop()
    algorithm = config.copy(copy_frozen=False).build_algo()
    lost = 3 - algorithm.iteration
    _, result = train(algorithm)
    seconds = time.perf_counter() - start
    algorithm.stop()
    return Seen(tell(incidents), lost, int(result["missing_rollouts"]), seconds - usual)


def environment_raises(folder: Path) -> Seen:
    """An environment raises an error once."""
    return disturb(make(folder), lambda _: write(folder / "fault", "raises"))


def environment_raises_twice(folder: Path) -> Seen:
    """An environment raises an error, and again when the rollout is repeated."""
    return disturb(make(folder), lambda _: write(folder / "fault", "raises always"))


def environment_hangs(folder: Path) -> Seen:
    """A step of an environment never returns."""
    config = make(folder, env_step_timeout_s=3.0)
    return disturb(config, lambda _: write(folder / "fault", "hangs"))


def engine_dies(folder: Path, how: str = "dies") -> Seen:
    """The engine raises an error at every request."""
    fault = folder / "engine"
    config = make(
        folder,
        engine=f"{HERE}:FaultyEngine",
        engine_config={"fault": str(fault)},
        generation_timeout_s=10.0,
    )
    return disturb(config, lambda _: write(fault, how))


def engine_hangs(folder: Path) -> Seen:
    """A generation of the engine never returns."""
    return engine_dies(folder, "hangs")


def node_removed(folder: Path) -> Seen:
    """Removes the node of a runner, trains without the node, and adds a new node."""
    with joinable() as nodes:
        config = make(folder, num_env_runners=2)
        config.env_runners(custom_resources_per_env_runner={"place": 1})
        node = nodes.add_node(num_cpus=1, resources={"place": 1})
        words = []

        def remove(algorithm: Any) -> None:
            manager = algorithm.env_runner_group._worker_manager
            nodes.remove_node(node, allow_graceful=False)
            inner = algorithm.training_step

            def step() -> None:
                inner()
                words.append(str(manager.num_healthy_actors()))
                if len(words) == 2:
                    nodes.add_node(num_cpus=1, resources={"place": 1})
                    (gone,) = set(manager.actor_ids()) - set(manager.healthy_actor_ids())
                    await_actor(manager.actors()[gone])

            algorithm.training_step = step

        seen = disturb(config, remove, more=3)
    return Seen(
        f"{seen.words}\nrunners at work, by iteration: 2, {', '.join(words)}",
        seen.lost,
        seen.missing,
        seen.seconds,
    )


def object_store_full(folder: Path) -> Seen:
    """Fills Ray's object store with objects in use, so that no object can be spilled."""
    kept: list[Any] = []

    def fill(_: Any) -> None:
        for _ in range(STORE_MIB // 8 + 2):
            kept.append(ray.get(ray.put(np.zeros(2**20))))
        summary = memory_summary(
            ray.get_runtime_context().gcs_address, stats_only=True
        ).splitlines()
        kept.append(next(line for line in summary if "Plasma memory usage" in line))

    seen = disturb(make(folder, num_env_runners=2, num_learners=1), fill)
    return Seen(f"{seen.words}\n{kept[-1]}", seen.lost, seen.missing, seen.seconds)


def driver_killed(folder: Path) -> Seen:
    """Kills the process of ``trca train`` in the second iteration, and resumes the run."""
    return resumed(folder, "dies")


def disk_full(folder: Path) -> Seen:
    """Limits files to 300 kB from the second iteration on, and resumes the run."""
    return resumed(folder, "fills the disk")


def resumed(folder: Path, how: str) -> Seen:
    """Runs ``trca train`` with a fault in its second iteration, and resumes it."""
    fault = write(folder / "fault", how)
    settings = TINY | {"evaluation_interval": 100, "evaluation_tasks": 1}
    settings |= {"env_config.max_steps": 3, "env_config.fault": fault, "env_config.since": 0.3}
    run = RunFolder(folder / "run")
    ended = trca(
        folder,
        "quickstart",
        "--name=run",
        "--iterations=3",
        f"--env={HERE}:FaultyEnv",
        *(f"--set={name}={value}" for name, value in settings.items() if value is not None),
    )
    errors = [line for line in ended.stdout.splitlines() if line.startswith("error:")]
    if not run.path.exists():
        raise RuntimeError(ended.stdout[-2000:])
    saved = run.last_iteration()
    start = time.perf_counter()
    again = trca(folder, "--resume=run")
    if again.returncode:
        raise RuntimeError(again.stdout[-2000:])
    seconds = time.perf_counter() - start
    rows = run.metrics()
    incidents = read_lines(run.failures)
    words = [f"exit status {ended.returncode}", *errors]
    words += [f"{line['kind']}: {line['reason']}; {line['action']}" for line in incidents]
    missing = sum(int(row["missing_rollouts"]) for row in rows)
    if len(rows) != 3:
        raise RuntimeError(f"the resumed run has {len(rows)} iterations, not 3")
    return Seen("\n".join(words), 2 - saved, missing, seconds)


def trca(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``trca train`` in a separate process."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    return subprocess.run(
        [sys.executable, "-m", "trca", "train", *arguments, f"--storage-path={folder}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


FAULTS: Final[dict[str, Callable[[Path], Seen]]] = {
    "env runner killed while it samples": runner_killed,
    "the same, two iterations ahead": runner_killed_ahead,
    "learner killed in an update": learner_killed,
    "driver killed, and resumed": driver_killed,
    "node removed, another added": node_removed,
    "object store full": object_store_full,
    "environment raises once": environment_raises,
    "environment raises twice": environment_raises_twice,
    "environment never returns (limit 3 s)": environment_hangs,
    "engine dies": engine_dies,
    "engine hangs (limit 10 s)": engine_hangs,
    "disk full while saving": disk_full,
}


# Helpers.


def write(path: Path, words: str) -> Path:
    """Writes the file of a fault."""
    path.write_text(words)
    return path


def await_actor(actor: Any) -> None:
    """Waits for the answer of a restarted actor."""
    while True:
        try:
            ray.get(actor.ping.remote())
            return
        except ray.exceptions.RayActorError:
            time.sleep(0.1)


@contextmanager
def joinable() -> Iterator[Cluster]:
    """Yields the running cluster for adding nodes, and removes these nodes at the end."""
    nodes = Cluster(shutdown_at_exit=False)
    head: Any = ray._private.worker._global_node
    nodes.head_node, nodes.redis_address = head, head.redis_address
    try:
        yield nodes
    finally:
        for node in list(nodes.worker_nodes):
            nodes.remove_node(node, allow_graceful=False)


@contextmanager
def cluster() -> Iterator[None]:
    """Starts a Ray cluster of one node with a small object store and a place for one runner."""
    with TemporaryDirectory(prefix="ray") as folder:  # short, because it holds Ray's sockets
        ray.init(
            num_cpus=8,
            resources={"place": 1},
            object_store_memory=STORE_MIB * 2**20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=folder,
        )
        try:
            yield
        finally:
            ray.shutdown()


def attempt(do: Callable[[Path], Seen], folder: Path) -> Seen:
    """Causes a fault. If training does not continue, 99 iterations count as lost."""
    try:
        return do(folder)
    except Exception as error:
        traceback.print_exc()
        return Seen(f"{type(error).__name__}: {error}", 99, 0, math.nan)


def main() -> int:
    """Causes the selected faults one by one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="select faults by words in their names")
    words = parser.parse_args().words
    chosen = {n: f for n, f in FAULTS.items() if not words or any(word in n for word in words)}
    if not chosen:
        parser.error(f"no fault has {' or '.join(words)} in its name")
    table = Table(box=box.MARKDOWN)
    for column in ("fault", "log"):
        table.add_column(column, overflow="fold")
    for column in ("iterations lost", "rollouts missing", "seconds until recovery"):
        table.add_column(column, justify="right")
    bad = 0
    for name, do in chosen.items():
        print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
        ray_cluster = nullcontext() if do in (driver_killed, disk_full) else cluster()
        with TemporaryDirectory() as folder, ray_cluster:
            seen = attempt(do, Path(folder))
        bad += seen.lost > 1
        table.add_row(name, seen.words, str(seen.lost), str(seen.missing), f"{seen.seconds:.1f}")
    Console(width=160).print(table)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
