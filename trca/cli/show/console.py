"""The console of the commands, errors in plain words, and library output sent to a log."""

from __future__ import annotations

import logging
import os
import sys
import textwrap
import traceback
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NoReturn

import typer
from rich.console import Console

from trca.common.errors import words
from trca.common.extras import missing_extra
from trca.common.process import log_crashes

console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

ONE_THREAD: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment variables that keep numerical libraries to one thread each."""


def print_folded(text: str, indent: int = 4, style: str = "", hanging: int = 0) -> None:
    """Prints a text, indented and folded to the width of the console; nothing for an empty text."""
    margin = " " * indent
    lines = textwrap.wrap(
        printable(" ".join(text.split())),
        max(20, console.width),
        initial_indent=margin,
        subsequent_indent=margin + " " * hanging,
        break_on_hyphens=False,
    )
    if lines:
        console.print("\n".join(lines), markup=False, style=style)


def printable(text: str) -> str:
    """A text whose control characters are written out: they would act on the terminal."""
    return "".join(
        repr(character)[1:-1] if unicodedata.category(character) == "Cc" else character
        for character in text
    )


def warn(text: str) -> None:
    """Prints a warning."""
    console.print(f"warning: {text}", markup=False, style="yellow")


def note(text: str) -> None:
    """Prints a note."""
    console.print("[yellow]note:[/] ", end="")
    console.print(text, markup=False)


def what_next(commands: Iterable[tuple[str, str]]) -> None:
    """Prints commands that come next, each with its purpose."""
    console.print("What next:")
    for command, why in commands:
        console.print(f"  {command}", markup=False, style="cyan")
        console.print(f"      {why}", markup=False)


def fail(message: str, code: int = 1) -> NoReturn:
    """Prints an error to standard error and ends the command."""
    errors.print("[bold red]error:[/] ", end="")
    errors.print(message, markup=False)
    raise typer.Exit(code)


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turns errors that a user can correct into one line and exit code 2, without a traceback.

    Without classes of errors, these are `ValueError` and `OSError`.
    """
    refused = kinds or (ValueError, OSError)
    try:
        yield
    except refused as error:
        fail(str(error), code=2)


@contextmanager
def tracing_to(log: Path) -> Iterator[None]:
    """Writes the traceback of an error to the log and raises the error again."""
    try:
        yield
    except Exception:
        with suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a", encoding="utf-8") as file:
                traceback.print_exc(file=file)
        raise


@contextmanager
def playing(environment: str, log: Path) -> Iterator[None]:
    """Turns an exception of an environment into one line, with the traceback in the log.

    Errors that a user can correct pass through.
    """
    try:
        with tracing_to(log):
            yield
    except (ValueError, OSError, typer.Exit):
        raise
    except Exception as error:
        fail(f"{environment}: {words(error)}.{log_words(log)}")


def percent(value: float | None) -> str:
    """A share as a percentage; ``-`` if unknown, which is None or NaN."""
    return "-" if value is None or value != value else f"{value:.1%}"


def log_words(log: Path) -> str:
    """Names a log at the end of an error message; empty if the log does not exist or is empty."""
    return f" Log: {log}" if log.is_file() and log.stat().st_size else ""


def make_writable(folder: Path) -> None:
    """Creates the folder of a report; a `ValueError` names ``--output`` if it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(
            f"cannot write to {folder}: {error.strerror or error}: name another folder by --output"
        ) from None


def need_server() -> None:
    """Ends the command if the packages for serving are missing."""
    for package in ("fastapi", "uvicorn"):
        if lack := missing_extra(package, "serving", "serve"):
            fail(lack, code=2)


def use_one_thread() -> None:
    """Keeps numerical libraries to one thread each, unless the environment variables are set.

    Call it before torch is imported: a process with more threads than free cores is many times
    slower than with one. If a setting asks for more threads, idle threads wait without spinning.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)


@contextmanager
def noise_to(log: Path) -> Iterator[Console]:
    """Sends output, logs and warnings of libraries to a file; yields a console on the terminal.

    Both file descriptors are redirected, so that output of C++ code and child processes also goes
    to the file. A crash of native code appends its traceback, too.
    """
    redirects = False
    with suppress(AttributeError, OSError, ValueError):  # a stream of a test has no descriptor
        redirects = sys.stdout.fileno() == 1
    if not redirects:
        yield console
        return
    sys.stdout.flush()
    sys.stderr.flush()
    log.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    kept = os.dup(1), os.dup(2)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    logging.captureWarnings(True)
    end_watch = log_crashes(2)
    try:
        with os.fdopen(os.dup(kept[0]), "w", encoding="utf-8") as terminal:
            yield Console(file=terminal, highlight=False, soft_wrap=True)
    finally:
        end_watch()
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, number in zip(kept, (1, 2), strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        logging.captureWarnings(False)
