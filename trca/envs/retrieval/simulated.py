"""ZeroSearch's search engine (Sun et al. 2025): a language model writes what is found.

    engine = open_retriever("simulated", url="http://127.0.0.1:8000/v1", model="Qwen2.5-14B")
    told = engine.about("Who wrote Emma?", ["Jane Austen"], progress=0.5, seed=7)
    [passages] = told.search(["author of Emma"], limit=5)

The model is told the question and its answer, and is asked for useful documents or, with a
probability that grows as training goes on, for noisy ones: at the share ``x`` of training

``P(noisy) = p0 + (4^x - 1) / 3 (p1 - p0)``

What differs from the paper: a draw depends only on the seed and the query, so that a rollout can
be repeated; and without `about` the model is told nothing and writes useful documents only, as an
evaluation needs it. Needs ``pip install 'trca[endpoint]'``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from trca.common.chat_endpoint import ChatEndpoint, EndpointError, missing_client
from trca.common.short_line import short_line
from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import RetrievalError

_AT_ONCE: Final = 8
_NUMBER: Final = re.compile(r"^\W*(?:doc(?:ument)?\s*\d+\W*|\[?\d+[\].):]+)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the model knows of the task a query belongs to."""

    question: str
    answers: tuple[str, ...]
    noisy: float
    seed: int


class SimulatedRetriever:
    """A `Retriever` whose passages a language model invents, at an OpenAI-compatible endpoint.

    Attributes:
        waits: It waits on a network.
    """

    waits: Final = True

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None = None,
        documents: int = 5,
        words: int = 30,
        noise: tuple[float, float] = (0.0, 0.5),
        temperature: float = 0.8,
        timeout: float = 60.0,
        attempts: int = 4,
    ) -> None:
        """Prepares a client; nothing is asked yet.

        Args:
            url: The endpoint's base URL, ending in ``/v1``.
            model: The model's name there.
            api_key: Its key; ``OPENAI_API_KEY`` of the environment when None, if it is set.
            documents: How many documents the model is asked for.
            words: About how many words each has.
            noise: Share of noisy answers at the start and at the end of training, p0 and p1.
            temperature: Of sampling.
            timeout: Seconds to wait for a reply.
            attempts: How often a request is tried in all, with growing pauses.

        Raises:
            RetrievalError: When the client is not installed.
            ValueError: When a share is not between 0 and 1.
        """
        if not all(0 <= share <= 1 for share in noise):
            raise ValueError(f"noise {noise} must be two shares from 0 to 1")
        if lack := missing_client():
            raise RetrievalError(f"the simulated retriever asks an endpoint: {lack}")
        self._endpoint = ChatEndpoint(
            url, model, api_key=api_key, timeout=timeout, attempts=attempts
        )
        self._documents, self._words = documents, words
        self._noise, self._temperature = noise, temperature

    def about(
        self, question: str, answers: Sequence[str], progress: float, seed: int
    ) -> ToldRetriever:
        """The same engine for one rollout, with the question and its answers in the prompt.

        Args:
            question: The question the agent is answering.
            answers: Its right answers.
            progress: Share of training that is done, from 0 to 1.
            seed: Seed of the rollout.
        """
        noisy = noise_share(progress, *self._noise)
        return ToldRetriever(self, _Told(question, tuple(answers), noisy, seed))

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """Useful passages for each query; see `Retriever.search`."""
        return self.invent(queries, limit, None)

    def close(self) -> None:
        """Closes all connections."""
        self._endpoint.close()

    def invent(self, queries: Sequence[str], limit: int, told: _Told | None) -> list[list[Passage]]:
        """Asks for each query's passages, several at once.

        Raises:
            RetrievalError: When there is no answer, or one without documents.
        """
        if not queries:
            return []
        with ThreadPoolExecutor(min(len(queries), _AT_ONCE)) as pool:
            return list(pool.map(partial(self._ask, told=told, limit=limit), queries))

    def _ask(self, query: str, told: _Told | None, limit: int) -> list[Passage]:
        seed = _number(told.seed if told else 0, query)
        noisy = told is not None and seed / 2**32 < told.noisy
        try:
            written = self._endpoint.ask(
                self.prompt(query, told, noisy),
                temperature=self._temperature,
                max_tokens=4 * self._documents * self._words,
                seed=seed % 2**31,
            ).text
        except EndpointError as error:
            raise RetrievalError(f"{self._endpoint.url} gave no completion: {error}") from None
        passages = documents(written)
        if not passages:
            raise RetrievalError(
                f"{self._endpoint.model} wrote no documents but {short_line(written)!r}"
            )
        return passages[: min(limit, self._documents)]

    def prompt(self, query: str, told: _Told | None, noisy: bool) -> str:
        """What the model is asked, in ZeroSearch's words."""
        kind = "noisy" if noisy else "useful"
        task = ""
        if told is not None:
            answers = " or ".join(told.answers)
            task = (
                f"The user is trying to answer the question: {told.question} whose answer is"
                f" {answers}.\n"
            )
        return (
            "You are the Google search engine.\n"
            f"Given a query, you need to generate {self._documents} {kind} documents for the query,"
            f" one a line, each beginning with 'Doc' and its number.\n\n{task}"
            f"Each document should contain about {self._words} words, and these documents should"
            f" contain {kind} information.\n\nQuery: {query}\n{kind.capitalize()} Output:\n"
        )


class ToldRetriever:
    """A `Retriever` of one rollout; `SimulatedRetriever.about` makes it."""

    def __init__(self, engine: SimulatedRetriever, told: _Told) -> None:
        """Joins the engine and what its prompt says of the question."""
        self._engine = engine
        self._told = told

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """Useful or noisy passages for each query; see `Retriever.search`."""
        return self._engine.invent(queries, limit, self._told)

    def close(self) -> None:
        """Does nothing: the engine stays open."""


def noise_share(progress: float, start: float, end: float) -> float:
    """ZeroSearch's curriculum: the probability of a noisy answer.

    Args:
        progress: Share of training that is done, from 0 to 1.
        start: The probability at its start, p0.
        end: The probability at its end, p1.
    """
    grown: float = 4.0**progress
    return start + (grown - 1) / 3 * (end - start)


def documents(written: str) -> list[Passage]:
    """The documents in what a model wrote: each numbered one, or else each line."""
    found: list[str] = []
    numbered = False
    for line in map(str.strip, written.splitlines()):
        begins = _NUMBER.match(line)
        if begins and not numbered:
            # What stands before the first number is talk.
            numbered, found = True, []
        text = line[begins.end() :] if begins else line
        if begins or not numbered:
            found.append(text)
        elif found and text:
            found[-1] = f"{found[-1]} {text}".strip()
    return [Passage("", text) for text in found if text]


def _number(seed: int, query: str) -> int:
    """A number from 0 to 2^32 - 1 that is the same on every machine."""
    digest = hashlib.blake2b(f"{seed}\0{query}".encode(errors="replace"), digest_size=4).digest()
    return int.from_bytes(digest)
