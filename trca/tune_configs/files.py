"""Reads settings: a YAML file by name or path, and ``key=value`` assignments on top of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from trca.common import strict_yaml
from trca.common.names import nearest


class ConfigError(ValueError):
    """Settings that cannot be used; says where, what is wrong and what would be right."""


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
        ConfigError: When there is no such file or it cannot be read; names the nearest match.
    """
    names = shipped()
    name = str(name_or_path)
    path = names.get(name) or names.get(name.removesuffix(".yaml")) or Path(name).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"no config {name!r}: give the path of a YAML file, or a name. {nearest(name, names)}"
        )
    try:
        text = strict_yaml.read_text(path)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    return parse(text, path.name)


def parse(text: str, source: str = "config") -> dict[str, Any]:
    """Reads settings from YAML text; ``source`` is what errors call it.

    Raises:
        ConfigError: When it is no YAML, repeats a key, or is no mapping with names as keys.
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
        ConfigError: When a text has no ``=`` or no key.
    """
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not all(key.strip().split(".")):
            raise ConfigError(f"--set {text!r}: write key=value, such as --set lr=4e-4")
        values[key.strip()] = parse(f"value: {value}", f"--set {text}")["value"]
    return values


def assign(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with new values, in order; a key ``a.b`` reaches into the mapping ``a``.

    Raises:
        ConfigError: When a key reaches into a plain value.
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
