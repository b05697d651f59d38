"""`SearchQAEnv`: questions answered with a search engine, as a Gymnasium environment."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from trca.envs.retrieval.simulated import SimulatedRetriever
from trca.envs.searchqa.adapter import SearchQAAdapter
from trca.envs.searchqa.answer_scores import f1, gold_recall, word_set_f1
from trca.envs.searchqa.data.corpora import open_search
from trca.envs.searchqa.data.datasets import DATASETS
from trca.envs.searchqa.data.generate import generated
from trca.envs.searchqa.players import demonstrated_action, oracle_action
from trca.envs.searchqa.reading import ANSWER_OFFER, SEARCH_OFFER, offered_actions
from trca.envs.searchqa.simulator import Simulator, search_together
from trca.envs.searchqa.tasks import Source, generated_size, tasks_of
from trca.envs.text_env import Gold, Outcome, TextEnv

PASSAGE_CHARS: Final = 500
"""Characters of a passage in a list of results; a passage of a hundred words is nearly complete."""
GENERATED_PASSAGE_CHARS: Final = 100
"""The same limit for generated worlds, whose passages have 145 characters on average."""


class SearchQAEnv(TextEnv):
    """One question per episode.

    ``search[query]`` lists passages, ``open[n]`` shows the n-th listed passage in full, and
    ``answer[text]`` ends the episode (``terminated``). Any other text changes nothing and costs a
    step. After ``max_steps`` the episode is ``truncated``. The reward is 1 if the answer equals an
    alias of the right answer in normal form, else 0; see `answer_scores.exact_match`. A search that
    fails for technical reasons raises RetrievalError, so it never looks like a search without
    results; the same action may be tried again.

    At the end of an episode, ``info["measures"]`` has the ``f1`` of the answer (0 without an
    answer), ``word_set_f1``, the F1 of its set of words with articles (IGPO's), and, for known gold
    passages, ``gold_recall``, the share of the gold passages found. ``reset`` also takes the option
    ``"progress"``, the completed share of the training: the simulated search engine then receives
    the question, as in ZeroSearch.
    """

    env_id = "trca/SearchQA-v0"
    adapter_class = SearchQAAdapter
    library = "searchqa"
    default_split = "test"
    tiny_policy: ClassVar = {
        "kv_heads": 4,
        "mimetic": True,
        "lr": 3e-3,
        "max_steps": 4,
        "worlds": 10,
        "deliberate": ("answer", "tell"),
        "stages": ((0.1, 1500), (0.75, 300)),
    }
    open_actions = frozenset({SEARCH_OFFER, ANSWER_OFFER})
    language = ("questions", "retriever", "corpus", "top_k", "max_passage_chars", "seed")

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
        """Selects the tasks and the retriever.

        Args:
            questions: ``small``, ``medium`` or ``large`` for a generated world; the path of a file
                or folder of questions, or a list of files; or ``{"folder": ..., "datasets":
                [...]}`` (see `tasks`).
            retriever: Name of a retriever, or a mapping of ``name`` and options.
            corpus: An index or a corpus file; None for the passages of a generated world.
            split: A split of the questions.
            max_steps: The step limit.
            top_k: Number of passages that a search lists.
            max_passage_chars: Characters of a passage's text in a list of results; below 40 the
                facts do not recognize an opened passage as a listed one. None for
                `GENERATED_PASSAGE_CHARS` in a generated world, else `PASSAGE_CHARS`.
            seed: Seed of a generated world.
            render_mode: With ``ansi``, ``render`` returns the transcript of the episode as text.

        Raises:
            ValueError: For an unknown name or a number below 1. The message lists the known names.
            QuestionFileError: If questions are missing or malformed. The message names the file and
                line.
            CorpusError: If a line of the corpus is malformed.
            StoredDataError: If an index is incomplete or damaged.
            RetrievalError: If the retriever cannot be opened.
        """
        super().__init__(split, max_steps, render_mode)
        count = generated_size(questions)
        if max_passage_chars is None:
            max_passage_chars = PASSAGE_CHARS if count is None else GENERATED_PASSAGE_CHARS
        for name, number in (("top_k", top_k), ("max_passage_chars", max_passage_chars)):
            if number < 1:
                raise ValueError(f"{name} is {number}: give 1 or more")
        self._tasks = tasks_of(questions, split, seed)
        self._retriever = open_search(retriever, corpus, count, seed)
        self.waits = getattr(self._retriever, "waits", False)
        self.generated = count is not None and corpus is None and retriever == "bm25"
        self._simulator = Simulator(self._retriever, top_k, max_passage_chars)
        self._generated = (count, seed) if count is not None and corpus is None else None

    @classmethod
    def prefetch(cls, pairs: Sequence[tuple[TextEnv, str]]) -> None:
        """Performs the next searches of several environments, with one request per retriever."""
        search_together([(env._simulator, act) for env, act in pairs if isinstance(env, cls)])

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The task ids of the split, in panel order."""
        return self._tasks.ids

    @property
    def admissible_actions(self) -> list[str]:
        """A search, the listed passages to open, and an answer; empty after an answer."""
        self._check_started()
        simulator = self._simulator
        return [] if simulator.done else offered_actions(len(simulator.results))

    def gold(self, task_id: str) -> Gold:
        """The right answers and, in a generated world, the gold passages."""
        question = self._tasks.find(task_id)
        actions = tuple(f"answer[{answer}]" for answer in question.answers)
        if self._generated is None:
            return Gold(question.answers, answer_actions=actions)
        by_id = generated(*self._generated).by_id
        passages = tuple(by_id[passage_id].contents for passage_id in question.gold_ids)
        return Gold(question.answers, passages, actions)

    def oracle_action(self) -> str:
        """The next action of a plan for the right answer, from the hidden gold."""
        return oracle_action(self._simulator, self.adapter.beliefs)

    def demonstrator_action(self) -> str:
        """A sensible next action, derived from the agent's observations."""
        return demonstrated_action(self.adapter.beliefs)

    def random_action(self, rng: np.random.Generator) -> str:
        """An admissible action, drawn uniformly, with random words for its placeholder.

        A search gets words of the question, an answer gets words of the last observation.
        """
        action = super().random_action(rng)
        if action == SEARCH_OFFER:
            words = self._simulator.question.text.rstrip("?").split()
            return f"search[{' '.join(rng.choice(words, size=int(rng.integers(1, 7))))}]"
        if action == ANSWER_OFFER:
            words = self._transcript[-1][1].replace(".", "").split()
            start = int(rng.integers(len(words)))
            return f"answer[{' '.join(words[start : start + int(rng.integers(1, 4))])}]"
        return action

    @property
    def instruction(self) -> str:
        """The question."""
        return self._simulator.question.text

    @property
    def task_type(self) -> str:
        """The dataset of the question; for an unknown dataset, the type of the question."""
        question = self._simulator.question
        return question.dataset if question.dataset in DATASETS else question.kind

    def start_task(self, task_id: Any, options: dict[str, Any]) -> str:
        """Asks the question. A simulated search engine reads the question too."""
        question, retriever = self._tasks.find(task_id), self._retriever
        if isinstance(retriever, SimulatedRetriever) and "progress" in options:
            draw = zlib.crc32(str(task_id).encode())
            retriever = retriever.about(question.text, question.answers, options["progress"], draw)
        return self._simulator.reset(question, retriever)

    def take_action(self, action: str) -> Outcome:
        """Carries out a search, an opening or an answer; a failed search changes nothing."""
        simulator = self._simulator
        observation = simulator.step(action)
        score = simulator.score
        return Outcome(
            observation,
            reward=score,
            terminated=simulator.done,
            accepted=simulator.accepted,
            won=score == 1.0,
        )

    def episode_measures(self) -> dict[str, float]:
        """Two kinds of F1 of the answer, and the share of the gold passages found, where known."""
        simulator = self._simulator
        aliases = simulator.question.answers
        measures = {"f1": f1(simulator.answer, aliases)}
        measures["word_set_f1"] = word_set_f1(simulator.answer, aliases)
        recall = gold_recall(simulator.question, simulator.found.values())
        return measures if recall is None else {**measures, "gold_recall": recall}
