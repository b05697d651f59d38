"""The simulator of SearchQA: one episode, from the question to an answer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import RetrievalError, Retriever
from trca.envs.searchqa.answer_scores import exact_match
from trca.envs.searchqa.data.questions import Question
from trca.envs.searchqa.pages import ANSWERED, REJECTED, passage_page, results_page
from trca.envs.searchqa.reading import read_action

LONGEST_QUERY: Final = 2_000
"""Largest number of characters of a query for the retriever. The limit keeps an agent from making
the retriever fail."""
_MOST_RETRIEVERS: Final = 32
"""Largest number of retrievers that search at the same time. Each simulated retriever may have a
question of its episode."""


class Simulator:
    """Carries out searches, openings and answers, and stores the passages found.

    Attributes:
        question: The question. Its answers and gold passages are for scores and oracles only.
        accepted: Whether the last action was carried out.
        done: Whether an answer was submitted.
        answer: The answer; empty before.
        results: Results of the last search, best first.
        found: All passages found so far by contents, in order of first sight.
    """

    def __init__(self, retriever: Retriever, top_k: int = 3, max_passage_chars: int = 500) -> None:
        self._retriever = self._searching = retriever
        self._top_k = top_k
        self._limit = max_passage_chars
        self._ready: dict[str, list[Passage]] = {}
        self.question = Question("", "", "", "", (), "")
        self._start()

    def reset(self, question: Question, retriever: Retriever | None = None) -> str:
        """Starts with a question and returns the first observation.

        A retriever replaces the default retriever in this episode.
        """
        self.question = question
        self._searching = retriever or self._retriever
        self._start()
        return f"Question: {question.text}"

    def step(self, action: str) -> str:
        """Carries out an action and returns the observation; any string is legal.

        If a search fails, a RetrievalError leaves the state unchanged.
        """
        read = read_action(action)
        ready, self._ready = self._ready, {}
        if read.verb == "search" and read.argument:
            return self._search(read.argument[:LONGEST_QUERY], ready)
        if read.verb == "answer" and read.argument:
            self.accepted = self.done = True
            self.answer = read.argument
            return ANSWERED
        self.accepted = 1 <= read.number <= len(self.results)
        if not self.accepted:
            return REJECTED
        return passage_page(read.number, self.results[read.number - 1])

    @property
    def score(self) -> float:
        """Exact match of the answer; 0 before an answer."""
        return exact_match(self.answer, self.question.answers) if self.done else 0.0

    def _start(self) -> None:
        self._ready = {}
        self.accepted = True
        self.done = False
        self.answer = ""
        self.results: tuple[Passage, ...] = ()
        self.found: dict[str, Passage] = {}

    def _search(self, query: str, ready: dict[str, list[Passage]]) -> str:
        if query not in ready:
            [ready[query]] = self._searching.search([query], self._top_k)
        passages = ready[query]
        self.accepted = True
        self.results = tuple(passages[: self._top_k])
        for passage in self.results:
            self.found.setdefault(passage.contents, passage)
        return results_page(self.results, self._limit)


def search_together(pairs: Sequence[tuple[Simulator, str]]) -> None:
    """Performs the next searches of several simulators, with one search per retriever.

    The pairs are simulators with their next actions; other actions than searches are ignored. The
    following steps use the results. If a search fails, no result is kept; the step then searches
    again and raises the error.
    """
    batches: dict[tuple[int, int], list[tuple[Simulator, str]]] = {}
    for simulator, action in pairs:
        read = read_action(action)
        if read.verb == "search" and read.argument and not simulator.done:
            key = id(simulator._searching), simulator._top_k
            batches.setdefault(key, []).append((simulator, read.argument[:LONGEST_QUERY]))
    if len(batches) > 1:
        with ThreadPoolExecutor(min(len(batches), _MOST_RETRIEVERS)) as pool:
            list(pool.map(_search_batch, batches.values()))
    else:
        for batch in batches.values():
            _search_batch(batch)


def _search_batch(batch: Sequence[tuple[Simulator, str]]) -> None:
    first = batch[0][0]
    queries = list(dict.fromkeys(query for _, query in batch))
    try:
        results = first._searching.search(queries, first._top_k)
    except RetrievalError:
        return
    passages = dict(zip(queries, results, strict=True))
    for simulator, query in batch:
        simulator._ready = {query: passages[query]}
