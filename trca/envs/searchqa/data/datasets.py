"""The seven datasets of the paper, and their files in a folder.

    questions = read_datasets("~/searchqa", ["nq", "hotpotqa"])

The files of a dataset are ``<folder>/<name>.<suffix>``, ``<folder>/<name>_<split>.<suffix>`` and
``<folder>/<name>/<split>.<suffix>`` (FlashRAG). A file ``<folder>/<split>.<suffix>`` (Search-R1)
holds several datasets; each row names its dataset.
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
        name: Name, as in FlashRAG.
        in_domain: Whether the paper trains on it. Further datasets measure generalisation.
        multi_hop: Whether an answer needs more than one passage.
        licence: Licence of the publication.
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
"""Names of the datasets in the training mix."""


def known_datasets(names: str | Iterable[str]) -> tuple[str, ...]:
    """The names without repeats, after a check.

    Raises:
        ValueError: For an unknown name or an empty list. The message lists the known names.
    """
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in DATASETS:
            choices = ", ".join(DATASETS)
            raise ValueError(f"unknown dataset {str(name)[:200]!r}: choose from {choices}")
    if not names:
        raise ValueError(f"datasets is empty: choose from {', '.join(DATASETS)}")
    return tuple(dict.fromkeys(names))


def read_datasets(folder: str | Path, names: Sequence[str] | None = None) -> list[Question]:
    """The questions of datasets, in all splits.

    Args:
        folder: Folder of the files.
        names: Names of the datasets; None for all datasets in the folder.

    Raises:
        ValueError: For an unknown name. The message lists the known names.
        QuestionFileError: If a dataset has no file in the folder or a file is malformed.
    """
    folder = Path(folder).expanduser()
    dataset_names = known_datasets(names) if names is not None else tuple(DATASETS)
    if not folder.is_dir():
        raise QuestionsMissingError(
            folder, "there is no such folder: give the folder of the questions"
        )
    mixed = [q for path in _named(folder, SPLIT_NAMES) for q in read_questions(path)]
    questions: list[Question] = []
    for name in dataset_names:
        files = dataset_files(folder, name)
        dataset_questions = [q for path in files for q in read_questions(path, name)]
        dataset_questions = dataset_questions or [q for q in mixed if q.dataset == name]
        if not dataset_questions and names is not None:
            contents = ", ".join(sorted(p.name for p in folder.iterdir())[:12]) or "nothing"
            raise QuestionFileError(
                folder,
                f"no questions of {name}: expected a file such as {name}.jsonl or"
                f" {name}/test.jsonl; the folder has {contents}",
            )
        questions += dataset_questions
    if not questions:
        raise QuestionFileError(
            folder,
            "no questions of any dataset: expected files like nq.jsonl, nq/test.jsonl or"
            f" train.parquet; datasets are {', '.join(DATASETS)}",
        )
    return questions


def dataset_files(folder: Path, name: str) -> list[Path]:
    """The files of a dataset in a folder."""
    files = _named(folder, (name, *(f"{name}_{split}" for split in SPLIT_NAMES)))
    return files + _named(folder / name, SPLIT_NAMES)


def _named(folder: Path, stems: Iterable[str]) -> list[Path]:
    paths = (folder / f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES)
    return [path for path in paths if path.is_file()]
