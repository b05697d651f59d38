"""Names class and line of an exception that an environment raises."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from traceback import extract_tb

import gymnasium

from trca.envs.plain import PlainEnv


def add_place(error: BaseException, env: gymnasium.Env[str, str]) -> None:
    """Adds a note to an exception, such as ``in KeyDoor, at env.py:83 in unlock``.

    The line is the last line of the traceback in a file that defines the environment or one of its
    base classes; without such a line, the last line of the traceback.

    Args:
        error: The exception.
        env: The environment that raised it.
    """
    inner = env.unwrapped
    if isinstance(inner, PlainEnv):
        inner = inner.plain.unwrapped
    if _raised_in_child(error, inner):
        return  # the child process added the place, or died: the message names class and step
    note = f"in {type(inner).__name__}{place(error, type(inner))}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _raised_in_child(error: BaseException, env: gymnasium.Env[str, str]) -> bool:
    """Whether the child process of an `IsolatedEnv` raised an exception or died."""
    frames = extract_tb(error.__traceback__)
    isolated = type(env).__name__ == "IsolatedEnv"
    return isolated and bool(frames) and frames[-1].filename == inspect.getfile(type(env))


def place(error: BaseException, env_class: type) -> str:
    """Returns the line of an exception, such as ``, at env.py:83 in unlock``; see `add_place`."""
    return line_in(_files(env_class), error)


def line_in(files: Collection[str], error: BaseException) -> str:
    """Returns the last line of an exception in some files; without such a line, the last line.

    Args:
        files: Paths of the files.
        error: The exception.
    """
    frames = extract_tb(error.__traceback__)
    defining = [frame for frame in frames if frame.filename in files]
    if not frames:
        return ""
    frame = (defining or frames)[-1]
    return f", at {Path(frame.filename).name}:{frame.lineno} in {frame.name}"


def _files(env_class: type) -> set[str]:
    """The files that define a class and its bases, without the bases of `trca.envs` itself."""
    files = set()
    for base in env_class.__mro__:
        if base.__module__.startswith(("gymnasium", "builtins", "trca.envs.text_env")):
            continue
        with suppress(TypeError, OSError):
            files.add(inspect.getfile(base))
    return files
