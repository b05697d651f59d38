"""`RunFolder`: the files of a run. Every file is complete, even after a crash.

outputs/quickstart/
    config.yaml           every resolved setting
    versions.json         versions of packages, git commit, Python, machine
    panels.json           the tasks of each split, and their hash
    status.json           state, iteration, process
    metrics.jsonl         one line per iteration
    failures.jsonl        one line per failure; absent without failures
    judgments.jsonl       answers of a model to the questions of a library (trca recredit)
    tensorboard/          the metrics as event files
    tracking.json         the run's ids in MLflow, W&B and trackio
    rollouts/iteration_000012/{train,eval}.parquet
    checkpoints/iteration_000012/, and the links best and last
    logs/                 output of the libraries
    curve.png             the learning curve
    files/                copies of the user's files, with hashes in files.json
    lock                  locked by the process that writes to the folder
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from trca.common.cache import cache_folder
from trca.common.files import HeldError, held, holder, point_link, write_text, writing_folder
from trca.common.json_lines import append_lines, read_lines
from trca.common.names import nearest
from trca.runs import TRIALS
from trca.runs.own_files import by_content, keep, restore
from trca.tune_configs.files import ConfigError, parse

if TYPE_CHECKING:
    from ray.train._internal.storage import StorageContext

    from trca.records.rollout import Incident
    from trca.runs.storage import Storage

DEFAULT_ROOT: Final = Path("outputs")
_SECONDS_BETWEEN_TRIES: Final = 0.5
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]+://")
_ITERATION: Final = re.compile(r"iteration_(\d{6,})")

State = Literal["running", "finished", "interrupted", "failed"]
Which = Literal["best", "last"]
"""The names of a run's checkpoints."""


class RunFolder:
    """The folder of a run, and the shared storage with a copy; `None` for a local run."""

    def __init__(self, path: Path, storage: Storage | None = None) -> None:
        self.path = path
        self.storage = storage

    @classmethod
    def create(cls, root: Path | str, name: str, numbered: bool = True) -> RunFolder:
        """Creates a new folder in a folder of runs or at its URI; never changes an existing folder.

        An existing name gets a number, or is an error if not ``numbered``.

        Raises:
            ConfigError: If the name is not a valid folder name or exists, or the folder is not
                writable. The message names the fix.
        """
        cls.check_name(root, name, numbered)
        storage, folder = _place(root)
        stored = storage.runs() if storage else []
        for number in itertools.count(1):
            path = folder / (name if number == 1 else f"{name}-{number}")
            if path.name in stored:
                continue
            try:
                folder.mkdir(parents=True, exist_ok=True)
                path.mkdir()
                break
            except FileExistsError:
                if not numbered:
                    raise ConfigError(_taken(path, storage)) from None
            except OSError as error:
                raise ConfigError(_not_writable(path, error)) from None
        return cls(path, storage)

    @classmethod
    def check_name(cls, root: Path | str, name: str, numbered: bool = False) -> None:
        """Refuses the name of a new run as `create` does. Writes nothing."""
        if not re.fullmatch(r"[\w.+=-]+", name) or name.strip(".") == "":
            raise ConfigError(f"the name {name!r}: use letters, digits and . _ - + =")
        storage, folder = _place(root)
        path = folder / name
        if not numbered and (name in storage.runs() if storage else path.exists()):
            raise ConfigError(_taken(path, storage))
        there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not there.is_dir():
            raise ConfigError(f"{folder}: a file is in the way: name a folder")
        try:
            TemporaryDirectory(dir=there).cleanup()  # root may not write to /proc
        except OSError as error:
            raise ConfigError(_not_writable(folder, error)) from None

    @classmethod
    def open(cls, name_or_path: str | Path, root: Path | str = DEFAULT_ROOT) -> RunFolder:
        """Finds a run by path or URI, or by its name in ``root``.

        A run on shared storage is copied to this machine.

        Raises:
            ConfigError: If the run does not exist. The message lists the nearest names.
        """
        storage, run = _storage(root), str(name_or_path)
        if place := _storage(run.rstrip("/").rpartition("/")[0]):
            storage, run = place, run.rstrip("/").rpartition("/")[2]
        if storage:
            runs = storage.runs()
            if run not in runs:
                hint = nearest(run, runs) if runs else f"there are no runs in {storage.uri}"
                raise ConfigError(f"no run {str(name_or_path)!r}: {hint}")
            return cls(storage.pull(run), storage)
        root = Path(root)
        for path in (Path(name_or_path).expanduser(), root / name_or_path):
            if (path / "config.yaml").is_file():
                return cls(path)
        if (folder := Path(name_or_path).expanduser()).is_dir():
            inner = sorted(file.parent for file in folder.glob("*/config.yaml"))
            hint = f". A run in it: {inner[0]}" if inner else ""
            raise ConfigError(f"{name_or_path} is not a run: it has no config.yaml{hint}")
        runs = [p.parent.name for p in root.glob("*/config.yaml")] if root.is_dir() else []
        hint = nearest(Path(name_or_path).name, runs) if runs else f"there are no runs in {root}/"
        raise ConfigError(f"no run {str(name_or_path)!r}: {hint}")

    @classmethod
    def open_run(cls, name_or_path: str | Path, root: Path | str = DEFAULT_ROOT) -> RunFolder:
        """Finds a run as `open` does; raises a `ConfigError` for the folder of a sweep, too."""
        folder = cls.open(name_or_path, root)
        if trials := sorted(file.parent for file in (folder.path / TRIALS).glob("*/trial.json")):
            raise ConfigError(f"{folder.path} is a sweep: name a trial of it, such as {trials[0]}")
        return folder

    @classmethod
    def at(cls, path: str | Path) -> RunFolder:
        """Opens or creates the folder at a path, or the local copy at a URI without a download."""
        parent, _, name = str(path).rstrip("/").rpartition("/")
        storage, place = _place(parent)
        folder = cls(place / name if storage else Path(path).absolute(), storage)
        folder.path.mkdir(parents=True, exist_ok=True)
        return folder

    @classmethod
    def of_trial(cls, trial: StorageContext) -> RunFolder:
        """Returns the directory of a Ray Tune trial.

        On a local file system the run is written in place. With remote storage, the working
        directory is updated from the storage, and pushed after each iteration. Tune's
        ``SyncConfig(sync_artifacts=True)`` copies only from the node to the storage and always
        completely: a trial that continues on another node would overwrite its records.
        """
        from pyarrow.fs import LocalFileSystem

        from trca.runs.storage import Storage

        if isinstance(trial.storage_filesystem, LocalFileSystem):
            return cls.at(trial.trial_fs_path)
        storage = Storage.of_experiment(trial)
        return cls(storage.pull(str(trial.trial_dir_name)), storage)

    def trial(self, name: str) -> RunFolder:
        """Returns the run folder of a sweep's trial. The folder may not exist yet."""
        return RunFolder(self.path / TRIALS / name, _storage(f"{self.address}/{TRIALS}"))

    @classmethod
    def exists(cls, name: str, root: Path | str = DEFAULT_ROOT) -> bool:
        """Whether ``root`` contains a run with this name."""
        storage, folder = _place(root)
        return name in storage.runs() if storage else (folder / name / "config.yaml").is_file()

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.resolve().name

    @property
    def address(self) -> str:
        """The run's path, or its URI on shared storage, as an argument for commands."""
        return f"{self.storage.uri}/{self.name}" if self.storage else str(self.path)

    def push(self) -> None:
        """Copies changes to the shared storage, if the run has one.

        Raises a `ConfigError` if the storage is not writable. The local folder is still complete.
        """
        if self.storage:
            self.storage.push(self.name)

    @contextmanager
    def locked(self, again: bool = False, wait_s: float = 0) -> Iterator[None]:
        """Locks the folder for this process. A killed process leaves no lock.

        Args:
            again: Whether this process may hold the lock already.
            wait_s: Seconds to wait for another process to release the lock.

        Raises:
            ConfigError: If another process holds the lock. The message names its pid.
        """
        end = time.monotonic() + wait_s
        with ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(held(self.path / "lock"))
                    break
                except HeldError as error:
                    if again and str(error) == holder():
                        break
                    if time.monotonic() < end:
                        time.sleep(_SECONDS_BETWEEN_TRIES)
                        continue
                    raise ConfigError(
                        f"{self.path} is in use by process {error}: wait until it ends, or stop it"
                    ) from None
                except OSError as error:
                    raise ConfigError(_not_writable(self.path, error)) from None
            yield

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Writes a run's settings, and copies the user's files in the settings."""
        self.write_config(keep(settings, self.path))

    def write_config(self, settings: Mapping[str, Any]) -> None:
        """Writes ``config.yaml``."""
        write_text(self.path / "config.yaml", yaml.safe_dump(dict(settings), sort_keys=False))

    def read_config(self) -> dict[str, Any]:
        """Returns the run's settings, with absolute paths of the copied files.

        Raises a `ConfigError` if a copy is missing or changed, or a file is damaged.
        """
        path = self.path / "config.yaml"
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise _damaged(path, error) from None
        return restore(parse(text, str(path)), self.path, self.own_files())

    def differing(self, settings: Mapping[str, Any], left_out: Set[str] = frozenset()) -> str:
        """How other flat settings differ from the run's, in words; empty if they do not.

        Files of the user are compared by name and content. A key that the run lacks does not count.
        """
        has, other = by_content(self.read_config()), parse(yaml.safe_dump(by_content(settings)))
        for key, value in other.items():
            if key not in left_out and has.get(key, value) != value:
                return f"{key}: {has[key]!r:.200}, not {value!r:.200}"
        return ""

    def own_files(self) -> dict[str, dict[str, str]]:
        """Returns the copies of the user's files by name, with source and hash."""
        record: dict[str, dict[str, str]] = self.read_json("files.json") or {}
        return record

    def write_json(self, file_name: str, value: Any) -> None:
        """Writes a JSON file of the folder atomically."""
        write_text(self.path / file_name, json.dumps(value, indent=2, default=float) + "\n")

    def read_json(self, file_name: str) -> Any:
        """Reads a JSON file of the folder; returns `None` if the file does not exist.

        Raises a `ConfigError` if the file is damaged.
        """
        path = self.path / file_name
        try:
            return json.loads(path.read_text("utf-8")) if path.exists() else None
        except ValueError as error:
            raise _damaged(path, error) from None

    def status(self) -> dict[str, Any]:
        """Returns state, iteration, process and message; empty before the run starts."""
        status: dict[str, Any] = self.read_json("status.json") or {}
        return status

    def set_status(self, state: State, iteration: int, message: str = "") -> None:
        """Writes the state of the run, and copies changes to the shared storage."""
        status = {"state": state, "iteration": iteration, "pid": os.getpid(), "message": message}
        self.write_json("status.json", status)
        self.push()

    @property
    def failures(self) -> Path:
        """The file of failures; absent without failures."""
        return self.path / "failures.jsonl"

    def append_failures(self, iteration: int, incidents: Sequence[Incident]) -> None:
        """Appends a line for each incident of an iteration, and flushes the lines to disk."""
        lines = [
            {
                **asdict(each),
                "time": datetime.fromtimestamp(each.time, UTC).isoformat(timespec="seconds"),
                "iteration": iteration,
            }
            for each in incidents
        ]
        if lines:
            append_lines(self.failures, lines)

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Appends the row of an iteration and flushes it to disk."""
        append_lines(self.path / "metrics.jsonl", [row])

    def metrics(self) -> list[dict[str, Any]]:
        """Returns the rows of metrics, without an incomplete last line."""
        return read_lines(self.path / "metrics.jsonl")

    def rewind(self, iteration: int) -> None:
        """Deletes metrics and rollouts of iterations after ``iteration``."""
        rows = [row for row in self.metrics() if row["iteration"] <= iteration]
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        for folder in (self.path / "rollouts").glob("iteration_*"):
            if _number(folder) > iteration:
                shutil.rmtree(folder)

    def rollouts(self, iteration: int) -> Path:
        """Returns the folder for the rollouts of an iteration, and creates it if needed."""
        folder = self.path / "rollouts" / f"iteration_{iteration:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def checkpoint(self, which: Which = "last") -> Path:
        """Returns the folder of the best or the last checkpoint; `ConfigError` if there is none."""
        link = self.path / "checkpoints" / which
        if not link.exists() and self.has_checkpoint():
            raise ConfigError(
                f"no checkpoint of {self.address} is the best of an evaluation yet: use"
                f" {self.address}@last"
            )
        if not link.exists():
            raise ConfigError(
                f"{self.path} has no checkpoint yet. Train it: trca train --resume"
                f" {quoted(self.path)}"
            )
        return link.resolve()

    def has_checkpoint(self) -> bool:
        """Whether the run has a checkpoint."""
        return (self.path / "checkpoints" / "last").exists()

    def last_iteration(self) -> int:
        """Returns the iteration of the last checkpoint; 0 without a checkpoint."""
        return self.checkpoint_iteration() if self.has_checkpoint() else 0

    def checkpoint_iteration(self, which: Which = "last") -> int:
        """Returns the iteration of a checkpoint."""
        return _number(self.checkpoint(which))

    def save_checkpoint(self, iteration: int, write: Callable[[Path], object], best: bool) -> Path:
        """Calls ``write`` with the absolute path of a folder for a checkpoint.

        Old checkpoints are removed after the new checkpoint is complete.

        Raises:
            OSError: If the checkpoint cannot be written. The old checkpoints are unchanged.
        """
        folder = self.path.resolve() / "checkpoints"
        folder.mkdir(exist_ok=True)
        target = folder / f"iteration_{iteration:06d}"
        with writing_folder(target) as draft:
            write(draft)
        for which in ("last", "best") if best else ("last",):
            point_link(folder / which, target.name)
        kept = {(folder / which).resolve().name for which in ("best", "last")}
        for old in folder.glob("iteration_*"):
            if old.name not in kept:
                shutil.rmtree(old)
        return target


def _storage(root: Path | str) -> Storage | None:
    return _storage_at(str(root), cache_folder()) if is_uri(root) else None


@cache
def _storage_at(uri: str, cached_in: Path) -> Storage:
    """Returns the same object for each URI and cache: the object records the pushed files."""
    from trca.runs.storage import Storage

    return Storage(uri)


def _place(root: Path | str) -> tuple[Storage | None, Path]:
    """The storage of a folder of runs, if the root is a URI, and the folder on this machine."""
    storage = _storage(root)
    return storage, storage.cache if storage else Path(root)


def _taken(path: Path, storage: Storage | None) -> str:
    """The error for the name of a run that exists."""
    address = f"{storage.uri}/{path.name}" if storage else path
    fix = f"continue the run: --resume {quoted(address)}"
    if not (storage or (path / "config.yaml").is_file()):
        fix = "delete the folder, unless a run is just starting in the folder"
    return f"{address} exists: choose another --name, or {fix}"


def _damaged(path: Path, error: ValueError) -> ConfigError:
    return ConfigError(f"{path} is damaged ({error}): restore the file, or start a new run")


def _not_writable(path: Path, error: OSError) -> str:
    return f"cannot write to {path}: {error.strerror or error}: choose another --storage-path"


def quoted(path: Path | str) -> str:
    """Quotes a path for a shell."""
    return shlex.quote(str(path))


def is_uri(path: object) -> bool:
    """Whether a storage path is a URI, such as ``s3://bucket/runs``."""
    return _URI.match(str(path)) is not None


def run_name(config: str) -> str:
    """Returns the file's name without ``.yaml``; for the config of a run folder, the run's name."""
    path = Path(config)
    if path.name == "config.yaml":
        return path.resolve().parent.name
    return path.name.removesuffix(".yaml").removesuffix(".yml")


def _number(folder: Path) -> int:
    match = _ITERATION.fullmatch(folder.name)
    if match is None:
        raise ConfigError(f"{folder}: expected a folder named like iteration_000012")
    return int(match[1])
