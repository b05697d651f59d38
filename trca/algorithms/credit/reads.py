"""Reads: inputs of a credit rule besides the columns of a batch, by the names of arguments.

An argument with the name of a read receives the read in each iteration, one value per step unless
the table states another type. The rule stays a pure function::

    def mine(batch, *, gold_passages, gamma):
        pages = [batch.texts[code] for code in batch.next_observation]
        hits = [any(p in page for p in gold) for page, gold in zip(pages, gold_passages)]
        ...

==================  ================================================================================
name                value of each step
==================  ================================================================================
actions             The action of the step, a text; empty for a response without an action.
gold_answers        The right answers of the task, a tuple of texts. Gold.
gold_passages       The texts that support the right answers, a tuple. Gold.
gold_walkthrough    The actions that complete the task, a tuple of texts. Gold.
answer_logprobs     Mean log-probability of the right answer's tokens after the prompt. Gold.
final_f1            F1 of the answer at the end of the rollout.
final_word_set_f1   F1 of the answer's set of words with articles (IGPO).
hindsight_logprobs  Log-probability of the action, given that the rollout succeeded.
plans               Switches, subgoals and their tokens; see `credit.plans.Plans`.
values              Values of the critic; see `credit.values.Values`.
==================  ================================================================================

The build of an algorithm fails if the sources of a read are missing. A rule that reads *gold*, the
right answer or texts that lead to the answer, needs ``gold_in_training``, so the config of a run
shows the use of gold; the metric ``gold_in_training`` and the evaluation report show it too.

Register your read in the file of the rule::

    class Lengths(Read):
        def __call__(self, sources, batch):
            return np.array([len(s.response_ids) for r in sources.rollouts for s in r.steps])

    READS.register("response_lengths", Lengths())
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from trca.common.registry import Registry
from trca.envs.text_env import MissingPartError
from trca.records import Floats

if TYPE_CHECKING:
    from trca.algorithms.settings.policy_config import PolicyConfig
    from trca.records import Rollout, StepBatch


@dataclass(frozen=True)
class Sources:
    """The sources of reads.

    Attributes:
        config: The algorithm's config.
        env_runner: The driver's `TextEnvRunner`: ``panel(split)`` gives the tasks of a split, and
            ``gold(split, task_ids)`` the right answers of tasks.
        learners: The `TextLearnerGroup`: ``score(prompts, responses)`` gives the log-probabilities
            of responses, float32 (R,) each, and ``values(prompts, responses)`` the critic's values
            before each response token, float32 (R, H) each.
        rollouts: The rollouts of the iteration, in the order of the batch; empty before the first
            iteration.
    """

    config: PolicyConfig
    env_runner: Any
    learners: Any
    rollouts: Sequence[Rollout] = ()


class Read(ABC):
    """An input of credit rules besides the batch.

    Attributes:
        gold: Whether the read is the right answer or leads to the right answer.
    """

    gold: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, sources: Sources, batch: StepBatch) -> Any:
        """Computes the read for an iteration.

        Args:
            sources: The sources.
            batch: The columns of the rollouts, S rows.
        """

    def lack(self, sources: Sources) -> str:
        """The missing source and the fix, in one sentence; empty if all sources exist."""
        return ""


class ActionsRead(Read):
    """The action of each step."""

    def __call__(self, sources: Sources, batch: StepBatch) -> list[str]:
        """Returns S texts."""
        return [step.action for rollout in sources.rollouts for step in rollout.steps]


class GoldRead(Read):
    """One field of an environment's ``gold``, for every step."""

    gold = True

    def __init__(self, part: str) -> None:
        """Chooses the part: a field of `trca.envs.text_env.Gold`."""
        self._part = part

    def __call__(self, sources: Sources, batch: StepBatch) -> list[tuple[str, ...]]:
        """The texts of each step's task; a `ValueError` for a task without gold."""
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
        known = all(getattr(of_task, self._part) for of_task in golds)
        return (
            "" if known else f"{sources.config.env} has no gold {self._part} of task {first[0]!r}"
        )


class FinalMeasure(Read):
    """A measure of the environment at the end of each rollout, repeated for each step."""

    def __init__(self, name: str) -> None:
        """Chooses the measure by its name in the environment's ``measures``."""
        self._name = name

    def __call__(self, sources: Sources, batch: StepBatch) -> Floats:
        """float64 (S,); a `ValueError` for a rollout without the measure."""
        values = []
        for rollout in sources.rollouts:
            if self._name not in rollout.measures:
                measured = ", ".join(rollout.measures) or "nothing"
                raise ValueError(
                    f"{sources.config.env} does not measure {self._name!r}, but {measured}"
                )
            values += [rollout.measures[self._name]] * len(rollout.steps)
        return np.array(values, dtype=np.float64)


READS: Final[Registry[Read]] = Registry(
    "read",
    {
        "actions": ActionsRead(),
        "answer_logprobs": "trca.algorithms.credit.logprobs:ANSWER_LOGPROBS",
        "final_f1": FinalMeasure("f1"),
        "final_word_set_f1": FinalMeasure("word_set_f1"),
        "gold_answers": GoldRead("answers"),
        "gold_passages": GoldRead("passages"),
        "gold_walkthrough": GoldRead("walkthrough"),
        "hindsight_logprobs": "trca.algorithms.credit.logprobs:HINDSIGHT_LOGPROBS",
        "plans": "trca.algorithms.credit.plans:PLANS",
        "values": "trca.algorithms.credit.values:VALUES",
    },
)
"""Reads by name."""
