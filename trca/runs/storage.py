"""Runs on shared storage: a local run folder and its copy at a URI.

``--storage-path s3://bucket/runs`` accepts the URIs of ``pyarrow.fs.FileSystem.from_uri``, such as
``s3://``, ``gs://``, ``hdfs://`` and ``file://``. A run writes to a folder of the cache. Each write
of the status, after every iteration, pushes the changes to the URI. Another machine can pull and
continue the run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from filelock import FileLock
from pyarrow.fs import FileSelector, FileSystem, FileType, copy_files

from trca.common.cache import cache_folder, digest
from trca.common.files import HeldError, held, write_text
from trca.runs import STOPPED, TRIALS
from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from ray.train._internal.storage import StorageContext

_TUNE: Final = (
    *("checkpoint_*", "events.out.tfevents*", "params.*", "progress.csv", "result.json", "error.*"),
    STOPPED,
)
"""Files of Ray Tune and of a sweep's scheduler in the directory of a trial."""
_READ_OF_A_TRIAL: Final = (
    *("trial.json", "config.yaml", "status.json", "metrics.jsonl", "evaluation.json"),
    STOPPED,
)
_INDEX_OF_SHARDS: Final = ".metadata"
"""PyTorch's index of a checkpoint in shards. All other names with a dot are drafts and locks."""
_LINK: Final = ".link"
"""Suffix of the files that represent links: object stores have no links."""


class Storage:
    """The folder at a URI that holds runs, and the local folder of their copies, the ``cache``."""

    def __init__(
        self,
        uri: str,
        place: tuple[FileSystem, str] | None = None,
        cache: Path | None = None,
        foreign: Sequence[str] = (),
    ) -> None:
        """Opens the storage; file system, path and local folder follow from the URI by default.

        ``foreign`` are patterns of names that another program writes into the folders of runs.

        Raises a `ConfigError` if pyarrow has no file system for the URI.
        """
        self.uri = uri.rstrip("/")
        self.cache = cache or cache_folder() / "runs" / digest(self.uri)
        self._foreign = (TRIALS, *foreign)
        with self._errors():
            self._files, root = place or FileSystem.from_uri(self.uri)
        self._root = PurePosixPath(root)
        self._pushed: dict[str, tuple[int, int]] = {}

    @classmethod
    def of_experiment(cls, trial: StorageContext) -> Storage:
        """Returns the storage of the trials of a Ray Tune experiment."""
        files, root = trial.storage_filesystem, trial.experiment_fs_path
        cache = Path(trial.trial_working_directory).parent
        return cls(f"{files.type_name}://{root}", (files, root), cache, _TUNE)

    def runs(self) -> list[str]:
        """Returns the names of the runs."""
        selector = FileSelector(str(self._root), allow_not_found=True)
        with self._errors():
            entries = self._files.get_file_info(selector)
        return sorted(entry.base_name for entry in entries if entry.type == FileType.Directory)

    def pull(self, run: str) -> Path:
        """Updates the local copy of a run from the storage, and returns its folder.

        The local copy is unchanged if it is newer than the storage, after a failed push, or if
        another process writes to it.
        """
        folder, draft = self.cache / run, self.cache / f".{run}.part"
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.cache / f".{run}.pull"), suppress(HeldError):
            with held(folder / "lock"):
                if self._is_ahead(run):
                    return folder
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            selector = FileSelector(str(self._root / run), allow_not_found=True)
            with self._errors():
                for entry in self._files.get_file_info(selector):
                    if entry.base_name != TRIALS and not fnmatch(entry.base_name, "checkpoint_*"):
                        if entry.type == FileType.Directory:
                            (draft / entry.base_name).mkdir()
                        target = str(draft / entry.base_name)
                        copy_files(entry.path, target, source_filesystem=self._files)
            for mark in draft.rglob(f"*{_LINK}"):
                mark.with_name(mark.name.removesuffix(_LINK)).symlink_to(mark.read_text("utf-8"))
                mark.unlink()
            self._pushed = {k: v for k, v in self._pushed.items() if not k.startswith(f"{run}/")}
            with held(folder / "lock"):
                for path in folder.iterdir():
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path)
                    elif path.name != "lock":
                        path.unlink()
                for path in draft.iterdir():
                    path.rename(folder / path.name)
                draft.rmdir()
                _, files = _contents(folder)
            self._pushed |= {f"{run}/{name}": about for name, about in files.items()}
        return folder

    def _is_foreign(self, name: str) -> bool:
        return any(fnmatch(name.split("/")[0], pattern) for pattern in self._foreign)

    def pull_trials(self, sweep: str) -> None:
        """Copies the files of each trial that the sweep's table needs to this machine."""
        selector = FileSelector(str(self._root / sweep / TRIALS), allow_not_found=True)
        with self._errors():
            for trial in self._files.get_file_info(selector):
                if trial.type != FileType.Directory:
                    continue
                folder = self.cache / sweep / TRIALS / trial.base_name
                folder.mkdir(parents=True, exist_ok=True)
                for name in _READ_OF_A_TRIAL:
                    if text := _read(self._files, f"{trial.path}/{name}"):
                        write_text(folder / name, text)

    def _is_ahead(self, run: str) -> bool:
        """Whether the local copy has more iterations than the storage."""
        status = self.cache / run / "status.json"
        here = _iteration(status.read_text("utf-8")) if status.is_file() else -1
        with self._errors():
            return here > _iteration(_read(self._files, f"{self._root / run}/status.json"))

    def push(self, run: str) -> None:
        """Updates the storage: uploads new files, then their links, then deletes removed files.

        After an interrupted push, the storage still has the previous checkpoint.
        """
        folder, remote = self.cache / run, self._root / run
        links, files = _contents(folder)
        files = {name: about for name, about in files.items() if not self._is_foreign(name)}
        with self._errors():
            for name, about in files.items():
                if self._pushed.get(f"{run}/{name}") != about:
                    with _whole(self._files, remote / name) as draft:
                        copy_files(str(folder / name), draft, destination_filesystem=self._files)
                    self._pushed[f"{run}/{name}"] = about
            for name, to in links.items():
                _write(self._files, remote / f"{name}{_LINK}", to)
            self._delete_all_but(remote, {*files, *(f"{name}{_LINK}" for name in links)})

    def _delete_all_but(self, folder: PurePosixPath, kept: Set[str]) -> None:
        parents = {str(parent) for name in kept for parent in PurePosixPath(name).parents}
        entries = self._files.get_file_info(FileSelector(str(folder), recursive=True))
        for entry in sorted(entries, key=lambda entry: entry.path, reverse=True):  # inner first
            name = PurePosixPath(entry.path).relative_to(folder).as_posix()
            if self._is_foreign(name):
                continue
            if entry.type == FileType.Directory and name not in parents:
                self._files.delete_dir(entry.path)
            elif entry.type == FileType.File and name not in kept:
                self._files.delete_file(entry.path)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Adds the storage's URI to errors."""
        try:
            yield
        except (OSError, ValueError) as error:
            raise ConfigError(f"the storage {self.uri}: {error}") from None


def write_json_to(trial: StorageContext | None, name: str, value: Mapping[str, Any]) -> None:
    """Writes a JSON file into the directory of a Ray Tune trial, in a folder or at a URI."""
    assert trial is not None
    path = PurePosixPath(trial.trial_fs_path, name)
    _write(trial.storage_filesystem, path, json.dumps(value, indent=2) + "\n")


def read_json_from(trial: StorageContext | None, name: str) -> Any:
    """A JSON file of the directory of a Ray Tune trial; `None` if the file does not exist."""
    assert trial is not None
    text = _read(trial.storage_filesystem, f"{trial.trial_fs_path}/{name}")
    return json.loads(text) if text else None


@contextmanager
def _whole(files: FileSystem, path: PurePosixPath) -> Iterator[str]:
    """Yields a path for writing a file, which appears atomically.

    Object stores are atomic. On other file systems a complete draft is renamed.
    """
    files.create_dir(str(path.parent), recursive=True)
    if files.type_name not in ("local", "subtree", "hdfs"):
        yield str(path)
        return
    draft = str(path.with_name(f".{path.name}.part"))
    yield draft
    files.move(draft, str(path))


def _write(files: FileSystem, path: PurePosixPath, text: str) -> None:
    with _whole(files, path) as draft, files.open_output_stream(draft) as stream:
        stream.write(text.encode())


def _read(files: FileSystem, path: str) -> str:
    """The text of a file; empty if the file does not exist."""
    if files.get_file_info(path).type != FileType.File:
        return ""
    with files.open_input_stream(path) as stream:
        return str(stream.read().decode())


def _iteration(status: str) -> int:
    return int(json.loads(status)["iteration"]) if status else 0


def _contents(folder: Path) -> tuple[dict[str, str], dict[str, tuple[int, int]]]:
    """Returns the targets of a run's links, and size and modification time of its files.

    The lock, drafts, and links with absolute targets are left out.
    """
    links: dict[str, str] = {}
    files: dict[str, tuple[int, int]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        parts = {part for part in name.split("/") if part.startswith(".")}
        if parts - {_INDEX_OF_SHARDS} or name == "lock":
            continue
        if path.is_symlink():
            if not path.readlink().is_absolute():
                links[name] = str(path.readlink())
        elif path.is_file():
            files[name] = (path.stat().st_size, path.stat().st_mtime_ns)
    return links, files
