"""Tasks of SearchQA: the questions of a split, under ids that contain a hash of their content.

A source of questions is one of

- a size name of `generate.SIZES`: a generated world with its passages;
- a file of questions, or a list of files;
- a folder of datasets; its split ``train`` has the datasets that the paper trains on;
- ``{"folder": ..., "datasets": [...]}``: the named datasets in a folder.

The splits are ``train``, ``validation`` and ``test``. As in Search-R1, the validation questions
replace missing test questions of a dataset.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from trca.common.files import FileVersion, versions
from trca.common.shared import Shared, named
from trca.envs.panel import no_task
from trca.envs.searchqa.data import generate
from trca.envs.searchqa.data.datasets import IN_DOMAIN, known_datasets, read_datasets
from trca.envs.searchqa.data.questions import SPLITS, Question, QuestionFileError, read_questions

Source = str | Path | Sequence[str | Path] | Mapping[str, Any]
"""A source of questions; see the module docstring."""


@dataclass(frozen=True)
class Tasks(Shared):
    """The tasks of a split, shared by all environments of a process.

    An id such as ``nq-90225d4f/test/00012`` has the dataset, a hash, the split, and the number of
    the question in the split. The hash covers the dataset's questions in the split with answers and
    gold passages, and the passages of a generated world. Therefore equal ids mean equal tasks.
    Datasets alternate, so the first tasks of a panel mix all datasets.

    Attributes:
        split: Name of the split.
        questions: Task id -> question, in order.
        ids: The task ids, in order.
    """

    split: str
    questions: Mapping[str, Question]
    ids: tuple[str, ...]

    def find(self, task_id: object) -> Question:
        """The question of a task.

        Raises:
            ValueError: If the split has no such task. The message names the nearest task id.
        """
        if task_id not in self.questions:
            raise no_task(task_id, self.split, self.ids)
        return self.questions[str(task_id)]


def tasks_of(source: Source, split: str, seed: int = 0) -> Tasks:
    """The tasks of a split, cached per process until a file changes.

    Args:
        source: Source of the questions; see the module docstring.
        split: Name of the split.
        seed: Seed of a generated world.

    Raises:
        ValueError: For an unknown size, dataset or split. The message lists the known names.
        QuestionFileError: If a file or folder is missing, or a file is malformed.
    """
    datasets = None
    given: Sequence[str | Path]
    if isinstance(source, Mapping):
        if set(source) != {"folder", "datasets"}:
            keys = ", ".join(map(str, source)) or "nothing"
            raise ValueError(f"questions have {keys}: expected folder and datasets")
        given, datasets = [source["folder"]], known_datasets(source["datasets"])
    else:
        given = [source] if isinstance(source, str | Path) else source
    paths = tuple(map(_place, given))
    generated = datasets is None and _size(paths) is not None
    files = () if generated else tuple(chain.from_iterable(versions(Path(p)) for p in paths))
    tasks = _tasks_of(paths, datasets, files, split, seed)
    again = list(paths) if datasets is None else {"folder": paths[0], "datasets": datasets}
    return named(tasks, tasks_of, again, split, seed)


def generated_size(source: Source) -> int | None:
    """The number of passages of a generated world; None for any other source."""
    return generate.SIZES.get(source) if isinstance(source, str) else None


def _size(paths: Sequence[str]) -> int | None:
    return generate.SIZES.get(paths[0]) if len(paths) == 1 else None


@lru_cache(16)
def _tasks_of(
    paths: tuple[str, ...],
    datasets: tuple[str, ...] | None,
    files: tuple[FileVersion, ...],
    split: str,
    seed: int,
) -> Tasks:
    questions = _questions(paths, datasets, files, seed)
    by_dataset: dict[str, list[Question]] = {}
    for question in questions:
        by_dataset.setdefault(question.dataset, []).append(question)
    mixed = datasets is None and len(paths) == 1 and Path(paths[0]).expanduser().is_dir()
    if split == "train" and mixed:
        by_dataset = {each: by_dataset[each] for each in by_dataset if each in IN_DOMAIN}
    chosen = {
        dataset: [q for q in each if q.split == split]
        or [q for q in each if split == "test" and q.split == "validation"]
        for dataset, each in by_dataset.items()
    }
    if not any(chosen.values()):
        available = [each for each in SPLITS if any(q.split == each for q in questions)]
        raise ValueError(
            f"{', '.join(paths)} has nothing for split {split!r}: choose from"
            f" {', '.join(available)}"
        )
    corpus = b""
    if datasets is None and (count := _size(paths)) is not None:
        corpus = "\n\n".join(p.contents for p in generate.generated(count, seed).passages).encode()
    lists = [_identified(dataset, split, each, corpus) for dataset, each in chosen.items() if each]
    turns = (pair for pair in chain.from_iterable(zip_longest(*lists)) if pair is not None)
    tasks = dict(turns)
    return Tasks(split, tasks, tuple(tasks))


def _identified(
    dataset: str, split: str, questions: Sequence[Question], corpus: bytes
) -> list[tuple[str, Question]]:
    content = hashlib.sha256(corpus)
    for question in questions:
        content.update(json.dumps(question.row()).encode())
    prefix = f"{dataset}-{content.hexdigest()[:8]}/{split}"
    return [(f"{prefix}/{number:05d}", question) for number, question in enumerate(questions)]


def _place(path: str | Path) -> str:
    """The absolute path of a file or folder; any other name is returned unchanged."""
    place = Path(path).expanduser()
    return str(place.absolute() if path not in generate.SIZES and place.exists() else path)


@lru_cache(8)
def _questions(
    paths: tuple[str, ...],
    datasets: tuple[str, ...] | None,
    files: tuple[FileVersion, ...],
    seed: int,
) -> Sequence[Question]:
    places = [Path(path).expanduser() for path in paths]
    if datasets is not None:
        return read_datasets(places[0], datasets)
    if (count := _size(paths)) is not None:
        return generate.generated(count, seed).questions
    if len(places) == 1 and places[0].is_dir():
        return read_datasets(places[0])
    if len(places) == 1 and not places[0].is_file():
        raise QuestionFileError(
            Path(paths[0]),
            f"there are no such questions: choose {', '.join(generate.SIZES)}, or the path of a"
            " file or folder of questions",
        )
    return [question for path in places for question in read_questions(path)]
