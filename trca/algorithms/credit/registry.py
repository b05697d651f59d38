"""Credit rules by name: the registered ones, and a user's own as ``path/to/file.py:function``."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.records import StepBatch

CreditRule = Callable[..., NDArray[np.float64]]
"""``rule(batch: StepBatch, **parameters)`` gives one advantage a step, float64 (S,)."""

_RULES: dict[str, CreditRule] = {}


def register_credit(name: str) -> Callable[[CreditRule], CreditRule]:
    """Registers a rule under a name, for configs and the command line.

    Args:
        name: The name; no path and not taken.

    Raises:
        ValueError: For a name that is taken by another rule.
    """

    def register(rule: CreditRule) -> CreditRule:
        if _RULES.get(name, rule) is not rule:
            raise ValueError(f"credit rule {name!r} is registered already: choose another name")
        _RULES[name] = rule
        return rule

    return register


def credit_rules() -> tuple[str, ...]:
    """The names of the registered rules, sorted."""
    return tuple(sorted(_RULES))


def get_credit(name: str) -> CreditRule:
    """The rule of a name.

    Args:
        name: A registered name, or ``path/to/file.py:function``.

    Raises:
        ValueError: For an unknown name, a file that cannot be loaded or a function it lacks.
    """
    if name in _RULES:
        return _RULES[name]
    path, _, function = name.rpartition(":")
    if path.endswith(".py"):
        return _from_file(Path(path), function)
    if name.endswith(".py"):
        raise ValueError(f"credit rule {name!r} names no function: write {name}:function")
    raise ValueError(
        f"unknown credit rule {name!r}: {_choices(name, _RULES)}, or path/to/file.py:function"
    )


def bind_credit(
    name: str, parameters: Mapping[str, Any]
) -> Callable[[StepBatch], NDArray[np.float64]]:
    """The rule of a name with the parameters its signature asks for, checking what it returns.

    Args:
        name: As in `get_credit`.
        parameters: Values by name, such as all hyperparameters of an algorithm; the rule gets those
            it names and its own defaults for the others.

    Raises:
        ValueError: As in `get_credit`, and for a parameter without a default that is not given. The
            bound rule raises it for a result that is not one finite number a step.
    """
    rule = get_credit(name)
    asked = list(inspect.signature(rule).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in asked):
        chosen = dict(parameters)
    else:
        chosen = {p.name: parameters[p.name] for p in asked if p.name in parameters}
    missing = [
        p.name
        for p in asked
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and p.default is p.empty
        and p.name not in chosen
    ]
    if missing:
        raise ValueError(
            f"credit rule {name!r} needs {', '.join(missing)}, which is no parameter here:"
            " give it a default"
        )

    def bound(batch: StepBatch) -> NDArray[np.float64]:
        advantages = np.asarray(rule(batch, **chosen), dtype=np.float64)
        if advantages.shape != (len(batch),):
            raise ValueError(
                f"credit rule {name!r} returned shape {advantages.shape} for {len(batch)} steps:"
                " return one advantage a step"
            )
        if not np.isfinite(advantages).all():
            row = int(np.flatnonzero(~np.isfinite(advantages))[0])
            raise ValueError(
                f"credit rule {name!r} returned {advantages[row]} for step {row}: return finite"
                " numbers"
            )
        return advantages

    return bound


def _from_file(path: Path, function: str) -> CreditRule:
    module = _load(path)
    rule = getattr(module, function, None)
    if not callable(rule):
        own = [n for n, f in vars(module).items() if inspect.isfunction(f) and n[0] != "_"]
        raise ValueError(f"{path} has no function {function!r}: {_choices(function, own)}")
    return rule  # type: ignore[no-any-return]


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"no file {path} to load a credit rule from")
    name = "trca_credit_" + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(name, path)
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


def _choices(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    listed = f"choose from {', '.join(names)}" if names else "there is none"
    close = get_close_matches(name, names, n=1)
    return f"{listed} (nearest: {close[0]})" if close else listed
