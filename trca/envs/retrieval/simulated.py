"""ZeroSearch's search engine (Sun et al. 2025): a language model writes the passages.

    engine = open_retriever("simulated", url="http://127.0.0.1:8000/v1", model="Qwen2.5-14B")
    retriever = engine.about("Who wrote Emma?", ["Jane Austen"], progress=0.5, seed=7)
    [passages] = retriever.search(["author of Emma"], limit=5)

The prompt contains the question and its answer. It asks for useful documents or, with a probability
that grows during training, for noisy documents. At the share ``x`` of training,

``P(noisy) = p0 + (4^x - 1) / 3 (p1 - p0)``

Differences from the paper: a draw depends on the seed and the query only, so a rollout can be
repeated. Without `about`, the prompt contains the query only and asks for useful documents only, as
an evaluation requires. Needs the extra ``endpoint``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from trca.common.chat_endpoint import ChatEndpoint, EndpointError, missing_client
from trca.common.errors import short_line
from trca.common.shared import Shared, named
from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import RetrievalError

_AT_ONCE: Final = 8
_NUMBER: Final = re.compile(r"^\W*(?:doc(?:ument)?\s*\d+\W*|\[?\d+[\].):]+)\s*", re.IGNORECASE)


class SimulatedRetriever(Shared):
    """A `Retriever` with passages from a language model at an OpenAI-compatible endpoint."""

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
        """Prepares a client without sending a request.

        Args:
            url: Base URL of the endpoint, ending in ``/v1``.
            model: Name of the model at the endpoint.
            api_key: Key of the endpoint; None for ``OPENAI_API_KEY`` if set.
            documents: Number of documents per request.
            words: Approximate number of words per document.
            noise: Probability of noisy documents at the start and at the end of training, p0 and
                p1.
            temperature: Sampling temperature.
            timeout: Seconds to wait for a reply.
            attempts: Total number of attempts per request, with growing pauses.
        """
        shares = noise if isinstance(noise, list | tuple) else ()
        if len(shares) != 2 or not all(0 <= share <= 1 for share in shares):
            raise ValueError(f"noise is {noise}: give two probabilities from 0 to 1")
        if advice := missing_client():
            raise RetrievalError(f"the simulated retriever needs an endpoint client: {advice}")
        self._endpoint = ChatEndpoint(
            url, model, api_key=api_key, timeout=timeout, attempts=attempts
        )
        self._documents, self._words = documents, words
        self._noise, self._temperature = noise, temperature
        self._question_line, self._noisy, self._seed = "", 0.0, 0

    def about(
        self, question: str, answers: Sequence[str], progress: float, seed: int
    ) -> SimulatedRetriever:
        """The same engine for the rollout of a seed, with question and answers in the prompt.

        ``progress`` is the completed share of training, from 0 to 1.
        """
        told = object.__new__(SimulatedRetriever)
        vars(told).update(vars(self))
        told._question_line = (
            f"The user is trying to answer the question: {question} whose answer is"
            f" {' or '.join(answers)}.\n"
        )
        told._noisy, told._seed = noise_share(progress, *self._noise), seed
        return named(told, self.about, question, answers, progress, seed)

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """Passages for each query, several queries at once; see `Retriever.search`."""
        if not queries:
            return []
        with ThreadPoolExecutor(min(len(queries), _AT_ONCE)) as pool:
            return list(pool.map(partial(self._ask, limit=limit), queries))

    def close(self) -> None:
        """Closes all connections."""
        self._endpoint.close()

    def _ask(self, query: str, limit: int) -> list[Passage]:
        text = f"{self._seed}\0{query}".encode(errors="replace")
        seed = int.from_bytes(hashlib.blake2b(text, digest_size=4).digest())
        try:
            written = self._endpoint.ask(
                self.prompt(query, noisy=seed / 2**32 < self._noisy),
                temperature=self._temperature,
                max_tokens=4 * self._documents * self._words,
                seed=seed % 2**31,
            ).after_thought
        except EndpointError as error:
            raise RetrievalError(f"{self._endpoint.url} gave no completion: {error}") from None
        passages = documents(written)
        if not passages:
            raise RetrievalError(
                f"{self._endpoint.model} wrote no documents but {short_line(written)!r}"
            )
        return passages[: min(limit, self._documents)]

    def prompt(self, query: str, noisy: bool) -> str:
        """The prompt of a query, in ZeroSearch's words."""
        kind = "noisy" if noisy else "useful"
        return (
            "You are the Google search engine.\n"
            f"Given a query, you need to generate {self._documents} {kind} documents for the query,"
            f" one a line, each beginning with 'Doc' and its number.\n\n{self._question_line}"
            f"Each document should contain about {self._words} words, and these documents should"
            f" contain {kind} information.\n\nQuery: {query}\n{kind.capitalize()} Output:\n"
        )


def noise_share(progress: float, start: float, end: float) -> float:
    """ZeroSearch's curriculum: the probability of noisy documents, from p0 to p1."""
    grown: float = 4.0**progress
    return start + (grown - 1) / 3 * (end - start)


def documents(written: str) -> list[Passage]:
    """The documents in a model's reply: each numbered document, or each line without numbers."""
    texts: list[str] = []
    numbered = False
    for line in map(str.strip, written.splitlines()):
        begins = _NUMBER.match(line)
        if begins and not numbered:
            # Text before the first number is not part of a document.
            numbered, texts = True, []
        text = line[begins.end() :] if begins else line
        if begins or not numbered:
            texts.append(text)
        elif texts and text:
            texts[-1] = f"{texts[-1]} {text}".strip()
    return [Passage("", text) for text in texts if text]
