"""Reads settings: a YAML file by name or path, and ``key=value`` assignments on top of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml

MAX_BYTES: Final = 64 * 1024
"""Largest settings file."""


class ConfigError(ValueError):
    """Settings that cannot be used; says where, what is wrong and what would be right."""


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key stands once, aliases are refused, and ``4e-4`` is a number."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed: write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.YAMLError(f"{key!r} stands twice, the second time in line {line}")
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


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
    if path.stat().st_size > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES} bytes: that is no config")
    try:
        return parse(path.read_text("utf-8"), path.name)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text ({error.reason})") from None


def parse(text: str, source: str = "config") -> dict[str, Any]:
    """Reads settings from YAML text; ``source`` is what errors call it.

    Raises:
        ConfigError: When it is no YAML, repeats a key, or is no mapping with names as keys.
    """
    try:
        data = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{source}: {' '.join(str(error).split())[:300]}") from None
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


def nearest(word: str, words: Iterable[str]) -> str:
    """What an error adds after an unknown word: the nearest known one, and a list of them.

    The list is left out where it is long and there is a near one.
    """
    known = sorted(words)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close and len(known) > 20:
        return f"did you mean {close[0]!r}?"
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(known)}"
