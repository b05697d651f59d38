"""Registries: objects by name, registered or from a user's file.

::

    ENGINES = Registry("engine", {"vllm": "my_engines.vllm:VLLMEngine"})
    ENGINES.get("vllm")
    ENGINES.get("path/to/file.py:MyEngine")
    ENGINES.get("package.module:MyEngine")

Loading an object from a file or module runs its code.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, Generic, TypeVar, overload

from trca.common.files import find
from trca.common.names import nearest

T = TypeVar("T")
_Value = TypeVar("_Value")
_PREFIX: Final = "trca_own_"
"""Prefix of the names of modules of `load_file`."""


class Registry(Generic[T]):
    """Objects of one kind by name."""

    def __init__(self, kind: str, entries: Mapping[str, T | str] | None = None) -> None:
        """Creates a registry of a kind, which errors name, such as ``engine``.

        A string ``package.module:attribute`` in ``entries`` is imported on first use.
        """
        self._kind = kind
        self._entries: dict[str, T | str] = dict(entries or {})

    @overload
    def register(self, name: str) -> Callable[[_Value], _Value]: ...
    @overload
    def register(self, name: str, value: T | str) -> None: ...
    def register(self, name: str, value: Any = None) -> Any:
        """Registers an object, or ``package.module:attribute``. Without ``value``: a decorator.

        Raises:
            ValueError: If another object has the name, or the name has a colon.
        """
        if value is None:
            return lambda decorated: self.register(name, decorated) or decorated
        if ":" in name:
            raise ValueError(f"{self._kind} {name!r} has a colon in its name: remove the colon")
        if name in self._entries and _origin(self._entries[name]) != _origin(value):
            raise ValueError(f"{self._kind} {name!r} is already registered: choose another name")
        self._entries[name] = value
        return None

    def get(self, name: str) -> T:
        """Returns a registered object, ``path/to/file.py:Object`` or ``package.module:Object``.

        Raises:
            ValueError: If the name is unknown, or the file or module cannot be loaded or lacks the
                object. The message suggests the nearest name.
        """
        if name in self._entries:
            value = self._entries[name]
            if isinstance(value, str):
                place, _, attribute = value.partition(":")
                value = self._entries[name] = getattr(importlib.import_module(place), attribute)
            return value
        place, colon, attribute = name.rpartition(":")
        if not colon:
            if name.endswith(".py"):
                raise ValueError(f"{self._kind} {name!r} names no object: write {name}:NAME")
            raise ValueError(
                f"unknown {self._kind} {name!r}: {nearest(name, self.names())};"
                " or give path/to/file.py:NAME"
            )
        if place.endswith(".py"):
            module = load_file(Path(place))
        else:
            try:
                module = importlib.import_module(place)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise ValueError(f"{self._kind}: cannot import {place!r}: {reason}") from error
        if not hasattr(module, attribute):
            defined = [  # by the module itself, as far as a value tells
                n
                for n, v in vars(module).items()
                if n[0] != "_" and not isinstance(v, ModuleType)
                if not isinstance(v, FunctionType | type) or v.__module__ == module.__name__
            ]
            raise ValueError(f"{place} has no {attribute!r}: {nearest(attribute, defined)}")
        return getattr(module, attribute)  # type: ignore[no-any-return]

    def check(self, name: str) -> str:
        """Returns the name if `get` accepts it; raises a `ValueError` as `get` does."""
        if name not in self._entries:
            self.get(name)
        return name

    def names(self) -> tuple[str, ...]:
        """Returns the registered names, sorted."""
        return tuple(sorted(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries


def own_file(name: str) -> Path | None:
    """Returns the file of a name ``path/to/file.py:Object``; `None` for other names."""
    place, _, _ = name.rpartition(":")
    return Path(place) if place.endswith(".py") else None


def short_name(name: str) -> str:
    """Shortens a name for display: a file without its folder, such as ``env.py:KeyDoor``."""
    file = own_file(name)
    return f"{file.name}:{name.rpartition(':')[2]}" if file else name


def load_file(path: Path) -> ModuleType:
    """Imports a Python file as a module, once per process and content.

    A copy of the file gives the same module.

    Raises:
        ValueError: If the file does not exist or raises an error; gives the reason in one line.
    """
    path = find(path)
    if not path.is_file():
        raise ValueError(f"no file {path}")
    key = hashlib.sha256(path.read_bytes()).hexdigest()
    name = f"{_PREFIX}{path.stem}_{key[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def file_of(value: Any) -> Path | None:
    """Returns the file of a class or function from `load_file`; `None` for other objects."""
    module = str(value.__module__)
    return Path(str(sys.modules[module].__file__)) if module.startswith(_PREFIX) else None


def _origin(value: Any) -> Any:
    """Identifies an object by its place of definition, so that a notebook cell can run again."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return (module, name) if module and name and "<" not in name else value
