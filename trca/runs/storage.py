"""Runs on shared storage: a run's folder on this machine, pushed to a URI.

``--storage-path s3://bucket/runs`` takes any URI that ``pyarrow.fs.FileSystem.from_uri`` knows,
such as ``s3://``, ``gs://``, ``hdfs://`` and ``file://``. A run works in a folder of the cache and
is pushed whenever its status is written, which is after every iteration; another machine pulls it
and goes on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from filelock import FileLock
from pyarrow.fs import FileSelector, FileSystem, FileType, copy_files

from trca.common.cache import cache_folder, digest
from trca.common.files import write_text
from trca.common.lock import HeldError, held
from trca.runs.names import STOPPED, TRIALS
from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from ray.train._internal.storage import StorageContext

_TUNE: Final = (
    *("checkpoint_*", "events.out.tfevents*", "params.*", "progress.csv", "result.json", "error.*"),
    STOPPED,
)
"""Files that Ray Tune and a sweep's scheduler write into the directory of a trial."""
_READ_OF_A_TRIAL: Final = (
    *("trial.json", "config.yaml", "status.json", "metrics.jsonl", "evaluation.json"),
    STOPPED,
)
_LINK: Final = ".link"
"""Ends the name of the file that stands for a link: object stores have none."""


class Storage:
    """The folder at a URI that holds runs.

    Attributes:
        uri: The URI.
        cache: The folder on this machine that holds the copies of its runs.
    """

    def __init__(
        self,
        uri: str,
        place: tuple[FileSystem, str] | None = None,
        cache: Path | None = None,
        others: Sequence[str] = (),
    ) -> None:
        """Opens the storage.

        Args:
            uri: The URI.
            place: File system and path; by default the URI's.
            cache: The folder on this machine; by default one in the cache of this package.
            others: Patterns of names that another program writes into the folders of runs.

        Raises:
            ConfigError: When pyarrow knows no file system for the URI.
        """
        self.uri = uri.rstrip("/")
        self.cache = cache or cache_folder() / "runs" / digest(self.uri)
        self._others = (TRIALS, *others)
        with self._errors():
            self._files, root = place or FileSystem.from_uri(self.uri)
        self._root = PurePosixPath(root)
        self._pushed: dict[str, tuple[int, int]] = {}

    @classmethod
    def of_experiment(cls, trial: StorageContext) -> Storage:
        """The folder of the trials of a Ray Tune experiment; each trial writes its own files."""
        files, root = trial.storage_filesystem, trial.experiment_fs_path
        cache = Path(trial.trial_working_directory).parent
        return cls(f"{files.type_name}://{root}", (files, root), cache, _TUNE)

    def runs(self) -> list[str]:
        """The names of the runs."""
        selector = FileSelector(str(self._root), allow_not_found=True)
        with self._errors():
            entries = self._files.get_file_info(selector)
        return sorted(entry.base_name for entry in entries if entry.type == FileType.Directory)

    def pull(self, run: str) -> Path:
        """Brings the copy on this machine up to date; returns its folder.

        A copy that is further than the storage, because the last push failed, is kept, and so is
        one that another process writes to.
        """
        folder, draft = self.cache / run, self.cache / f".{run}.part"
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.cache / f".{run}.pull"), suppress(HeldError):
            with held(folder / "lock"):
                if self._is_ahead(run):
                    return folder
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            with self._errors():
                self._copy(run, draft)
            for mark in draft.rglob(f"*{_LINK}"):
                mark.with_name(mark.name.removesuffix(_LINK)).symlink_to(mark.read_text("utf-8"))
                mark.unlink()
            self._pushed = {k: v for k, v in self._pushed.items() if not k.startswith(f"{run}/")}
            with held(folder / "lock"):
                _replace_all_but_the_lock(folder, draft)
        return folder

    def _copy(self, run: str, to: Path) -> None:
        selector = FileSelector(str(self._root / run), allow_not_found=True)
        for entry in self._files.get_file_info(selector):
            if entry.base_name != TRIALS and not fnmatch(entry.base_name, "checkpoint_*"):
                target = to / entry.base_name
                if entry.type == FileType.Directory:
                    target.mkdir()
                copy_files(entry.path, str(target), source_filesystem=self._files)

    def _is_others(self, name: str) -> bool:
        """Whether another program writes a file or folder, by its first part."""
        return any(fnmatch(name.split("/")[0], pattern) for pattern in self._others)

    def pull_trials(self, sweep: str) -> None:
        """Brings what a sweep's table reads of each trial to this machine."""
        selector = FileSelector(str(self._root / sweep / TRIALS), allow_not_found=True)
        with self._errors():
            for trial in self._files.get_file_info(selector):
                if trial.type != FileType.Directory:
                    continue
                folder = self.cache / sweep / TRIALS / trial.base_name
                folder.mkdir(parents=True, exist_ok=True)
                for name in _READ_OF_A_TRIAL:
                    if text := self._read(PurePosixPath(trial.path) / name):
                        write_text(folder / name, text)

    def _is_ahead(self, run: str) -> bool:
        """Whether the copy on this machine is further than the storage."""
        status = self.cache / run / "status.json"
        here = _iteration(status.read_text("utf-8")) if status.is_file() else -1
        with self._errors():
            return here > _iteration(self._read(self._root / run / "status.json"))

    def push(self, run: str) -> None:
        """Brings the storage up to date: what is new first, the links to it, then what went.

        A push that breaks off leaves the last whole checkpoint where it was.
        """
        folder, remote = self.cache / run, self._root / run
        links, files = _contents(folder)
        files = {name: about for name, about in files.items() if not self._is_others(name)}
        with self._errors():
            for name, about in files.items():
                if self._pushed.get(f"{run}/{name}") != about:
                    with self._whole(remote / name) as draft:
                        copy_files(str(folder / name), draft, destination_filesystem=self._files)
                    self._pushed[f"{run}/{name}"] = about
            for name, to in links.items():
                with (
                    self._whole(remote / f"{name}{_LINK}") as draft,
                    self._files.open_output_stream(draft) as stream,
                ):
                    stream.write(to.encode())
            self._delete_all_but(remote, {*files, *(f"{name}{_LINK}" for name in links)})

    @contextmanager
    def _whole(self, path: PurePosixPath) -> Iterator[str]:
        """Yields the name to write a file under; it is there whole or not at all.

        Object stores do this by themselves; elsewhere a draft takes the name once it is written.
        """
        self._files.create_dir(str(path.parent), recursive=True)
        if self._files.type_name not in ("local", "subtree", "hdfs"):
            yield str(path)
            return
        draft = str(path.with_name(f".{path.name}.part"))
        yield draft
        self._files.move(draft, str(path))

    def _delete_all_but(self, folder: PurePosixPath, kept: Set[str]) -> None:
        parents = {str(parent) for name in kept for parent in PurePosixPath(name).parents}
        gone = ""
        entries = self._files.get_file_info(FileSelector(str(folder), recursive=True))
        for entry in sorted(entries, key=lambda entry: entry.path):
            name = PurePosixPath(entry.path).relative_to(folder).as_posix()
            if (gone and name.startswith(gone)) or self._is_others(name):
                continue
            if entry.type == FileType.Directory and name not in parents:
                self._files.delete_dir(entry.path)
                gone = f"{name}/"
            elif entry.type == FileType.File and name not in kept:
                self._files.delete_file(entry.path)

    def _read(self, path: PurePosixPath) -> str:
        """The text of a file; empty where there is none."""
        if self._files.get_file_info(str(path)).type != FileType.File:
            return ""
        with self._files.open_input_stream(str(path)) as stream:
            return str(stream.read().decode())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Names the storage in errors."""
        try:
            yield
        except (OSError, ValueError) as error:
            raise ConfigError(f"the storage {self.uri}: {error}") from None


def _replace_all_but_the_lock(folder: Path, draft: Path) -> None:
    """Moves what is in a draft into a folder in place of what is there."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()
    for path in draft.iterdir():
        path.rename(folder / path.name)
    draft.rmdir()


def _iteration(status: str) -> int:
    return int(json.loads(status)["iteration"]) if status else 0


def _contents(folder: Path) -> tuple[dict[str, str], dict[str, tuple[int, int]]]:
    """The links of a run by what they name, and its files by size and time of change.

    Left out are the lock, drafts, and links to places on this machine alone.
    """
    links: dict[str, str] = {}
    files: dict[str, tuple[int, int]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if any(part.startswith(".") for part in name.split("/")) or name == "lock":
            continue
        if path.is_symlink():
            if not path.readlink().is_absolute():
                links[name] = str(path.readlink())
        elif path.is_file():
            files[name] = (path.stat().st_size, path.stat().st_mtime_ns)
    return links, files
