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
from collections.abc import Iterable, Mapping, Sequence
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
    key = _key(source)
    return named(
        _tasks_of(key, _versions(key), split, seed), tasks_of, json.loads(key), split, seed
    )


def generated_size(source: Source) -> int | None:
    """The number of passages of a generated world; None for any other source."""
    return generate.SIZES.get(source) if isinstance(source, str) else None


@lru_cache(16)
def _tasks_of(key: str, files: tuple[FileVersion, ...], split: str, seed: int) -> Tasks:
    questions = _questions(key, files, seed)
    by_dataset: dict[str, list[Question]] = {}
    for question in questions:
        by_dataset.setdefault(question.dataset, []).append(question)
    name = json.loads(key)
    if split == "train" and isinstance(name, str) and Path(name).expanduser().is_dir():
        by_dataset = {each: by_dataset[each] for each in by_dataset if each in IN_DOMAIN}
    chosen = {dataset: _in_split(each, split) for dataset, each in by_dataset.items()}
    if not any(chosen.values()):
        available = [each for each in SPLITS if any(q.split == each for q in questions)]
        raise ValueError(
            f"{name} has nothing for split {split!r}: choose from {', '.join(available)}"
        )
    corpus = _own_corpus(name, seed)
    named = [_identified(dataset, split, each, corpus) for dataset, each in chosen.items() if each]
    turns = (pair for pair in chain.from_iterable(zip_longest(*named)) if pair is not None)
    tasks = dict(turns)
    return Tasks(split, tasks, tuple(tasks))


def _in_split(questions: Sequence[Question], split: str) -> list[Question]:
    """The questions of one dataset in a split."""
    chosen = [q for q in questions if q.split == split]
    if split == "test" and not chosen:
        return [q for q in questions if q.split == "validation"]
    return chosen


def _identified(
    dataset: str, split: str, questions: Sequence[Question], corpus: bytes
) -> list[tuple[str, Question]]:
    content = hashlib.sha256(corpus)
    for question in questions:
        content.update(json.dumps(question.row()).encode())
    prefix = f"{dataset}-{content.hexdigest()[:8]}/{split}"
    return [(f"{prefix}/{number:05d}", question) for number, question in enumerate(questions)]


def _own_corpus(name: object, seed: int) -> bytes:
    """The passages of a generated world as bytes; empty for any other source."""
    count = generated_size(name) if isinstance(name, str) else None
    if count is None:
        return b""
    return "\n\n".join(p.contents for p in generate.generated(count, seed).passages).encode()


def _key(source: Source) -> str:
    """The source as JSON: a name, a list of paths, or folder and datasets."""
    if isinstance(source, str | Path):
        return json.dumps(_place(source))
    if not isinstance(source, Mapping):
        return json.dumps([_place(path) for path in source])
    if set(source) != {"folder", "datasets"}:
        keys = ", ".join(map(str, source)) or "nothing"
        raise ValueError(f"questions have {keys}: expected folder and datasets")
    folder, names = source["folder"], known_datasets(source["datasets"])
    return json.dumps({"folder": _place(folder), "datasets": names})


def _place(path: str | Path) -> str:
    """The absolute path of a file or folder; any other name is returned unchanged."""
    place = Path(path).expanduser()
    return str(place.absolute() if path not in generate.SIZES and place.exists() else path)


def _versions(key: str) -> tuple[FileVersion, ...]:
    """The versions of the files of a source; empty for a generated world."""
    source = json.loads(key)
    if isinstance(source, str) and source in generate.SIZES:
        return ()
    paths = source if isinstance(source, list) else [source]
    places = [path["folder"] if isinstance(path, dict) else path for path in paths]
    return tuple(chain.from_iterable(versions(Path(place)) for place in places))


@lru_cache(8)
def _questions(key: str, files: tuple[FileVersion, ...], seed: int) -> Sequence[Question]:
    source = json.loads(key)
    if isinstance(source, dict):
        return read_datasets(source["folder"], source["datasets"])
    if isinstance(source, list):
        return _of_files(source)
    if source in generate.SIZES:
        world = generate.generated(generate.SIZES[source], seed)
        return world.questions
    if Path(source).expanduser().is_dir():
        return read_datasets(source)
    if Path(source).expanduser().is_file():
        return _of_files([source])
    raise QuestionFileError(
        Path(source),
        f"there are no such questions: choose {', '.join(generate.SIZES)}, or the path of a file"
        " or folder of questions",
    )


def _of_files(paths: Iterable[str]) -> list[Question]:
    return [q for path in paths for q in read_questions(Path(path).expanduser())]
