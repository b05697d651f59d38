"""Objects by name: registered ones, and a user's own.

::

    ENGINES = Registry("engine", {"vllm": "my_engines.vllm:VLLMEngine"})
    ENGINES.get("vllm")
    ENGINES.get("path/to/file.py:MyEngine")
    ENGINES.get("package.module:MyEngine")

A file or module that is named this way is code, and runs when it is loaded.
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
_OWN: Final = "trca_own_"
"""How the names of modules begin that `load_file` makes."""


class Registry(Generic[T]):
    """Objects of one kind by name."""

    def __init__(self, kind: str, entries: Mapping[str, T | str] | None = None) -> None:
        """Takes the first entries.

        Args:
            kind: What an object of it is called in errors, such as ``engine``.
            entries: Objects by name; a string ``package.module:attribute`` is imported when it is
                first asked for.
        """
        self._kind = kind
        self._entries: dict[str, T | str] = dict(entries or {})

    @overload
    def register(self, name: str) -> Callable[[_Value], _Value]: ...
    @overload
    def register(self, name: str, value: T | str) -> None: ...
    def register(self, name: str, value: Any = None) -> Any:
        """Registers an object, or decorates one.

        Args:
            name: Its name, without a colon.
            value: The object, or ``package.module:attribute``.

        Raises:
            ValueError: For a name that another object has, or with a colon.
        """
        if value is None:
            return lambda decorated: self._add(name, decorated)
        self._add(name, value)
        return None

    def get(self, name: str) -> T:
        """The object of a name.

        Args:
            name: A registered name, ``path/to/file.py:Object`` or ``package.module:Object``.

        Raises:
            ValueError: For an unknown name, or a file or module that cannot be loaded or lacks the
                object; names the nearest one.
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
        module = load_file(Path(place)) if place.endswith(".py") else _import(place, self._kind)
        if not hasattr(module, attribute):
            own = [n for n, v in vars(module).items() if n[0] != "_" and _is_own(v, module)]
            raise ValueError(f"{place} has no {attribute!r}: {nearest(attribute, own)}")
        return getattr(module, attribute)  # type: ignore[no-any-return]

    def check(self, name: str) -> str:
        """Returns the name if it is registered, or if an object of one's own is found by it.

        Raises:
            ValueError: As `get`.
        """
        if name not in self._entries:
            self.get(name)
        return name

    def names(self) -> tuple[str, ...]:
        """The registered names, sorted."""
        return tuple(sorted(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def _add(self, name: str, value: Any) -> Any:
        if ":" in name:
            raise ValueError(f"{self._kind} {name!r} has a colon in its name: leave it out")
        if name in self._entries and _origin(self._entries[name]) != _origin(value):
            raise ValueError(f"{self._kind} {name!r} is registered already: choose another name")
        self._entries[name] = value
        return value


def own_file(name: str) -> Path | None:
    """The file of a name ``path/to/file.py:Object``; None for other names."""
    place, _, _ = name.rpartition(":")
    return Path(place) if place.endswith(".py") else None


def short_name(name: str) -> str:
    """A name as people read it: a file without its folder, such as ``env.py:KeyDoor``."""
    file = own_file(name)
    return f"{file.name}:{name.rpartition(':')[2]}" if file else name


def load_file(path: Path) -> ModuleType:
    """Runs a Python file as a module, once in a process; a copy of it is the same module.

    Raises:
        ValueError: When there is no such file, or it fails; says why in one line.
    """
    path = find(path)
    if not path.is_file():
        raise ValueError(f"no file {path}")
    key = hashlib.sha256(path.read_bytes()).hexdigest()
    name = f"{_OWN}{path.stem}_{key[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def file_of(value: Any) -> Path | None:
    """The file that `load_file` took a class or function from; None for others."""
    module = str(value.__module__)
    return Path(str(sys.modules[module].__file__)) if module.startswith(_OWN) else None


def _import(module: str, kind: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{kind}: cannot import {module!r}: {reason}") from error


def _is_own(value: Any, module: ModuleType) -> bool:
    """Whether a value is no import, as far as one can see."""
    if isinstance(value, (FunctionType, type)):
        return value.__module__ == module.__name__
    return not isinstance(value, ModuleType)


def _origin(value: Any) -> Any:
    """What tells two objects apart: where they were defined, so that a cell can be run again."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return (module, name) if module and name and "<" not in name else value
