"""Questions and the files they are read from.

Three forms are understood, by the name of the file and the fields of its rows:

- FlashRAG's JSONL: ``{"id", "question", "golden_answers", "metadata"}``;
- the Parquet of Search-R1, verl and verl-agent: ``data_source``, ``prompt`` or ``question``,
  ``reward_model.ground_truth.target``, ``extra_info``;
- JSONL of our own, which says more: ``dataset``, ``split``, ``type``, ``gold_ids``,
  ``gold_titles``.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".parquet")
"""How the names of question files end."""
SPLITS: Final = ("train", "validation", "test")
SPLIT_NAMES: Final = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "dev": "validation",
    "test": "test",
}
"""What rows and the names of files say of a split -> the split."""
_TAG: Final = "searchR1_"
"""What verl puts before the names of datasets."""


class QuestionFileError(ValueError):
    """A question file is not as it should be."""

    def __init__(self, path: Path, problem: str, row: int | None = None) -> None:
        """Says what is wrong where.

        Args:
            path: The file or folder.
            problem: What is wrong with it, and how to mend it.
            row: The line of the file, or the row of a Parquet file, from 1.
        """
        super().__init__(f"{path}: {problem}" if row is None else f"{path}:{row}: {problem}")


class QuestionsMissingError(QuestionFileError, FileNotFoundError):
    """There is nothing at the path of questions."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what only the judge of its answer may know.

    Attributes:
        id: Its id within the dataset.
        dataset: Where it comes from.
        split: The split it is in, one of `SPLITS`.
        text: The question itself.
        answers: The aliases of the right answer, at least one. Hidden from the agent.
        kind: What sort of question it is; the dataset's name where the dataset does not say.
        gold_ids: Ids of the passages that support the answer, in the order to read them. Hidden.
        gold_titles: Their titles. Hidden.
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
        """The question as a row of our own JSONL."""
        fields = asdict(self)
        named = {"text": "question", "answers": "golden_answers", "kind": "type"}
        return {named.get(key, key): value for key, value in fields.items() if value != ()}


def read_questions(path: Path, dataset: str = "") -> Iterator[Question]:
    """Reads a file of questions.

    A row that tells no split is in the one that the file's name tells, else in ``test``.

    Args:
        path: The file; its name ends in one of `SUFFIXES`.
        dataset: The dataset of rows that name none; blank for the name of the file, without the
            split, or of its folder when the file is named after a split alone.

    Yields:
        The questions, in order.

    Raises:
        QuestionFileError: When it cannot be read or a row is malformed; names the file and line.
    """
    if not path.is_file():
        raise QuestionsMissingError(path, "there is no such file of questions")
    named, split = _told_by_name(path)
    rows = _parquet(path) if path.name.endswith(".parquet") else _lines(path)
    seen: dict[tuple[str, str, str], int] = {}
    for number, row in rows:
        try:
            question = _question(row, dataset or named, split, number)
        except ValueError as error:
            raise QuestionFileError(path, str(error), number) from None
        key = (question.dataset, question.split, question.id)
        if key in seen:
            problem = f"id {question.id!r} is that of row {seen[key]} too"
            raise QuestionFileError(path, problem, number)
        seen[key] = number
        yield question


def write_questions(path: Path, questions: Iterator[Question]) -> int:
    """Writes questions as our own JSONL; the file appears only once it is whole.

    Returns:
        How many they were.
    """
    count = 0
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        for question in questions:
            file.write(json.dumps(question.row(), ensure_ascii=False) + "\n")
            count += 1
    part.replace(path)
    return count


def _told_by_name(path: Path) -> tuple[str, str]:
    """Dataset and split that ``nq/train.jsonl``, ``nq_train.jsonl`` or ``nq.jsonl`` tell."""
    stem = path.name.partition(".")[0]
    if stem in SPLIT_NAMES:
        return path.absolute().parent.name, stem
    head, _, tail = stem.rpartition("_")
    return (head, tail) if head and tail in SPLIT_NAMES else (stem, "test")


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    if not path.name.endswith(SUFFIXES):
        raise QuestionFileError(path, f"unknown kind of file: choose {', '.join(SUFFIXES)}")
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise QuestionFileError(path, f"this is no JSON ({error})", number) from None
                yield number, row
    except (OSError, EOFError, lzma.LZMAError) as error:
        problem = f"cannot be read on ({error}): fetch it again"
        raise QuestionFileError(path, problem, number + 1) from None


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path))
    return lzma.open(path) if path.suffix == ".xz" else path.open("rb")


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    from pyarrow import ArrowException, parquet

    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=4096):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (OSError, ArrowException) as error:
        raise QuestionFileError(path, f"this is no whole Parquet file ({error})") from None


def _question(row: Any, dataset: str, split: str, number: int) -> Question:
    """The question of a row; raises ValueError where the row is malformed."""
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, found {type(row).__name__}")
    extra, metadata = _mapping(row, "extra_info"), _mapping(row, "metadata")
    dataset = str(row.get("dataset") or row.get("data_source") or dataset)
    dataset = dataset.removeprefix(_TAG)
    name = row.get("id", extra.get("index"))
    facts = metadata.get("supporting_facts")
    split = str(row.get("split") or extra.get("split") or split)
    if split not in SPLIT_NAMES:
        raise ValueError(f"unknown split {split[:80]!r}: choose {', '.join(SPLIT_NAMES)}")
    titles = row.get("gold_titles") or (facts.get("title") if isinstance(facts, dict) else None)
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


def _text(row: Mapping[str, Any]) -> str:
    """The question: as such, of verl-agent's ``env_kwargs``, or the end of Search-R1's prompt."""
    text = row.get("question") or _mapping(row, "env_kwargs").get("question")
    prompt = row.get("prompt")
    if text is None and isinstance(prompt, list) and prompt and isinstance(prompt[-1], dict):
        content = str(prompt[-1].get("content", ""))
        text = content.partition("Question:")[2] or content
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f'no question: expected "question" or "prompt", found {_names(row)}')
    return " ".join(text.split())


def _answers(row: Mapping[str, Any]) -> tuple[str, ...]:
    answers = row.get("golden_answers")
    if answers is None:
        truth = _mapping(_mapping(row, "reward_model"), "ground_truth")
        truth = truth or _mapping(_mapping(row, "env_kwargs"), "ground_truth")
        answers = truth.get("target")
    if isinstance(answers, str):
        answers = [answers]
    found = _strings(answers, "golden_answers")
    if not found or not all(answer.strip() for answer in found):
        raise ValueError(
            'no answers: expected "golden_answers" or "reward_model.ground_truth.target" with one'
            f" text or more, found {_names(row)}"
        )
    return found


def _strings(value: Any, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str | int) for each in value):
        raise ValueError(f"{name} is {str(value)[:80]}: expected a list of texts")
    return tuple(dict.fromkeys(str(each) for each in value))


def _mapping(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(map(str, row)) or "nothing"
