"""Questions and their files.

The name of the file and the fields of its rows determine one of three formats:

- FlashRAG's JSONL: ``{"id", "question", "golden_answers", "metadata"}``;
- the Parquet of Search-R1, verl and verl-agent: ``data_source``, ``prompt`` or ``question``,
  ``reward_model.ground_truth.target``, ``extra_info``;
- this project's JSONL, with further fields: ``dataset``, ``split``, ``type``, ``gold_ids``,
  ``gold_titles``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from trca.common.errors import DataError
from trca.common.files import writing
from trca.common.json_lines import numbered_rows

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".parquet")
"""Endings of the names of question files."""
SPLITS: Final = ("train", "validation", "test")
SPLIT_NAMES: Final = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "dev": "validation",
    "test": "test",
}
"""Name of a split in rows and file names -> split."""
_TAG: Final = "searchR1_"
"""Prefix of verl before the names of datasets."""


class QuestionFileError(DataError, ValueError):
    """A question file is missing or malformed, perhaps in a line or a row of Parquet, from 1."""

    def __init__(self, path: Path, problem: str, row: int | None = None) -> None:
        place = path if row is None else f"{path}:{row}"
        super().__init__(f"{place}: {problem}", path, problem, row)


class QuestionsMissingError(QuestionFileError, FileNotFoundError):
    """The path of the questions does not exist."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its hidden answers and gold passages.

    Attributes:
        id: Id within the dataset.
        split: One of `SPLITS`.
        answers: The aliases of the right answer, at least one. Hidden from the agent.
        kind: Type of the question; by default the name of the dataset.
        gold_ids: Ids of the passages that support the answer, in reading order. Hidden.
        gold_titles: Titles of these passages. Hidden.
    """

    id: str
    dataset: str
    split: str
    text: str
    answers: tuple[str, ...]
    kind: str
    gold_ids: tuple[str, ...] = ()
    gold_titles: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """The question as a row of this project's JSONL."""
        fields = asdict(self)
        names = {"text": "question", "answers": "golden_answers", "kind": "type"}
        return {names.get(key, key): value for key, value in fields.items() if value != ()}


def read_questions(path: Path, dataset: str = "") -> Iterator[Question]:
    """Reads a file of questions, in order.

    A row without split is in the split of the file's name, or else in ``test``. A row without
    dataset is in ``dataset``, or else in that of the file's name: without the split, or the name of
    the folder if the file is named after a split.
    """
    if not path.is_file():
        raise QuestionsMissingError(path, "there is no such file of questions")
    # Dataset and split in ``nq/train.jsonl``, ``nq_train.jsonl`` or ``nq.jsonl``.
    stem = path.name.partition(".")[0]
    head, _, tail = stem.rpartition("_")
    file_dataset, split = (head, tail) if head and tail in SPLIT_NAMES else (stem, "test")
    if stem in SPLIT_NAMES:
        file_dataset, split = path.absolute().parent.name, stem
    if not path.name.endswith(SUFFIXES):
        raise QuestionFileError(path, f"unknown kind of file: choose {', '.join(SUFFIXES)}")
    if path.name.endswith(".parquet"):
        rows = _parquet(path)
    else:
        rows = numbered_rows(path, lambda number, problem: QuestionFileError(path, problem, number))
    seen: dict[tuple[str, str, str], int] = {}
    for number, row in rows:
        try:
            question = _question(row, dataset or file_dataset, split, number)
        except ValueError as error:
            raise QuestionFileError(path, str(error), number) from None
        key = (question.dataset, question.split, question.id)
        if key in seen:
            problem = f"row {seen[key]} has the same id {question.id!r}"
            raise QuestionFileError(path, problem, number)
        seen[key] = number
        yield question


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Writes questions as this project's JSONL, atomically."""
    with writing(path) as file:
        for question in questions:
            file.write(json.dumps(question.row(), ensure_ascii=False) + "\n")


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    from pyarrow import ArrowException, parquet

    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=4096):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (OSError, ArrowException) as error:
        raise QuestionFileError(
            path, f"the Parquet file is broken or truncated ({error})"
        ) from None


def _question(row: Any, dataset: str, split: str, number: int) -> Question:
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, found {type(row).__name__}")
    dataset = str(row.get("dataset") or row.get("data_source") or dataset).removeprefix(_TAG)
    name = row["id"] if "id" in row else _at(row, "extra_info", "index")
    split = str(row.get("split") or _at(row, "extra_info", "split") or split)
    if split not in SPLIT_NAMES:
        raise ValueError(f"unknown split {split[:80]!r}: choose {', '.join(SPLIT_NAMES)}")
    titles = row.get("gold_titles") or _at(row, "metadata", "supporting_facts", "title")
    return Question(
        id=str(number - 1 if name is None else name),
        dataset=dataset,
        split=SPLIT_NAMES[split],
        text=_text(row),
        answers=_answers(row),
        kind=str(row.get("type") or dataset),
        gold_ids=_strings(row.get("gold_ids"), "gold_ids"),
        gold_titles=_strings(titles, "gold_titles"),
    )


def _at(row: Any, *keys: str) -> Any:
    for key in keys:
        row = row.get(key) if isinstance(row, dict) else None
    return row


def _text(row: Mapping[str, Any]) -> str:
    """The question in ``question``, verl-agent's ``env_kwargs`` or Search-R1's prompt."""
    text = row.get("question") or _at(row, "env_kwargs", "question")
    prompt = row.get("prompt")
    if text is None and isinstance(prompt, list) and prompt and isinstance(prompt[-1], dict):
        content = str(prompt[-1].get("content", ""))
        text = content.partition("Question:")[2] or content
    if not isinstance(text, str) or not text.strip():
        found = ", ".join(map(str, row)) or "nothing"
        raise ValueError(f'no question: expected "question" or "prompt", found {found}')
    return " ".join(text.split())


def _answers(row: Mapping[str, Any]) -> tuple[str, ...]:
    answers = row.get("golden_answers")
    if answers is None:
        truth = ("ground_truth", "target")
        answers = _at(row, "reward_model", *truth) or _at(row, "env_kwargs", *truth)
    answers = [answers] if isinstance(answers, str) else answers
    aliases = tuple(each for each in _strings(answers, "golden_answers") if each.strip())
    if not aliases:
        raise ValueError(
            'no answers: expected "golden_answers" or "reward_model.ground_truth.target" with one'
            f" text or more, found {', '.join(map(str, row)) or 'nothing'}"
        )
    return aliases


def _strings(value: Any, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(each) in (str, int) for each in value):
        raise ValueError(f"{name} is {str(value)[:80]}: expected a list of texts")
    return tuple(dict.fromkeys(str(each) for each in value))
