"""``trca export``: a checkpoint as a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trca.cli.show.console import console, refusing, use_one_thread


def export(
    run: Annotated[
        str, typer.Argument(metavar="RUN[@best|@last]", help="A run folder. [default: @last]")
    ],
    to: Annotated[
        Path, typer.Option("--to", file_okay=False, help="Folder to write; new or empty.")
    ],
) -> None:
    """Export a run's policy to a folder that `from_pretrained` opens, tokenizer included.

    The `README.md` of the folder documents the choice of the checkpoint, and the environment,
    prompt template and tags that the policy needs.

    - `trca export outputs/quickstart --to my-policy`
    - `trca export outputs/quickstart@best --to my-policy`
    - `trca evaluate my-policy --config outputs/quickstart/config.yaml` then evaluates the folder
    """
    use_one_thread()
    from trca.algorithms.settings.parameters import TextParameters
    from trca.cli.run.card import card
    from trca.cli.run.checkpoints import export_checkpoint, find_checkpoint
    from trca.runs.selection import Selection

    with refusing():
        if to.exists() and any(to.iterdir()):
            raise ValueError(f"{to} is not empty: name a new folder")
        folder, which = find_checkpoint(run)
        selection = Selection.of(folder, which)
        settings = TextParameters.resolve(folder.read_config(), "config.yaml", need_data=False)
        text = card(folder, selection, settings, to)
        export_checkpoint(folder, which, to)
        (to / "README.md").write_text(text, encoding="utf-8")
    console.print(f"{to}: AutoModelForCausalLM.from_pretrained({str(to)!r}) opens it", markup=False)
    console.print(f"{to / 'README.md'} says which prompt and tags it needs", markup=False)
