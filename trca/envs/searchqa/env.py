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
from typing import Any, ClassVar, Final

import numpy as np

from trca.envs.retrieval.simulated import SimulatedRetriever
from trca.envs.searchqa.actions import ANSWER_OFFER, SEARCH_OFFER, offered_actions
from trca.envs.searchqa.adapter import SearchQAAdapter
from trca.envs.searchqa.data.corpora import open_search
from trca.envs.searchqa.data.datasets import DATASETS
from trca.envs.searchqa.data.generate import generated_passages
from trca.envs.searchqa.demonstrator import demonstrated_action
from trca.envs.searchqa.oracle import oracle_action
from trca.envs.searchqa.simulator import Simulator, search_together
from trca.envs.searchqa.tasks import Source, generated_size, tasks_of
from trca.envs.text_env import Gold, Outcome, TextEnv

ENV_ID: Final = "trca/SearchQA-v0"
PASSAGE_CHARS: Final = 500
"""Characters of a passage in a list of results; one of a hundred words is shown nearly whole."""
GENERATED_PASSAGE_CHARS: Final = 100
"""The same in a generated world, whose passages have 145 on average."""


class SearchQAEnv(TextEnv):
    """One question an episode.

    Actions are ``search[query]``, which lists passages; ``open[n]``, which shows the n-th of them
    in full; and ``answer[text]``, which ends the episode (``terminated``). Anything else changes
    nothing and costs a step. After ``max_steps`` the episode is ``truncated``. The reward is 1 when
    the answer equals an alias of the right one, both in normal form; see
    `answer_scores.exact_match`. A search that fails for technical reasons raises RetrievalError;
    it never looks like a search that found nothing, and the same action may be tried again.

    When the episode is over, ``info["measures"]`` has ``f1``, that of the answer (0 when there was
    none), ``word_set_f1``, the F1 of its set of words with articles (IGPO's), and ``gold_recall``,
    the share of the gold passages found, where these are known.
    ``reset`` also takes the option ``"progress"``, the share of training that is done: a simulated
    search engine is then told of the question as in ZeroSearch.

    Attributes:
        split: Name of the split the tasks come from.
        max_steps: The step limit.
        waits: Whether its retriever waits on a network.
        generated: Whether another seed is another world: questions and passages are generated.
    """

    env_id = ENV_ID
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
        numbers = {"top_k": top_k, "max_passage_chars": max_passage_chars}
        for name, number in numbers.items():
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

    def gold(self, task_id: str) -> Gold:
        """The answers; and the gold passages, which are known of a generated world alone."""
        question = self._tasks.find(task_id)
        actions = tuple(f"answer[{answer}]" for answer in question.answers)
        if self._generated is None:
            return Gold(question.answers, answer_actions=actions)
        known = generated_passages(*self._generated)
        passages = tuple(known[i].contents for i in question.gold_ids)
        return Gold(question.answers, passages, actions)

    def oracle_action(self) -> str:
        """The next action on a way to the right answer, by the hidden gold.

        For proofs, checks and demonstrations; nothing of it reaches ``info``.
        """
        return oracle_action(self._playing(), self.adapter.beliefs)

    def demonstrator_action(self) -> str:
        """A sensible next action from what an agent could have observed so far.

        It copes with whatever was done before, so that it may be mixed with other actions.
        """
        return demonstrated_action(self.adapter.beliefs)

    def random_action(self, rng: np.random.Generator) -> str:
        """One of the admissible actions, drawn evenly, its blank filled with words at hand.

        A search is for words of the question, an answer is a few words of what was shown last.
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
        """The dataset of the question; of a question from elsewhere, its kind."""
        question = self._simulator.question
        return question.dataset if question.dataset in DATASETS else question.kind

    def start_task(self, task_id: Any, options: dict[str, Any]) -> str:
        """Asks the question; a simulated search engine is told of it."""
        question, retriever = self._tasks.find(task_id), self._retriever
        if isinstance(retriever, SimulatedRetriever) and "progress" in options:
            draw = zlib.crc32(str(task_id).encode())
            told = retriever.about(question.text, question.answers, options["progress"], draw)
            return self._simulator.reset(question, told)
        return self._simulator.reset(question)

    def take_action(self, action: str) -> Outcome:
        """Searches, opens or answers.

        Raises:
            RetrievalError: When a search could not be done; everything is then as it was.
        """
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
        measures = {"f1": simulator.f1, "word_set_f1": simulator.word_set_f1}
        recall = simulator.gold_recall
        return measures if recall is None else {**measures, "gold_recall": recall}

    def _playing(self) -> Simulator:
        self._check_started()
        return self._simulator
