"""Makes environments by name, and registers environments with this package and Gymnasium.

``import trca.envs`` registers the environments of this package. Gymnasium imports a module that
precedes an id: ``gymnasium.make("trca.envs:trca/ALFWorld-v0")``.

The name of an environment is its Gymnasium id (``trca/ALFWorld-v0``), its short name
(``alfworld``), ``package.module:Class`` or ``path/to/file.py:Class``. The last two forms load and
run code.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import gymnasium
from gymnasium.envs.registration import load_env_creator, registry
from gymnasium.envs.registration import register as register_env

from trca.common.files import find
from trca.common.names import nearest
from trca.common.registry import Registry, file_of, own_file
from trca.envs.annotate import ContextAnnotation, RubricAnnotation
from trca.envs.isolated import PROCESS, IsolatedEnv
from trca.envs.plain import PlainEnv
from trca.envs.teams.env import TeamEnv
from trca.envs.teams.team import Team
from trca.envs.text_env import TextEnv
from trca.rubric import Budgets, Judge, RubricError, RubricLibrary
from trca.rubric.rewards import DEFAULT_LAMBDA

_Env = gymnasium.Env[str, str]
EnvClass = str | type[gymnasium.Env[Any, Any]]

PACKAGED: Final = {
    "trca/ALFWorld-v0": "trca.envs.alfworld.env:ALFWorldEnv",
    "trca/WebShop-v0": "trca.envs.webshop.env:WebShopEnv",
    "trca/SearchQA-v0": "trca.envs.searchqa.env:SearchQAEnv",
}
"""Class of each environment of this package, by Gymnasium id."""
ENVIRONMENTS: Final[Registry[Any]] = Registry("environment")
"""Registered environment classes by Gymnasium id."""
_JUDGES: Final = ("library", "budgets", "lambda_")


def register(env_id: str, env: EnvClass) -> None:
    """Registers an environment with this package and with Gymnasium.

    Args:
        env_id: Gymnasium id, such as ``me/KeyDoor-v0``.
        env: The class, or ``package.module:Class``, which is imported on first use.

    Raises:
        ValueError: If another environment has this id.
    """
    if env_id in registry and env_id not in ENVIRONMENTS:
        raise ValueError(f"Gymnasium already has an environment {env_id!r}: choose another id")
    ENVIRONMENTS.register(env_id, env)
    if env_id not in registry:
        entry_point, kwargs = f"{__name__}:make_registered", {"env_id": env_id}
        # `TextEnv.step` refuses a step before a reset: Gymnasium's wrapper would repeat the check.
        register_env(id=env_id, entry_point=entry_point, kwargs=kwargs, order_enforce=False)


def make(
    env: EnvClass,
    *,
    library: str | Path | None = None,
    budgets: Budgets | Mapping[str, float] | None = None,
    lambda_: float = DEFAULT_LAMBDA,
    team: str | Path | Team | None = None,
    isolation: str | None = None,
    **kwargs: Any,
) -> _Env:
    """Makes an environment with contexts, memory lines, facts and rubric judgments in ``info``.

    Facts need an adapter; rubric judgments need an adapter and a rubric library. A Gymnasium
    environment with text spaces is wrapped in `trca.envs.plain.PlainEnv`.

    Args:
        env: Name or class of the environment; see the module docstring.
        library: Name or path of a rubric library; None for the environment's library.
        budgets: Category budgets of the rubric rewards in ``info``.
        lambda_: Weight of the breakthrough reward in ``info``.
        team: Name or path of a team that plays in turns (see `trca.envs.teams.env.TeamEnv`); None
            for one agent.
        isolation: ``process`` plays in a child process that can be killed (see
            `trca.envs.isolated`); None for the attribute ``isolation`` of the class.
        kwargs: Arguments of the class.

    Raises:
        ValueError: For an unknown name, an unknown argument, or a library for an environment
            without adapter.
        TypeError: If observations or actions are not text.
    """
    judging: dict[str, Any] = {"library": library, "budgets": budgets, "lambda_": lambda_}
    if isinstance(env, str):
        env = canonical(env)
        if env in ENVIRONMENTS:
            chosen = {"team": team, "isolation": isolation}
            kwargs |= {name: value for name, value in chosen.items() if value is not None}
            return cast("_Env", gymnasium.make(env, disable_env_checker=True, **judging, **kwargs))
    text_env = make_text_env(env, isolation=isolation, **kwargs)
    unjudged = library is None and cast("TextEnv", text_env.unwrapped).library is None
    annotated = ContextAnnotation(text_env) if unjudged else RubricAnnotation(text_env, **judging)
    return annotated if team is None else TeamEnv(team, annotated, budgets, lambda_)


def make_text_env(env: EnvClass, *, isolation: str | None = None, **kwargs: Any) -> _Env:
    """Makes an environment like `make`, without the wrappers that add context and rubric."""
    if isinstance(env, str) and (name := canonical(env)) in ENVIRONMENTS:
        env = ENVIRONMENTS.get(name)
    maker = env_class(env)
    if _is_text_env(maker):
        parameters = inspect.signature(maker).parameters
        takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        for name in () if takes_any else [n for n in kwargs if n not in parameters]:
            raise ValueError(no_argument(env, name))
    chosen = getattr(maker, "isolation", "none") if isolation is None else isolation
    if chosen not in ("none", PROCESS):
        raise ValueError(f"isolation is {chosen!r}: give none or {PROCESS}")
    if chosen == PROCESS:
        return IsolatedEnv(maker, partial(_text_env, creator(env), kwargs))
    return _text_env(_Creator(env), kwargs)


def make_registered(env_id: str, **kwargs: Any) -> _Env:
    """The Gymnasium entry point of registered environments; see `make`."""
    return make(ENVIRONMENTS.get(env_id), **kwargs)


def canonical(name: str) -> str:
    """The Gymnasium id of a name. The name of a class is returned unchanged."""
    place, _, attribute = name.rpartition(":")
    if name in registry or (place and attribute.isidentifier()):
        return name
    if place:
        try:
            import_module(place)
        except ImportError as error:
            raise ValueError(f"environment {name!r}: cannot import {place!r}: {error}") from error
        if attribute in registry:
            return attribute
    ids = ENVIRONMENTS.names()
    short = {env_id.rpartition("/")[2].rpartition("-v")[0].lower(): env_id for env_id in ids}
    if name.lower() in short:
        return short[name.lower()]
    hint = nearest(name, [*ids, *short])
    raise ValueError(f"unknown environment {name!r}: {hint}; or give path/to/file.py:Class")


def env_class(env: EnvClass) -> Any:
    """The class of an environment, or the function that makes it, as for some of Gymnasium's."""
    if not isinstance(env, str):
        return env
    name = canonical(env)
    if name in ENVIRONMENTS or name not in registry:
        return ENVIRONMENTS.get(name)
    entry_point: Any = registry[name].entry_point
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def arguments(env: EnvClass) -> tuple[str, ...]:
    """Names of the arguments of `make` for an environment."""
    parameters = inspect.signature(env_class(env)).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not _is_text_env(env_class(env)):
        names += inspect.signature(PlainEnv).parameters
        names.remove("env")
    names += [*_JUDGES, "team", "isolation"]
    return tuple(n for n in dict.fromkeys(names) if n != "render_mode")


def default_split(env: EnvClass) -> str:
    """Default split of an environment for play and evaluation."""
    declared = env_class(env)
    return declared.default_split if _is_text_env(declared) else PlainEnv.default_split


def lacks_rubric(env: EnvClass, library: object = None) -> str:
    """The reason why no rubric can judge an environment, in a few words; empty without reason.

    ``library`` is that of the environment's arguments; None for the environment's library.
    """
    declared = env_class(env)
    name = getattr(declared, "__name__", str(env))
    if getattr(declared, "adapter_class", None) is None:
        return f"{name} declares no adapter_class"
    if library is None and declared.library is None:
        return f"{name} declares no library"
    return ""


def language(env: EnvClass) -> tuple[str, ...]:
    """Names of the arguments that change the texts of an environment."""
    declared = getattr(env_class(env), "language", None)
    silent = ("split", "max_steps", *_JUDGES, "isolation")
    if declared is None:
        return tuple(n for n in arguments(env) if n not in silent)
    return (*declared, "team")


def identity(env: EnvClass) -> str:
    """Module and name of an environment's class. A file's module name has a hash of the file."""
    declared = env_class(env)
    return f"{declared.__module__}:{declared.__qualname__}"


def check_library(library: str | Path, env: EnvClass | None = None) -> RubricLibrary:
    """Loads a library and checks it against the adapter of its environment, or of another one."""
    loaded = RubricLibrary.load(library)
    try:
        if env is None:
            env = canonical(loaded.environment)
        adapter_class = getattr(env_class(env), "adapter_class", None)
    except ValueError as error:
        raise RubricError(f"{loaded.source}: {error}") from None
    if adapter_class is None:
        raise RubricError(f"{loaded.source}: {env} declares no adapter_class: a rubric needs one")
    Judge(loaded.deterministic, adapter_class.facts_type, adapter_class.binding_type)
    return loaded


def creator(env: EnvClass) -> _Creator:
    """A picklable function that makes one environment in any process.

    The receiving process registers the environment's id if necessary. A class from a ``file.py`` is
    sent as the path of the file.
    """
    if not isinstance(env, str):
        return _Creator(env)
    name = canonical(env)
    if name in ENVIRONMENTS:
        return _Creator(ENVIRONMENTS.get(name), name)
    if file := own_file(name):
        return _Creator(f"{find(file).absolute()}:{name.rpartition(':')[2]}")
    return _Creator(env)


@dataclass(frozen=True)
class _Creator:
    """Makes an environment from its class or name; registers a class with an id if necessary."""

    env: EnvClass
    env_id: str = ""

    def __post_init__(self) -> None:
        if self.env_id and self.env_id not in ENVIRONMENTS:
            register(self.env_id, env_class(self.env))

    def __call__(self, **kwargs: Any) -> _Env:
        return make(self.env, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        file = None if isinstance(self.env, str) else file_of(self.env)
        env = f"{file}:{self.env.__qualname__}" if file else self.env  # type: ignore[union-attr]
        return _Creator, (env, self.env_id)


def _text_env(creator: _Creator, kwargs: Mapping[str, Any]) -> _Env:
    """An environment as a `TextEnv`, without annotation."""
    env = creator.env
    maker = env_class(env)
    registered = env if isinstance(env, str) and env in registry else ""
    if _is_text_env(maker):
        defaults = registry[registered].kwargs if registered else {}
        return cast("_Env", maker(**{**defaults, **kwargs}))
    own = set() if registered else inspect.signature(maker).parameters.keys()
    outer = inspect.signature(PlainEnv).parameters.keys() - own
    plain = {k: v for k, v in kwargs.items() if k in outer}
    rest = {k: v for k, v in kwargs.items() if k not in outer}
    if registered and plain.get("max_steps") is not None:
        rest["max_episode_steps"] = plain["max_steps"]
    build = partial(gymnasium.make, registered, disable_env_checker=True) if registered else maker
    wrapped = build(**rest)
    if not isinstance(wrapped.unwrapped, TextEnv):
        return PlainEnv(wrapped, **plain)
    for name in plain:
        raise ValueError(f"{env!r} makes a text environment without {name!r}: add the argument")
    return wrapped


def no_argument(env: EnvClass, name: str) -> str:
    """The message for an argument that an environment does not have."""
    shown = env if isinstance(env, str) else env_class(env).__name__
    return f"{shown} has no argument {name!r}: {nearest(name, arguments(env))}"


def _is_text_env(maker: Any) -> bool:
    return isinstance(maker, type) and issubclass(maker, TextEnv)
