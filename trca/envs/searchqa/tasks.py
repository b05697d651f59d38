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
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from trca.common.files import FileVersion, versions
from trca.common.shared import named
from trca.envs.panel import Tasks
from trca.envs.searchqa.data import generate
from trca.envs.searchqa.data.datasets import IN_DOMAIN, known_datasets, read_datasets
from trca.envs.searchqa.data.questions import SPLITS, Question, QuestionFileError, read_questions

Source = str | Path | Sequence[str | Path] | Mapping[str, Any]
"""A source of questions; see the module docstring."""


def tasks_of(source: Source, split: str, seed: int = 0) -> Tasks[Question]:
    """The tasks of a split, cached per process until a file changes.

    An id such as ``nq-90225d4f/test/00012`` has the dataset, a hash, the split, and the number of
    the question in the split. The hash covers the dataset's questions in the split with answers and
    gold passages, and the passages of a generated world. Therefore equal ids mean equal tasks.
    Datasets alternate, so the first tasks of a panel mix all datasets.
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
    # The absolute paths of files and folders; any other name stays unchanged.
    places = [Path(each).expanduser() for each in given]
    paths = tuple(
        str(place.absolute() if name not in generate.SIZES and place.exists() else name)
        for name, place in zip(given, places, strict=True)
    )
    count = generate.SIZES.get(paths[0]) if datasets is None and len(paths) == 1 else None
    files = () if count else tuple(chain.from_iterable(versions(Path(p)) for p in paths))
    tasks = _tasks_of(_Given(paths, datasets, count, files, seed), split)
    again = list(paths) if datasets is None else {"folder": paths[0], "datasets": datasets}
    return named(tasks, tasks_of, again, split, seed)


def generated_size(source: Source) -> int | None:
    """The number of passages of a generated world; None for any other source."""
    return generate.SIZES.get(source) if isinstance(source, str) else None


class _Given(NamedTuple):
    """What decides the questions of a source: files with versions, or a generated world."""

    paths: tuple[str, ...]
    datasets: tuple[str, ...] | None
    size: int | None
    files: tuple[FileVersion, ...]
    seed: int


@lru_cache(16)
def _tasks_of(source: _Given, split: str) -> Tasks[Question]:
    paths, datasets, count, _, seed = source
    questions = _questions(source)
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
    if count is not None:
        corpus = "\n\n".join(p.contents for p in generate.generated(count, seed).passages).encode()
    lists = []
    for dataset, each in chosen.items():
        content = hashlib.sha256(corpus)
        for question in each:
            content.update(json.dumps(question.row()).encode())
        prefix = f"{dataset}-{content.hexdigest()[:8]}/{split}"
        lists.append([(f"{prefix}/{number:05d}", question) for number, question in enumerate(each)])
    turns = (pair for pair in chain.from_iterable(zip_longest(*lists)) if pair is not None)
    return Tasks(split, dict(turns))


@lru_cache(8)
def _questions(source: _Given) -> Sequence[Question]:
    paths, datasets, count, _, seed = source
    places = [Path(path).expanduser() for path in paths]
    if datasets is not None:
        return read_datasets(places[0], datasets)
    if count is not None:
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
