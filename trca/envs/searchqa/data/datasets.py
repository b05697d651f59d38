"""The seven datasets of the paper, and how their files are found in a folder.

    questions = read_datasets("~/searchqa", ["nq", "hotpotqa"])

A dataset's files are ``<folder>/<name>.<suffix>``, ``<folder>/<name>_<split>.<suffix>`` and
``<folder>/<name>/<split>.<suffix>`` (FlashRAG's); files of several datasets are
``<folder>/<split>.<suffix>`` (Search-R1's), whose rows say which they are of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trca.envs.searchqa.data.questions import (
    SPLIT_NAMES,
    SUFFIXES,
    Question,
    QuestionFileError,
    QuestionsMissingError,
    read_questions,
)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset.

    Attributes:
        name: Its name, as in FlashRAG.
        in_domain: Whether the paper trains on it; the others measure generalisation.
        multi_hop: Whether an answer takes more than one passage.
        licence: Under which it was published.
    """

    name: str
    in_domain: bool
    multi_hop: bool
    licence: str


DATASETS: Final = {
    dataset.name: dataset
    for dataset in (
        Dataset("nq", True, False, "CC BY-SA 3.0"),
        Dataset("triviaqa", False, False, "Apache-2.0"),
        Dataset("popqa", False, False, "MIT"),
        Dataset("hotpotqa", True, True, "CC BY-SA 4.0"),
        Dataset("2wikimultihopqa", False, True, "Apache-2.0"),
        Dataset("musique", False, True, "CC BY 4.0"),
        Dataset("bamboogle", False, True, "MIT"),
    )
}
"""Name -> dataset, in the order of the paper's table."""
IN_DOMAIN: Final = tuple(name for name, dataset in DATASETS.items() if dataset.in_domain)
"""What training mixes."""
OUT_OF_DOMAIN: Final = tuple(name for name in DATASETS if name not in IN_DOMAIN)


def known_datasets(names: str | Iterable[str]) -> tuple[str, ...]:
    """The names, each once.

    Raises:
        ValueError: When a name is unknown or no name is given; lists the known ones.
    """
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in DATASETS:
            known = ", ".join(DATASETS)
            raise ValueError(f"unknown dataset {str(name)[:200]!r}: choose from {known}")
    if not names:
        raise ValueError(f"no dataset is named: choose from {', '.join(DATASETS)}")
    return tuple(dict.fromkeys(names))


def read_datasets(folder: str | Path, names: Sequence[str] | None = None) -> list[Question]:
    """The questions of datasets, of all splits.

    Args:
        folder: Where the files are.
        names: The datasets; None for those that are there.

    Raises:
        ValueError: When a name is unknown; lists the known ones.
        QuestionFileError: When a dataset has no file there or a file is malformed.
    """
    folder = Path(folder).expanduser()
    wanted = known_datasets(names) if names is not None else tuple(DATASETS)
    if not folder.is_dir():
        raise QuestionsMissingError(
            folder, "there is no such folder: name the one of the questions"
        )
    mixed = [q for path in _named(folder, SPLIT_NAMES) for q in read_questions(path)]
    questions: list[Question] = []
    for name in wanted:
        files = dataset_files(folder, name)
        found = [q for path in files for q in read_questions(path, name)]
        found = found or [q for q in mixed if q.dataset == name]
        if not found and names is not None:
            raise QuestionFileError(
                folder,
                f"no questions of {name}: expected {name}.jsonl, {name}/test.jsonl or the like;"
                f" it has {', '.join(sorted(p.name for p in folder.iterdir())[:12]) or 'nothing'}",
            )
        questions += found
    if not questions:
        raise QuestionFileError(
            folder,
            "no questions of any dataset: expected files like nq.jsonl, nq/test.jsonl or"
            f" train.parquet; datasets are {', '.join(DATASETS)}",
        )
    return questions


def dataset_files(folder: Path, name: str) -> list[Path]:
    """The files of a dataset in a folder."""
    own = _named(folder, (name, *(f"{name}_{split}" for split in SPLIT_NAMES)))
    return own + _named(folder / name, SPLIT_NAMES)


def _named(folder: Path, stems: Iterable[str]) -> list[Path]:
    paths = (folder / f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES)
    return [path for path in paths if path.is_file()]
