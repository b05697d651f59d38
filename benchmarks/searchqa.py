"""SearchQA on one core: gold recall on all seven datasets, steps and memory.

    python benchmarks/searchqa.py
    python benchmarks/searchqa.py --questions questions --corpus corpus.jsonl.xz

Recall uses the questions as queries for ``bm25``. The table shows the share of gold passages in the
first 3, 5 and 10 results, for questions with known gold passages; the same share for a search for
each gold title with 3 results, an upper limit for an agent; and the share of questions with an
answer in the text of the first 3 results. ``hotpotqa dev`` has only the validation questions.

Steps use precomputed actions of the demonstrator, so that only the environment is measured.
``SearchQAEnv`` is the environment, ``trca/SearchQA-v0`` adds facts, context, memory and rubric.
The tasks are played in five parts; the table shows the best and the median part. Seconds are
processor time. Memory is the addition of an opened environment to a process with all imports.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
from measuring import resident_mib, timed
from rich.console import Console
from rich.table import Table

import trca.envs  # noqa: F401
from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import Retriever
from trca.envs.searchqa import answer_scores as scores
from trca.envs.searchqa.data.corpora import open_search
from trca.envs.searchqa.data.datasets import DATASETS, read_datasets
from trca.envs.searchqa.data.generate import SIZES
from trca.envs.searchqa.data.questions import Question
from trca.envs.searchqa.env import SearchQAEnv

T = TypeVar("T")
PARTS = 5
LIMITS = (3, 5, 10)
Script = tuple[str, list[str]]
"""A task's id, and actions to the end of its episode."""


def share(values: Sequence[float | None]) -> str:
    """Formats the mean of the defined values with three digits."""
    defined = [value for value in values if value is not None]
    return f"{sum(defined) / len(defined):.3f}" if defined else "-"


def answered(question: Question, passages: Sequence[Passage]) -> float:
    """Returns 1 if a passage contains an answer as complete words in normal form."""
    texts = [f" {scores.normalized(passage.contents)} " for passage in passages]
    aliases = [f" {scores.normalized(answer)} " for answer in question.answers]
    return float(any(alias in text for alias in aliases for text in texts))


def row(retriever: Retriever, questions: Sequence[Question]) -> list[str]:
    """Returns the cells of a row of the recall table."""
    results = retriever.search([question.text for question in questions], max(LIMITS))
    pairs = list(zip(questions, results, strict=True))
    by_title = [
        scores.gold_recall(
            question,
            [hit for hits in retriever.search(question.gold_titles, 3) for hit in hits],
        )
        for question in questions
    ]
    return [
        str(len(questions)),
        *(share([scores.gold_recall(q, hits[:limit]) for q, hits in pairs]) for limit in LIMITS),
        share(by_title),
        share([answered(question, hits[:3]) for question, hits in pairs]),
    ]


def recall(folder: Path, corpus: Path) -> None:
    """Prints the recall table of all datasets."""
    seconds, retriever = timed(lambda: open_search("bm25", corpus))
    columns = ("questions", *(f"gold @{limit}" for limit in LIMITS), "titles @3", "answer @3")
    table = Table("dataset", "domain", *columns, title=f"bm25 over {corpus.name}")
    questions = read_datasets(folder)
    for name, dataset in DATASETS.items():
        members = [question for question in questions if question.dataset == name]
        validation = [question for question in members if question.split == "validation"]
        domain = "in" if dataset.in_domain else "out"
        if members:
            table.add_row(name, domain, *row(retriever, members))
        if validation and len(validation) < len(members):
            table.add_row(f"{name} dev", domain, *row(retriever, validation))
    Console(width=100).print(table)
    print(f"opened in {seconds:.2f} s, including the build of a missing index")


def scripts(env: SearchQAEnv, tasks: int) -> list[Script]:
    """Returns the demonstrator's actions for the first tasks."""
    plays = []
    for task_id in env.task_ids[:tasks]:
        env.reset(options={"task": task_id})
        actions, over = [], False
        while not over:
            actions.append(env.demonstrator_action())
            _, _, terminated, truncated, _ = env.step(actions[-1])
            over = terminated or truncated
        plays.append((task_id, actions))
    return plays


def play(env: gymnasium.Env[str, str], plays: Sequence[Script]) -> int:
    """Plays all scripts; returns the number of steps."""
    for task_id, actions in plays:
        env.reset(options={"task": task_id})
        for action in actions:
            env.step(action)
    return sum(len(actions) for _, actions in plays)


def speed(kwargs: dict[str, Any], tasks: int) -> list[list[str]]:
    """Measures steps per second without and with the rubric, in a fresh process."""
    opening, plain = timed(lambda: SearchQAEnv(**kwargs))
    plays = scripts(plain, tasks)
    rows = []
    for name, env in (
        ("SearchQAEnv", plain),
        ("trca/SearchQA-v0", gymnasium.make("trca/SearchQA-v0", **kwargs)),
    ):
        rates = []
        for part in range(PARTS):
            seconds, steps = timed(partial(play, env, plays[part::PARTS]))
            rates.append(steps / seconds)
        best, median = f"{max(rates):,.0f}", f"{sorted(rates)[PARTS // 2]:,.0f}"
        rows.append([name, best, median, f"{opening:.2f}"])
    return rows


def memory(kwargs: dict[str, Any], count: int) -> float:
    """Returns the memory of ``count`` judged environments after three steps, in a fresh process."""
    gymnasium.make("trca/SearchQA-v0", questions="small").reset(seed=0)
    before = resident_mib()
    envs = [gymnasium.make("trca/SearchQA-v0", **kwargs) for _ in range(count)]
    for number, env in enumerate(envs):
        env.reset(seed=number)
        env.step("search[Ada]")
        env.step("open[1]")
    return resident_mib() - before


def isolated(act: Callable[[], T]) -> T:
    """Calls a function in a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(act).result()


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=Path, help="folder of datasets")
    parser.add_argument("--corpus", type=Path, help="corpus for the questions")
    parser.add_argument("--tasks", type=int, default=500)
    args = parser.parse_args()
    if (args.questions is None) != (args.corpus is None):
        parser.error("give --questions and --corpus together")
    os.environ["OMP_NUM_THREADS"] = "1"
    environments: dict[str, dict[str, Any]] = {name: {"questions": name} for name in SIZES}
    if args.corpus is not None:
        recall(args.questions, args.corpus)
        real = {"questions": str(args.questions), "corpus": str(args.corpus), "split": "test"}
        environments[args.corpus.name] = real
    table = Table("questions", "", "steps/s, best part", "median part", "opened, s")
    for name, kwargs in environments.items():
        for each in isolated(partial(speed, kwargs, args.tasks)):
            table.add_row(name, *each)
    Console(width=100).print(table)
    table = Table("questions", "1 environment, MiB", "64 environments, MiB")
    for name, kwargs in environments.items():
        added = (f"{isolated(partial(memory, kwargs, count)):,.0f}" for count in (1, 64))
        table.add_row(name, *added)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
