"""Reads settings: a YAML file by name or path, and ``key=value`` assignments on top of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from trca.common import strict_yaml
from trca.common.names import nearest

_NAMED: Final = re.compile(r"(?P<path>[^\n]+?)(?P<object>:[A-Za-z_]\w*)?")
_LONGEST_PATH: Final = 4096


class ConfigError(ValueError):
    """Wrong settings; the message names the file, the value and the allowed values."""


def shipped() -> dict[str, Path]:
    """The files that come with the package, by name such as ``sweeps/lambda``."""
    folder = Path(str(resources.files(__package__)))
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted(folder.rglob("*.yaml"))
    }


def read(name_or_path: str | Path) -> dict[str, Any]:
    """The settings of a file.

    Args:
        name_or_path: A name of `shipped`, or the path of a YAML file.

    Raises:
        ConfigError: For a missing or unreadable file; names the nearest match.
    """
    names = shipped()
    name = str(name_or_path)
    path = names.get(name) or names.get(name.removesuffix(".yaml")) or Path(name).expanduser()
    if (path / "config.yaml").is_file():
        raise ConfigError(
            f"{name} is a run and no config: name {name}/config.yaml for its settings, or continue"
            f" the run with trca train --resume {name}"
        )
    if not path.is_file():
        raise ConfigError(
            f"no config {name!r}: give the path of a YAML file, or a name"
            f" (docs/settings.md lists all). {nearest(name, names)}"
        )
    try:
        text = strict_yaml.read_text(path)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    return absolute(parse(text, path.name), path.parent)


def parse(text: str, source: str = "config") -> dict[str, Any]:
    """Reads settings from YAML text; errors name ``source``.

    Raises:
        ConfigError: For invalid YAML, a repeated key, or text that is no mapping of names.
    """
    try:
        data = strict_yaml.parse(text)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigError(f"{source}: a config is a mapping of names to values")
    return data


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Reads ``key=value`` texts; values are YAML.

    For example ``lr=4e-4``, ``env_config.task_types=[Heat, Cool]`` or ``model=tiny``.

    Raises:
        ConfigError: For a text without ``=`` or without a key.
    """
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not all(key.strip().split(".")):
            raise ConfigError(f"--set {text!r}: write key=value, such as --set lr=4e-4")
        values[key.strip()] = parse(f"value: {value}", f"--set {text}")["value"]
    return absolute(values)


def absolute(settings: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """The settings with absolute paths, so that they mean the same in every process.

    A string such as ``my_rule.py:mine``, ``rubric.yaml`` or ``./policy`` is a path if the file or
    folder exists; any other string stays the same.

    Args:
        settings: Settings.
        folder: First folder for relative paths; the current folder is the second.
    """
    places = [folder, Path()] if folder is not None else [Path()]

    def resolved(text: str) -> str:
        path, name = path_parts(text)
        for place in places if path is not None else ():
            candidate = place / path.expanduser()  # type: ignore[union-attr]
            if candidate.exists():
                return f"{candidate.resolve()}{name}"
        return text

    return {key: map_texts(value, resolved) for key, value in settings.items()}


def path_parts(text: str) -> tuple[Path | None, str]:
    """The path and the ``:Object`` of a string; `None` for a string that cannot be a path."""
    match = _NAMED.fullmatch(text)
    if match is None or len(text) > _LONGEST_PATH or not set(text) & set("./~"):
        return None, ""
    return Path(match["path"]), match["object"] or ""


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The value with every string changed, in mappings and lists too."""
    if isinstance(value, Mapping):
        return {key: map_texts(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [map_texts(each, change) for each in value]
    return change(value) if isinstance(value, str) else value


def assign(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with new values, in order; a key ``a.b`` reaches into the mapping ``a``.

    Raises:
        ConfigError: For a key that reaches into a plain value.
    """
    result = dict(settings)
    for key, value in values.items():
        *outer, name = key.split(".")
        place = result
        for part in outer:
            inner = place.get(part)
            if inner is not None and not isinstance(inner, Mapping):
                raise ConfigError(
                    f"{key}={value}: {part!r} is {inner!r}, which has no parts: set {part} itself"
                )
            place[part] = dict(inner or {})
            place = place[part]
        place[name] = value
    return result
