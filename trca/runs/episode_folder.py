"""The finished episodes of an evaluation under way, so that an interrupted evaluation continues."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trca import records
from trca.common.chat_endpoint import Usage
from trca.common.files import HeldError, held, write_json
from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from trca.records import Rollout

_SUFFIX: Final = ".episodes"
_ABOUT: Final = "evaluation.json"
_USAGE: Final = "usage.json"


class EpisodeFolder:
    """A file for each finished episode of an evaluation, by seed and number of the task.

    Attributes:
        path: The folder, next to the report.
        usage: Requests and tokens of the earlier commands.
    """

    def __init__(self, report: Path, about: Mapping[str, Any]) -> None:
        """Takes the path of the report without a suffix, and what all episodes have in common."""
        self.path = report.with_name(f"{report.name}{_SUFFIX}")
        self.usage = Usage()
        self._about = json.loads(json.dumps(about, default=str))

    def check(self, resume: bool) -> None:
        """Refuses to repeat episodes, and to continue another evaluation.

        Raises:
            ConfigError: If episodes exist without ``resume``; with ``resume``, if the interrupted
                evaluation has another model, panel or setting, or if the report is complete.
        """
        if not resume:
            if self:
                raise ConfigError(
                    f"{self.path} has {len(self)} episodes of this evaluation: --resume plays the"
                    " others; delete the folder to play all again"
                )
            return
        report = self.path.with_suffix(".json")
        if not self and report.is_file():
            raise ConfigError(f"{report} is complete: leave --resume out to play all again")
        others = sorted(self.path.parent.glob(f"*{_SUFFIX}"), key=lambda each: each.stat().st_mtime)
        for folder in [self.path] if self else others[-1:]:
            there = json.loads((folder / _ABOUT).read_text("utf-8"))
            for key in {**there, **self._about}:
                if there.get(key) != (value := self._about.get(key)):
                    raise ConfigError(
                        f"{folder} has {key}: {there.get(key)!r:.200}, not {value!r:.200}: continue"
                        " it with its own model, panel and settings, or leave --resume out"
                    )

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Creates the folder for one process; an empty folder is removed at the end.

        Raises:
            ConfigError: If another process plays this evaluation.
        """
        self.path.mkdir(exist_ok=True)
        try:
            with held(self.path / "lock"):
                write_json(self.path / _ABOUT, self._about)
                if (file := self.path / _USAGE).is_file():
                    self.usage = Usage(**json.loads(file.read_text("utf-8")))
                yield
        except HeldError as error:
            raise ConfigError(f"process {error} plays this evaluation: wait for its end") from None
        finally:
            if not self:
                self.remove()

    def add(self, seed: int, rollouts: Sequence[Rollout], usage: Usage) -> None:
        """Writes an episode, and the usage of this command so far."""
        self.count(usage)
        name = f"seed-{seed}_task-{rollouts[0].group:06d}.parquet"
        records.write_rollouts(self.path / name, rollouts)

    def count(self, usage: Usage) -> Usage:
        """Writes and returns the usage of all commands; takes the usage of this command."""
        total = Usage(**asdict(self.usage))
        total += usage
        write_json(self.path / _USAGE, asdict(total))
        return total

    def read(self, seed: int) -> list[Rollout]:
        """Reads the rollouts of a seed, in the order of their tasks."""
        files = sorted(self.path.glob(f"seed-{seed}_*.parquet"))
        return [rollout for file in files for rollout in records.read_rollouts(file)]

    def remove(self) -> None:
        """Removes the folder of an evaluation whose report is complete."""
        shutil.rmtree(self.path)

    def __len__(self) -> int:
        return len([*self.path.glob("seed-*.parquet")])
