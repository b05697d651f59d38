"""``trca new-env``: writes a package with an environment of one's own that trains at once."""

from __future__ import annotations

import ast
import keyword
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trca.cli.show.console import console, refusing, what_next

_TEMPLATE = Path(__file__).parents[1] / "template"


def new_env(
    name: Annotated[
        str, typer.Argument(help="Name of the package: lower-case letters, digits, underscores.")
    ],
    to: Annotated[
        Path, typer.Option("--to", file_okay=False, help="Parent folder of the package.")
    ] = Path(),
) -> None:
    """Write a package with an environment, its facts, rubric, tests and configs, ready to train.

    The package contains a small game that works. Replace the game by yours, part by part.

    - `trca new-env my_game`
    - `cd my_game && trca train train.yaml`
    """
    with refusing():
        folder = write_package(name, to)
    env = f"{name}/env.py:{class_name(name)}"
    console.print(f"[green]ok[/]: {escape(str(folder))}")
    what_next(
        [
            (f"cd {shlex.quote(str(folder))}", "its README.md explains each file"),
            (f"trca play {env}", "play it"),
            ("trca train train.yaml", "train a tiny policy on it, in minutes"),
            ("pytest", "test environment and rubric"),
        ]
    )


def write_package(name: str, to: Path) -> Path:
    """Writes the package into a new folder of its name in ``to``, and returns the folder.

    Raises:
        ValueError: If the name is invalid or in use, or if the folder exists.
    """
    fits = re.fullmatch("[a-z]([a-z0-9_]*[a-z0-9])?", name)
    if not fits or any(map(keyword.iskeyword, (name, class_name(name)))):
        raise ValueError(
            f"{name!r} is not a package name: use lower-case letters, digits and inner underscores"
        )
    code = (_TEMPLATE / "key_door" / "env.py").read_text("utf-8")
    if class_name(name) in {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)}:
        raise ValueError(f"{name!r} hides the imported {class_name(name)}: choose another name")
    folder = to / name
    if folder.exists():
        raise ValueError(f"{folder} exists: name another package, or another folder with --to")
    if find_spec(name) is not None:
        raise ValueError(f"there is a Python package {name!r} already: choose another name")
    words = {"key_door": name, "KeyDoor": class_name(name)}

    def named(text: str) -> str:
        return re.sub("key_door|KeyDoor", lambda match: words[match[0]], text)

    for path in sorted(_TEMPLATE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            target = folder / named(path.relative_to(_TEMPLATE).as_posix())
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(named(path.read_text("utf-8")), "utf-8")
    return folder


def class_name(name: str) -> str:
    """The name of the environment's class, such as ``MyGame`` for ``my_game``."""
    return "".join(part.capitalize() for part in name.split("_"))
