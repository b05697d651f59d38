"""``trca export``: a checkpoint as a Hugging Face folder, or as a repository of the hub."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from trca.cli.show.console import console, refusing, use_one_thread
from trca.common.errors import first_line


def export(
    run: Annotated[
        str, typer.Argument(metavar="RUN[@best|@last]", help="A run folder. [default: @last]")
    ],
    to: Annotated[
        Path | None, typer.Option("--to", file_okay=False, help="Folder to write; new or empty.")
    ] = None,
    hub: Annotated[
        str | None,
        typer.Option(
            "--to-hub",
            metavar="OWNER/NAME",
            help="Repository of the Hugging Face hub to upload to; a new one is created.",
        ),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Create the repository as a private one.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show files, sizes and card; upload nothing.")
    ] = False,
) -> None:
    """Export a run's policy to a folder that `from_pretrained` opens, tokenizer included.

    The `README.md` of the folder documents the choice of the checkpoint, and the environment,
    prompt template and tags that the policy needs. With `--to-hub` it is the model card of the
    repository. The token comes from `hf auth login` or `HF_TOKEN`.

    - `trca export outputs/quickstart --to my-policy`
    - `trca export outputs/quickstart@best --to my-policy`
    - `trca export outputs/quickstart --to-hub OWNER/NAME --dry-run` shows what would be uploaded
    - `trca evaluate my-policy --config outputs/quickstart/config.yaml` then evaluates the folder
    """
    use_one_thread()
    from trca.algorithms.settings.parameters import TextParameters
    from trca.cli.run.card import card
    from trca.cli.run.checkpoints import export_checkpoint, find_checkpoint
    from trca.runs.selection import Selection

    with refusing(), TemporaryDirectory() as scratch:
        if hub is None and (to is None or private or dry_run):
            raise ValueError("name --to FOLDER, or --to-hub OWNER/NAME with --private, --dry-run")
        if to and to.exists() and any(to.iterdir()):
            raise ValueError(f"{to} is not empty: name a new folder")
        if hub is not None and not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", hub):
            raise ValueError(f"--to-hub is {hub!r}: name owner and repository, as in OWNER/NAME")
        folder, which = find_checkpoint(run)
        if hub and not dry_run:
            _check_hub(hub)
        target = Path(scratch, "policy") if to is None or dry_run else to
        selection = Selection.of(folder, which)
        settings = TextParameters.resolve(folder.read_config(), "config.yaml", need_data=False)
        text = card(folder, selection, settings, hub or target)
        export_checkpoint(folder, which, target)
        (target / "README.md").write_text(text, encoding="utf-8")
        if hub:
            for path in sorted(each for each in target.rglob("*") if each.is_file()):
                name, size = path.relative_to(target), path.stat().st_size
                console.print(f"{size:>14,} bytes  {name}", markup=False)
        if dry_run:
            console.rule("README.md", align="left")
            console.print(text.rstrip(), markup=False)
            console.rule()
            console.print(f"Nothing is uploaded to {hub}.", markup=False)
        elif hub:
            _upload(target, hub, private, to)
    if to and not dry_run:
        opens = f"AutoModelForCausalLM.from_pretrained({str(to)!r}) opens it"
        console.print(f"{to}: {opens}", markup=False)
        console.print(f"{to / 'README.md'} says which prompt and tags it needs", markup=False)


def _check_hub(name: str) -> None:
    """Refuses, before the export, an upload without a token or without an answer of the hub."""
    from huggingface_hub import HfApi, get_token

    dry = "--dry-run shows the upload without token and network"
    if get_token() is None:
        raise ValueError(
            f"there is no token for an upload to {name}: run hf auth login, or set HF_TOKEN; {dry}"
        )
    try:
        HfApi().whoami()
    except Exception as error:
        raise ValueError(
            f"the Hugging Face hub does not take an upload to {name}: {first_line(error)[:300]}:"
            f" check network and token (hf auth login); {dry}"
        ) from None


def _upload(folder: Path, name: str, private: bool, kept: Path | None) -> None:
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        address = api.create_repo(name, private=private or None, exist_ok=True)
        message = "A policy trained with trca"
        api.upload_folder(repo_id=name, folder_path=folder, commit_message=message)
    except Exception as error:
        again = f"hf upload {name} {kept}" if kept else "the same command tries again"
        reason = first_line(error)[:300].rstrip(".")
        raise ValueError(f"the upload to {name} failed: {reason}. Then: {again}") from None
    console.print(f"Uploaded: {address}", markup=False)
