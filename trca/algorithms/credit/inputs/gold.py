"""The reads of gold: right answers, the texts that support them, and walkthroughs of tasks."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from trca.algorithms.credit.reads import Read, Sources
from trca.envs.text_env import Gold, MissingPartError
from trca.records import StepBatch


class GoldRead(Read):
    """One field of an environment's ``gold``, for every step."""

    gold = True

    def __init__(self, part: str) -> None:
        """Chooses the part.

        Args:
            part: A field of `Gold`.
        """
        assert part in {f.name for f in fields(Gold)}
        self._part = part

    def __call__(self, sources: Sources, batch: StepBatch) -> list[tuple[str, ...]]:
        """Returns the texts of each step's task; the steps of a task share a tuple.

        Raises:
            ValueError: For a task without gold.
        """
        gold: dict[tuple[str, str], tuple[str, ...]] = {}
        for split in dict.fromkeys(r.split for r in sources.rollouts):
            task_ids = list(dict.fromkeys(r.task_id for r in sources.rollouts if r.split == split))
            golds = sources.env_runner.gold(split, task_ids)
            for task_id, of_task in zip(task_ids, golds, strict=True):
                gold[split, task_id] = getattr(of_task, self._part)
                if not gold[split, task_id]:
                    raise ValueError(
                        f"task {task_id!r} of split {split!r} has no gold {self._part}"
                    )
        return [gold[r.split, r.task_id] for r in sources.rollouts for _ in r.steps]

    def lack(self, sources: Sources) -> str:
        """Requests the gold of the first training task."""
        split = sources.config.settings.train_split
        first = sources.env_runner.panel(split).task_ids[:1]
        try:
            golds = sources.env_runner.gold(split, first)
        except MissingPartError as error:
            return str(error)
        if all(getattr(of_task, self._part) for of_task in golds):
            return ""
        return f"{sources.config.env} knows no gold {self._part} of task {first[0]!r}"


GOLD_ANSWERS: Final = GoldRead("answers")
GOLD_PASSAGES: Final = GoldRead("passages")
GOLD_WALKTHROUGH: Final = GoldRead("walkthrough")
