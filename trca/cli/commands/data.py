"""``trca data``: fetches official data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trca.cli.console import console, refusing

app = typer.Typer(no_args_is_help=True, help="Fetch official data; nothing else here needs any.")


@app.callback()
def group() -> None:
    """Keeps ``alfworld`` a command of its own while it is the only one."""


@app.command()
def alfworld(
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            file_okay=False,
            help="Folder to put the games into. [default: $ALFWORLD_DATA, else the user's data "
            "folder]",
        ),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--from", dir_okay=False, help="A local archive to take in place of fetching."
        ),
    ] = None,
) -> None:
    """Fetch the official ALFWorld games (36 MB): resumed, retried and checksummed.

    They are then found under the name `official`:

    - `trca data alfworld`
    - `trca data alfworld --from json_2.1.1.tar.xz --to ~/alfworld`
    - `trca train embedded/alfworld_full --games official`
    """
    from trca.envs.alfworld.data import DownloadError, fetch_games
    from trca.envs.alfworld.engine import GameFileError

    with refusing(DownloadError, GameFileError, OSError):
        games = fetch_games(to, archive)
    counts = ", ".join(f"{split} {len(games.task_ids(split))}" for split in games.splits)
    console.print(f"{games.name}: {counts}", markup=False)
    if to is not None:
        console.print(f"Use them with --games {to}", markup=False)
