r"""Passages, the documents and results of a search.

The contents of a passage are a title in quotation marks, a line break and a text, as in the corpora
of FlashRAG and Search-R1: ``'"Ada Lovelace"\nShe wrote the first program.'``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from trca.common.errors import DataError
from trca.common.json_lines import numbered_rows
from trca.envs.retrieval.storage import ByteStrings, encoded, read_arrays, writing

_KIND: Final = "store of passages"
_VERSION: Final = 1


class CorpusError(DataError):
    """A line of a corpus file is malformed."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}", path, line, problem)


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage, stored or retrieved, with title and text as contents.

    The id is empty if a server sends no id. A higher score is better; None without score.
    """

    id: str
    contents: str
    score: float | None = None

    @property
    def title(self) -> str:
        """The title without its quotation marks; empty without title."""
        first, line_break, _ = self.contents.partition("\n")
        return first.strip().removeprefix('"').removesuffix('"') if line_break else ""

    @property
    def text(self) -> str:
        """The text after the title."""
        first, line_break, rest = self.contents.partition("\n")
        return rest if line_break else first


class StoredPassages(Sequence[Passage]):
    """Passages in a folder, memory-mapped: only accessed passages are read."""

    def __init__(self, folder: Path, verify: bool = True) -> None:
        """Opens a folder of `store_passages`; see `read_arrays` for ``verify``."""
        arrays, _ = read_arrays(folder, _KIND, _VERSION, verify)
        self._ids = ByteStrings(arrays["ids"], arrays["id_ends"])
        self._contents = ByteStrings(arrays["contents"], arrays["contents_ends"])

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        place = range(len(self))[number]
        return Passage(
            str(self._ids[place], "utf-8", "surrogatepass"),
            str(self._contents[place], "utf-8", "surrogatepass"),
        )


def store_passages(folder: Path, passages: Iterable[Passage]) -> None:
    """Writes passages into a new folder, in one pass and in little memory."""
    with (
        writing(folder, _KIND, _VERSION) as writer,
        writer.strings("ids", "id_ends") as add_id,
        writer.strings("contents", "contents_ends") as add_contents,
    ):
        for passage in passages:
            add_id(encoded(passage.id))
            add_contents(encoded(passage.contents))


def read_corpus(path: Path) -> Iterator[Passage]:
    """Reads a corpus with one passage per line: ``{"id": ..., "contents": ...}``.

    The file may be compressed as ``.gz`` or ``.xz``.

    Raises:
        CorpusError: If a line is malformed, or a compressed file is broken or truncated.
    """
    for number, row in numbered_rows(path, partial(CorpusError, path)):
        if not isinstance(row, dict) or "id" not in row or not isinstance(row.get("contents"), str):
            keys = ", ".join(row) if isinstance(row, dict) else type(row).__name__
            problem = f'expected {{"id": ..., "contents": "..."}}, found {keys}'
            raise CorpusError(path, number, problem)
        yield Passage(str(row["id"]), row["contents"])
