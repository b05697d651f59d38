"""Strict YAML: plain data without repeated keys, and records that are packaged or a user's files.

The parser refuses repeated keys, and aliases (``*name``), which can make a small file huge. It
reads ``4e-4`` as a number (in YAML 1.1 a string), and ``010`` as 10 (in YAML 1.1 as 8).
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Final, Self, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trca.common.errors import short_line, words
from trca.common.files import find
from trca.common.names import nearest

SUFFIXES: Final = frozenset({".yaml", ".yml"})
"""Suffixes of a file."""
MAX_BYTES: Final = 64 * 1024
"""Largest size of a file."""


def read_text(path: Path) -> str:
    """Reads a small text file; `ValueError` above `MAX_BYTES`, and if it is not UTF-8."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text ({error.reason})") from None


def parse(text: str) -> Any:
    """Parses a YAML text; raises a `ValueError` of one line if it is not strict YAML."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark, str(error.problem)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{place}{problem[:200]}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(" ".join(str(error).split())[:300]) from None
    except (KeyError, IndexError, AttributeError):  # from PyYAML, for a tag such as !!bool
        raise ValueError("a value does not fit its tag: leave the tag out") from None


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed: write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, Hashable):
                raise yaml.YAMLError(f"line {line} has {key!r} as a key: a key is a plain value")
            if key in seen:
                raise yaml.YAMLError(f"{key!r} is repeated in line {line}: keep one of the lines")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int | str:
    """An integer as in YAML 1.2: ``010`` is 10, not octal, and ``1:30`` is a text."""
    text = node.value.replace("_", "")
    if ":" in text:
        return str(node.value)
    return int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else loader.construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def packaged(package: str, name: str) -> Any:
    """Reads a file of this project by the names of its package and file.

    The C parser is 20 times as fast as `parse`.
    """
    text = resources.files(package).joinpath(name).read_text("utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class Record(BaseModel):
    """Immutable data."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


class FileRecord(Record):
    """Immutable data of a packaged or an own YAML file. Subclasses set the class attributes.

    Attributes:
        kind: Name of the kind in error messages.
        folder: Folder of the packaged files.
        error: Class of the errors.
        part: The field with the parts of the file, the name of a part, and its class.
    """

    kind: ClassVar[str]
    folder: ClassVar[Path]
    error: ClassVar[type[ValueError]]
    part: ClassVar[tuple[str, str, type[BaseModel]]]
    source: str = Field(default="", exclude=True, description="name of the file in errors")

    @classmethod
    def load(cls, name_or_path: str | Path) -> Self:
        """Loads a packaged file by its name, such as ``alfworld``, or a user's file by its path.

        Raises:
            ValueError: An `error`, if there is no such file, or it breaks a rule. The message names
                the file, the place and the fix.
        """
        name, records = str(name_or_path), _packaged_records(cls)
        if name in records:
            return records[name]  # type: ignore[no-any-return]
        try:
            path = find(name)
            exists, is_yaml = path.is_file(), path.suffix in SUFFIXES
            text = read_text(path) if exists and is_yaml else ""
        except (ValueError, OSError, RuntimeError) as error:  # RuntimeError: ~ of an unknown user
            raise cls.error(f"{short_line(name)}: {words(error)}") from None
        if not exists:
            raise cls.error(
                f"no {cls.kind} {short_line(repr(name))}: give the path of a YAML file, or a name."
                f" {nearest(name, records)}"
            )
        if not is_yaml:
            raise cls.error(f"{path}: name the file .yaml: a run keeps copies of such files")
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, source: str = "") -> Self:
        """Parses a YAML text. Error messages name its ``source``, by default the kind.

        Raises:
            ValueError: An `error`, if the text is not YAML or breaks a rule.
        """
        source = source or cls.kind
        try:
            data = parse(text)
        except ValueError as error:
            raise cls.error(f"{source}: not a YAML file: {error}") from None
        if not isinstance(data, dict):
            required = [repr(n) for n, field in cls.model_fields.items() if field.is_required()]
            raise cls.error(f"{source}: a {cls.kind} is a mapping with {' and '.join(required)}")
        try:
            record = cls.model_validate({**data, "source": source})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where, model, place = source, cast("type[BaseModel]", cls), first["loc"]
            if len(place) > 1 and place[0] == cls.part[0]:
                where += f": {cls.part[1]} {_name(data[place[0]], place[1])}"
                model, place = cls.part[2], place[2:] or (cls.part[1],)
            key = ".".join(map(str, place))
            if first["type"] == "extra_forbidden":
                hint = nearest(key, set(model.model_fields) - {"source"})
                raise cls.error(f"{where}: unknown key {key!r}: {hint}") from None
            try:
                value = "" if first["type"] == "missing" else str(first["input"])[:60]
            except ValueError:  # a number with thousands of digits has no text
                value = "a very large number"
            shown = f" is {value!r}" if value else ""
            raise cls.error(f"{where}: {key}{shown}: {first['msg'][:200]}") from None
        record.check_all()
        return record

    def check_all(self) -> None:
        """Checks the rules that concern several fields; raises an `error`."""


@cache
def _packaged_records(record: type[FileRecord]) -> dict[str, Any]:
    paths = record.folder.glob("*.yaml")
    return {path.stem: record.parse(path.read_text("utf-8"), path.name) for path in paths}


def _name(parts: Any, key: Any) -> str:
    """The key of a part of a mapping; the id of a part of a list, or its number."""
    if not isinstance(parts, list):
        return repr(key)
    part = parts[key]
    return repr(part["id"]) if isinstance(part, dict) and part.get("id") else f"number {key + 1}"
