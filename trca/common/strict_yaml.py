"""Strict YAML: plain data without repeated keys.

The parser refuses repeated keys, and aliases (``*name``), which can make a small file huge. It
reads ``4e-4`` as a number (in YAML 1.1 a string).
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml

SUFFIXES: Final = frozenset({".yaml", ".yml"})
"""Suffixes of a file."""
MAX_BYTES: Final = 64 * 1024
"""Largest size of a file."""


def read_text(path: Path) -> str:
    """Reads a small text file.

    Raises:
        ValueError: If the file is larger than `MAX_BYTES` or not UTF-8.
    """
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text ({error.reason})") from None


def parse(text: str) -> Any:
    """Parses a YAML text.

    Raises:
        ValueError: If the text is not strict YAML; gives the reason in one line.
    """
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


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def packaged(package: str, name: str) -> Any:
    """Reads a YAML file in a package of this project; the C parser is 20 times as fast as `parse`.

    Args:
        package: Name of the package.
        name: Name of the file.
    """
    text = resources.files(package).joinpath(name).read_text("utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
