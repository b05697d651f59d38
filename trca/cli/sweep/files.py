"""Sweep files by name or path, and the sweeps that come with the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from trca.algorithms.settings.sweeps import SweepSettings
from trca.runs.folder import run_name
from trca.tune_configs.files import ConfigError, assignments, read, shipped

_FOLDER: Final = "sweeps/"
_KEYS: Final = frozenset({"base", "seeds"})
"""Keys of a sweep that no run has."""


def shipped_sweeps() -> dict[str, str]:
    """The question of each sweep of the package by its name: the first line of its file."""
    sweeps = {name: path for name, path in shipped().items() if name.startswith(_FOLDER)}
    lines = {name: path.read_text("utf-8").splitlines()[0] for name, path in sweeps.items()}
    return {name: line.removeprefix("# ") for name, line in lines.items()}


def is_sweep(settings: Mapping[str, Any]) -> bool:
    """Whether settings belong to a sweep; else they belong to a run."""
    return not _KEYS.isdisjoint(settings)


def sweep_of(
    name_or_path: str,
    changes: Iterable[str] | None,
    need_data: bool = True,
    base: str | None = None,
) -> SweepSettings:
    """The sweep of a file, with changes.

    Args:
        name_or_path: A name of `shipped_sweeps`, or the path of a YAML file.
        changes: Texts ``KEY=VALUE`` for the key ``set`` of the sweep.
        need_data: Whether missing official data is an error.
        base: A config in place of the file's ``base``, by name or path. The file's ``set`` and
            ``panels`` are for its own base: the sweep does not have them.

    Raises:
        ConfigError: If the file does not exist or is the config of a run; lists the sweeps of the
            package. If the base does not exist or is a sweep. For wrong settings, names the key,
            its value and the allowed values.
    """
    sweeps = shipped_sweeps()
    width = max(map(len, sweeps))
    rows = [f"  {name:{width}}  {question}" for name, question in sweeps.items()]
    names = "\n".join(["one of these names:", *rows])
    named = name_or_path.removesuffix(".yaml") in shipped()
    if not named and not Path(name_or_path).expanduser().is_file():
        raise ConfigError(f"no sweep {name_or_path!r}: give the path of a YAML file, or {names}")
    data = read(name_or_path)
    if not is_sweep(data):
        raise ConfigError(
            f"{name_or_path} is the config of a run: trca train {name_or_path} runs it. For a"
            f" sweep give a file with base and seeds, or {names}"
        )
    if base is not None:
        if is_sweep(other := read(base)):
            raise ConfigError(f"--base {base} is a sweep: give the config of a run")
        data = {k: v for k, v in data.items() if k not in ("set", "panels")} | {"base": other}
    if isinstance(before := data.get("set") or {}, dict):
        data["set"] = before | assignments(changes or [])
    return SweepSettings.resolve(data, run_name(name_or_path), need_data)
