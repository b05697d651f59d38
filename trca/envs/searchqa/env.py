"""`SearchQAEnv`: questions answered with a search engine, as a Gymnasium environment.

For example::

    env = gymnasium.make("trca.envs:trca/SearchQA-v0", questions="small", split="train")
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("search[Ada Balan]")
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from trca.envs.retrieval.simulated import SimulatedRetriever
from trca.envs.searchqa.actions import ANSWER_OFFER, SEARCH_OFFER, offered_actions
from trca.envs.searchqa.adapter import SearchQAAdapter
from trca.envs.searchqa.beliefs import Beliefs
from trca.envs.searchqa.data.corpora import open_search
from trca.envs.searchqa.data.datasets import DATASETS
from trca.envs.searchqa.demonstrator import demonstrated_action
from trca.envs.searchqa.oracle import oracle_action
from trca.envs.searchqa.simulator import Simulator, search_together
from trca.envs.searchqa.tasks import Source, generated_size, tasks_of
from trca.envs.task_env import TaskEnv
from trca.envs.text_env import TextEnv, TextInfo

ENV_ID: Final = "trca/SearchQA-v0"
PASSAGE_CHARS: Final = 500
"""Characters of a passage in a list of results; one of a hundred words is shown nearly whole."""
GENERATED_PASSAGE_CHARS: Final = 100
"""The same in a generated world, whose passages have 145 on average."""


class SearchQAEnv(TaskEnv):
    """One question an episode.

    Actions are ``search[query]``, which lists passages; ``open[n]``, which shows the n-th of them
    in full; and ``answer[text]``, which ends the episode (``terminated``). Anything else changes
    nothing and costs a step. After ``max_steps`` the episode is ``truncated``. The reward is 1 when
    the answer equals an alias of the right one, both in normal form (see `metrics.exact_match`).
    A search that fails for technical reasons raises RetrievalError; it never looks like a search
    that found nothing, and the same action may be tried again.

    When the episode is over, ``info["measures"]`` has ``f1``, that of the answer (0 when there was
    none), and ``gold_recall``, the share of the gold passages found, where these are known.
    ``reset`` also takes the option ``"progress"``, the share of training that is done: a simulated
    search engine is then told of the question as in ZeroSearch.

    Attributes:
        split: Name of the split the tasks come from.
        max_steps: The step limit.
        generated: Whether another seed is another world: questions and passages are generated.
    """

    env_id = ENV_ID

    def __init__(
        self,
        questions: Source = "small",
        retriever: str | Mapping[str, Any] = "bm25",
        corpus: str | Path | None = None,
        split: str = "train",
        max_steps: int = 4,
        top_k: int = 3,
        max_passage_chars: int | None = None,
        seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        """Chooses the tasks and what is searched.

        Args:
            questions: ``small``, ``medium`` or ``large`` for a generated world; the path of a file
                or folder of questions, or a list of files; or ``{"folder": ..., "datasets":
                [...]}`` (see `tasks`).
            retriever: Name of a retriever, or a mapping of ``name`` and its options.
            corpus: An index, or a corpus to index; a generated world brings its own.
            split: A split of the questions.
            max_steps: The step limit.
            top_k: How many passages a search lists.
            max_passage_chars: Characters of a passage's text in such a list; None for
                `GENERATED_PASSAGE_CHARS` in a generated world, else `PASSAGE_CHARS`.
            seed: Seed of a generated world.
            render_mode: ``ansi`` lets ``render`` return the episode so far as text.

        Raises:
            ValueError: When a name is unknown, which lists the known ones, or a number too small.
            QuestionFileError: When questions are missing or malformed; names the file and line.
            CorpusError: When a line of the corpus is malformed.
            StoredDataError: When an index is not whole.
            RetrievalError: When the retriever cannot be opened.
        """
        super().__init__(split, max_steps, render_mode)
        count = generated_size(questions)
        if max_passage_chars is None:
            max_passage_chars = PASSAGE_CHARS if count is None else GENERATED_PASSAGE_CHARS
        numbers = {"max_steps": max_steps, "top_k": top_k, "max_passage_chars": max_passage_chars}
        for name, number in numbers.items():
            if number < 1:
                raise ValueError(f"{name} is {number}: give 1 or more")
        if render_mode not in (None, "ansi"):
            raise ValueError(f"unknown render mode {render_mode!r}: choose ansi")
        self._tasks = tasks_of(questions, split, seed)
        self._retriever = open_search(retriever, corpus, count, seed)
        self.generated = count is not None and corpus is None and retriever == "bm25"
        self._simulator = Simulator(self._retriever, top_k, max_passage_chars)
        self._adapter = SearchQAAdapter()

    @classmethod
    def prefetch(cls, pairs: Sequence[tuple[TextEnv, str]]) -> None:
        """Searches for a turn of several environments with one request to each retriever."""
        search_together([(env._simulator, act) for env, act in pairs if isinstance(env, cls)])

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The tasks of the split, in panel order."""
        return self._tasks.ids

    @property
    def admissible_actions(self) -> list[str]:
        """A search, the passages to open, and an answer; none once there is an answer."""
        simulator = self._playing()
        return [] if simulator.done else offered_actions(len(simulator.results))

    def oracle_action(self) -> str:
        """The next action on a way to the right answer, by the hidden gold.

        For proofs, checks and demonstrations; nothing of it reaches ``info``.
        """
        return oracle_action(self._playing(), self._observed())

    def heuristic_action(self) -> str:
        """A sensible next action from what an agent could have observed so far.

        It copes with whatever was done before, so a demonstrator may mix it with other actions.
        """
        return demonstrated_action(self._observed())

    def random_action(self, rng: np.random.Generator) -> str:
        """One of the admissible actions, drawn evenly, its blank filled with words at hand.

        A search is for words of the question, an answer is a few words of what was shown last.
        """
        action = super().random_action(rng)
        if action == SEARCH_OFFER:
            words = self._simulator.question.text.rstrip("?").split()
            return f"search[{' '.join(rng.choice(words, size=int(rng.integers(1, 7))))}]"
        if action == ANSWER_OFFER:
            words = self._record[-1][1].replace(".", "").split()
            start = int(rng.integers(len(words)))
            return f"answer[{' '.join(words[start : start + int(rng.integers(1, 4))])}]"
        return action

    def _start(self, task_id: Any, options: dict[str, Any]) -> str:
        question, retriever = self._tasks.find(task_id), self._retriever
        if isinstance(retriever, SimulatedRetriever) and "progress" in options:
            draw = zlib.crc32(str(task_id).encode())
            told = retriever.about(question.text, question.answers, options["progress"], draw)
            return self._simulator.reset(question, told)
        return self._simulator.reset(question)

    def _carry_out(self, action: str) -> tuple[str, float, bool, TextInfo]:
        """Carries an action out.

        Raises:
            RetrievalError: When a search could not be done; everything is then as it was.
        """
        simulator = self._simulator
        observation = simulator.step(action)
        score = simulator.score
        outcome = TextInfo(accepted=simulator.accepted, won=score == 1.0, score=score)
        return observation, score, simulator.done, outcome

    def _described(self) -> tuple[str, str]:
        question = self._simulator.question
        known = question.dataset in DATASETS
        return question.dataset if known else question.kind, question.text

    def _measures(self) -> dict[str, float]:
        recall = self._simulator.gold_recall
        return {"f1": self._simulator.f1} | ({} if recall is None else {"gold_recall": recall})

    def _observed(self) -> Beliefs:
        """What an agent knows by now, from what it was shown and did."""
        self._follow(self._adapter)
        return self._adapter.beliefs

    def _playing(self) -> Simulator:
        self._check_started()
        return self._simulator
