"""``trca export``: a checkpoint as a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trca.cli.console import console, refusing, use_one_thread


def export(
    run: Annotated[
        str, typer.Argument(metavar="RUN[@best|@last]", help="A run folder. [default: @best]")
    ],
    to: Annotated[
        Path, typer.Option("--to", file_okay=False, help="Folder to write; new or empty.")
    ],
) -> None:
    """Export a run's policy to a folder that `from_pretrained` opens, tokenizer included.

    - `trca export outputs/quickstart --to my-policy`
    - `trca export outputs/quickstart@last --to my-policy`
    """
    use_one_thread()
    from trca.cli.checkpoints import export_checkpoint, find_checkpoint
    from trca.tune_configs.files import ConfigError

    with refusing(ConfigError, OSError):
        if to.exists() and any(to.iterdir()):
            raise ConfigError(f"{to} is not empty: name a new folder")
        folder, which = find_checkpoint(run)
        export_checkpoint(folder, which, to)
    console.print(f"{to}: AutoModelForCausalLM.from_pretrained({str(to)!r}) opens it", markup=False)
