"""Environments by name: one registration, one maker, open to everyone's environments.

``import trca.envs`` registers the environments of this package. Without that import, the module
goes before the name, and Gymnasium imports it: ``gymnasium.make("trca.envs:trca/ALFWorld-v0")``.

An environment is named by its Gymnasium id (``trca/ALFWorld-v0``), by the short name in it
(``alfworld``), or as ``package.module:Class`` or ``path/to/file.py:Class``. The last two are code,
and run when they are loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
"""Gymnasium id of each environment of this package, and its class."""
ENVIRONMENTS: Final[Registry[Any]] = Registry("environment")
"""The classes of the environments that are registered here, by Gymnasium id."""
_JUDGES: Final = ("library", "budgets", "lambda_")
_TEAM: Final = "team"


def register(env_id: str, env: EnvClass) -> None:
    """Registers an environment, with Gymnasium too.

    Args:
        env_id: Its id, such as ``me/KeyDoor-v0``.
        env: Its class, or ``package.module:Class``, which is imported when it is first made.

    Raises:
        ValueError: When another environment has the id.
    """
    if env_id in registry and env_id not in ENVIRONMENTS:
        raise ValueError(f"Gymnasium has another environment {env_id!r}: choose another id")
    ENVIRONMENTS.register(env_id, env)
    if env_id not in registry:
        entry_point = f"{__name__}:make_registered"
        register_env(id=env_id, entry_point=entry_point, kwargs={"env_id": env_id})


def register_packaged() -> None:
    """Registers the environments of this package."""
    for env_id, env in PACKAGED.items():
        register(env_id, env)


def make(
    env: EnvClass,
    *,
    library: str | Path | None = None,
    budgets: Budgets | Mapping[str, float] | None = None,
    lambda_: float = DEFAULT_LAMBDA,
    team: str | Path | Team | None = None,
    **kwargs: Any,
) -> _Env:
    """Makes an environment whose ``info`` has every key of `TextInfo` that it can have.

    An environment with an adapter and a rubric library is judged. A plain Gymnasium environment of
    text is made a `TextEnv` (see `trca.envs.plain.PlainEnv`).

    Args:
        env: Its name or class; see the module.
        library: Name or path of a rubric library in place of the environment's own.
        budgets: Category budgets of the rubric rewards in ``info``.
        lambda_: Weight of the breakthrough reward in ``info``.
        team: Name or path of a team that plays it in turns (see `trca.envs.teams.env.TeamEnv`);
            None for one agent.
        kwargs: What the class takes.

    Raises:
        ValueError: For an unknown name, or a library where the environment has no adapter.
        TypeError: When observations or actions are not text.
    """
    judging: dict[str, Any] = {"library": library, "budgets": budgets, "lambda_": lambda_}
    if isinstance(env, str):
        env = canonical(env)
        if env in ENVIRONMENTS:
            played = {**kwargs, **({_TEAM: team} if team is not None else {})}
            return cast("_Env", gymnasium.make(env, disable_env_checker=True, **judging, **played))
    made = _made(env, kwargs)
    unjudged = library is None and cast("TextEnv", made.unwrapped).library is None
    annotated = ContextAnnotation(made) if unjudged else RubricAnnotation(made, **judging)
    return annotated if team is None else TeamEnv(team, annotated, budgets, lambda_)


def make_registered(env_id: str, **kwargs: Any) -> _Env:
    """What Gymnasium makes a registered environment by; see `make`."""
    return make(ENVIRONMENTS.get(env_id), **kwargs)


def canonical(name: str) -> str:
    """The Gymnasium id that a name stands for, or the name itself where it names a class.

    Raises:
        ValueError: For an unknown name; gives the nearest one.
    """
    if name in registry or _object(name):
        return name
    if ":" in name and _imported(name):
        return name.rpartition(":")[2]
    short = short_names()
    if name.lower() in short:
        return short[name.lower()]
    known = nearest(name, [*ENVIRONMENTS.names(), *short])
    raise ValueError(f"unknown environment {name!r}: {known}; or give path/to/file.py:Class")


def short_names() -> dict[str, str]:
    """The registered ids by their short names, such as ``alfworld``."""
    ids = ENVIRONMENTS.names()
    return {env_id.rpartition("/")[2].rpartition("-v")[0].lower(): env_id for env_id in ids}


def env_class(env: EnvClass) -> Any:
    """The class of an environment, or the function that makes it where Gymnasium knows no more.

    Raises:
        ValueError: For an unknown name, or code that cannot be loaded.
    """
    if not isinstance(env, str):
        return env
    name = canonical(env)
    if name in ENVIRONMENTS or name not in registry:
        return ENVIRONMENTS.get(name)
    entry_point: Any = registry[name].entry_point
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def arguments(env: EnvClass) -> tuple[str, ...]:
    """The names of the arguments that `make` takes for an environment."""
    own = inspect.signature(env_class(env)).parameters.values()
    names = [p.name for p in own if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not _is_text_env(env_class(env)):
        names += inspect.signature(PlainEnv).parameters
        names.remove("env")
    return tuple(n for n in dict.fromkeys([*names, *_JUDGES, _TEAM]) if n != "render_mode")


def default_split(env: EnvClass) -> str:
    """The split that is played and evaluated where none is named."""
    found = env_class(env)
    return found.default_split if _is_text_env(found) else PlainEnv.default_split


def lacks_rubric(env: EnvClass, library: object = None) -> str:
    """Why no rubric can judge an environment, in a few words; blank where one can.

    Args:
        env: The environment.
        library: The library that its arguments name, if any.
    """
    found = env_class(env)
    name = getattr(found, "__name__", str(env))
    if getattr(found, "adapter_class", None) is None:
        return f"{name} declares no adapter_class"
    if library is None and found.library is None:
        return f"{name} declares no library"
    return ""


def language(env: EnvClass) -> tuple[str, ...]:
    """The names of the arguments that change what is said in an environment."""
    declared = getattr(env_class(env), "language", None)
    silent = ("split", "max_steps", *_JUDGES)
    if declared is None:
        return tuple(n for n in arguments(env) if n not in silent)
    return (*declared, _TEAM)


def identity(env: EnvClass) -> str:
    """What tells environments apart: module and name of the class; a file's with its content."""
    found = env_class(env)
    return f"{found.__module__}:{found.__qualname__}"


def check_library(library: str | Path, env: EnvClass | None = None) -> RubricLibrary:
    """Loads a library and checks it against the adapter of an environment.

    Args:
        library: Name or path of the library.
        env: The environment it is for; None for the one that the library names.

    Raises:
        RubricError: When the library breaks a rule, or its environment is unknown or has no
            adapter; names the file, the operator and the mend.
    """
    loaded = RubricLibrary.load(library)
    try:
        if env is None:
            env = canonical(loaded.environment)
        adapter_class = getattr(env_class(env), "adapter_class", None)
    except ValueError as error:
        raise RubricError(f"{loaded.source}: {error}") from None
    if adapter_class is None:
        raise RubricError(f"{loaded.source}: {env} declares no adapter_class to check it against")
    Judge(loaded, adapter_class.facts_type, adapter_class.binding_type)
    return loaded


def creator(env: EnvClass) -> Callable[..., _Env]:
    """`make` for one environment, to be called in any process with its arguments.

    It takes along what was registered in this process alone: a process that receives it knows the
    environment's id. A class out of a ``file.py`` travels as the path of the file.

    Raises:
        ValueError: For an unknown name.
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
    """Makes one environment.

    Attributes:
        env: Its class or name.
        env_id: The id that the class is registered by; blank for none.
    """

    env: EnvClass
    env_id: str = ""

    def __call__(self, **kwargs: Any) -> _Env:
        return make(self.env, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        file = None if isinstance(self.env, str) else file_of(self.env)
        env = f"{file}:{self.env.__qualname__}" if file else self.env  # type: ignore[union-attr]
        return _received, (env, self.env_id)


def _received(env: EnvClass, env_id: str) -> _Creator:
    if env_id and env_id not in ENVIRONMENTS:
        register(env_id, env_class(env))
    return _Creator(env, env_id)


def _made(env: EnvClass, kwargs: Mapping[str, Any]) -> _Env:
    """The environment as a `TextEnv`, without annotation."""
    maker = env_class(env)
    if _is_text_env(maker):
        return cast("_Env", maker(**kwargs))
    plain = {k: v for k, v in kwargs.items() if k in inspect.signature(PlainEnv).parameters}
    rest = {k: v for k, v in kwargs.items() if k not in plain}
    if isinstance(env, str) and env in registry:
        made = gymnasium.make(env, disable_env_checker=True, **rest)
    else:
        made = maker(**rest)
    return made if isinstance(made.unwrapped, TextEnv) else PlainEnv(made, **plain)


def _is_text_env(maker: Any) -> bool:
    return isinstance(maker, type) and issubclass(maker, TextEnv)


def _object(name: str) -> bool:
    """Whether a name has the form ``place:Class``."""
    place, _, attribute = name.rpartition(":")
    return place != "" and attribute.isidentifier()


def _imported(name: str) -> bool:
    """Imports the module before Gymnasium's ``module:id``; whether the id is there then."""
    module, _, env_id = name.rpartition(":")
    try:
        import_module(module)
    except ImportError as error:
        raise ValueError(f"environment {name!r}: cannot import {module!r}: {error}") from error
    return env_id in registry
