"""The seven datasets of the paper, and their files in a folder.

The files of a dataset are ``<folder>/<name>.<suffix>``, ``<folder>/<name>_<split>.<suffix>`` and
``<folder>/<name>/<split>.<suffix>`` (FlashRAG). A file ``<folder>/<split>.<suffix>`` (Search-R1)
holds several datasets; each row names its dataset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trca.common.names import unknown
from trca.envs.searchqa.data.questions import (
    SPLIT_NAMES,
    SUFFIXES,
    Question,
    QuestionFileError,
    QuestionsMissingError,
    read_questions,
    write_questions,
)

SOURCES: Final = {
    "questions": "https://huggingface.co/datasets/RUC-NLPIR/FlashRAG_datasets",
    "corpus": "https://huggingface.co/datasets/PeterJinGo/wiki-18-corpus",
}
"""Publications of the questions of all seven datasets, and of the 21 million passages of 2018."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset, with its name in FlashRAG and the licence of its publication.

    The paper trains on the datasets in domain; the further ones measure generalisation. An answer
    of a dataset with several hops needs more than one passage.
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
    """The names without repeats; a ValueError for an unknown name or an empty list."""
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in DATASETS:
            raise unknown("dataset", name, DATASETS)
    if not names:
        raise ValueError(f"datasets is empty: choose from {', '.join(DATASETS)}")
    return tuple(dict.fromkeys(names))


def read_datasets(folder: str | Path, names: Sequence[str] | None = None) -> list[Question]:
    """The questions of datasets in all splits; without names, of all datasets in the folder."""
    folder = Path(folder).expanduser()
    dataset_names = known_datasets(names) if names is not None else tuple(DATASETS)
    if not folder.is_dir():
        raise QuestionsMissingError(
            folder, "there is no such folder: give the folder of the questions"
        )
    mixed = [q for path in _named(folder, SPLIT_NAMES) for q in read_questions(path)]
    questions: list[Question] = []
    for name in dataset_names:
        files = _named(folder, (name, *(f"{name}_{split}" for split in SPLIT_NAMES)))
        files += _named(folder / name, SPLIT_NAMES)
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


def prepare_questions(sources: Iterable[Path], folder: Path) -> dict[str, Counter[str]]:
    """Reads files of questions and folders of datasets, and writes one file per dataset.

    Every row is checked before a file ``<dataset>.jsonl`` is replaced. Returns dataset -> split ->
    number of questions, in the order of the paper's table.
    """
    by_dataset: dict[str, list[Question]] = {}
    for path in sources:
        path = path.expanduser()
        for question in read_datasets(path) if path.is_dir() else read_questions(path):
            name = question.dataset
            if Path(name).name != name or name.startswith("."):
                raise QuestionFileError(path, f"dataset {name[:80]!r} is not a name for a file")
            by_dataset.setdefault(name, []).append(question)
    folder.mkdir(parents=True, exist_ok=True)
    names = [*(name for name in DATASETS if name in by_dataset), *by_dataset]
    for name in dict.fromkeys(names):
        write_questions(folder / f"{name}.jsonl", by_dataset[name])
    return {name: Counter(q.split for q in by_dataset[name]) for name in dict.fromkeys(names)}


def _named(folder: Path, stems: Iterable[str]) -> list[Path]:
    paths = (folder / f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES)
    return [path for path in paths if path.is_file()]
