"""Reads: what a credit rule reads beyond the columns of a batch, by the names of its parameters.

A rule with a parameter of a read's name gets it each iteration, one value a step unless the read
says otherwise, and stays a pure function::

    def mine(batch, *, gold_passages, gamma=0.95):
        found = [any(p in batch.texts[o] for p in gold) for o, gold in zip(batch.next_observation,
                                                                           gold_passages)]
        ...

==================  ================================================================================
name                what it is, one a step
==================  ================================================================================
gold_answers        The right answers of its task, a tuple of texts. Gold.
gold_passages       The texts that support them, a tuple. Gold.
answer_logprobs     Mean log-probability of the right answer's tokens, were it given now. Gold.
final_f1            F1 of the answer that its rollout gave.
final_word_set_f1   The same over sets of words with articles, IGPO's.
hindsight_logprobs  How likely its action is to a policy that knows that its rollout succeeded.
plans               Switches, subgoals and their tokens; see `credit.inputs.plans.Plans`.
values              What the critic says; see `credit.inputs.values.Values`.
==================  ================================================================================

A run without what a read is made of is refused when it is built. A rule that reads *gold*, the
right answer or what leads to it, is refused unless ``gold_in_training`` is set, so the config of a
run shows it; the metric ``gold_in_training`` and the run's evaluation report show it too.

A read of your own, registered in the file of the rule::

    class Lengths(Read):
        def __call__(self, sources, batch):
            return np.array([len(s.response_ids) for r in sources.rollouts for s in r.steps])

    READS.register("response_lengths", Lengths())
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from trca.common.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trca.algorithms.settings.policy_config import PolicyConfig
    from trca.envs.panel import Panel
    from trca.envs.text_env import Gold
    from trca.records import Rollout, StepBatch


class TaskSource(Protocol):
    """The driver's env runner, as reads see it."""

    def panel(self, split: str) -> Panel:
        """Returns the tasks of a split, in order."""

    def gold(self, split: str, task_ids: Sequence[str]) -> list[Gold]:
        """Returns the right answers of tasks.

        Raises:
            MissingPartError: When the environment has none.
        """


class Scorer(Protocol):
    """The learners, as reads see them."""

    def score(
        self, prompts: Sequence[NDArray[np.int32]], responses: Sequence[NDArray[np.int32]]
    ) -> list[NDArray[np.float32]]:
        """Returns log-probabilities of responses after prompts, float32 (R,) each."""

    def values(
        self, prompts: Sequence[NDArray[np.int32]], responses: Sequence[NDArray[np.int32]]
    ) -> list[NDArray[np.float32]]:
        """Returns the critic's values of the text before each response token, (R, H) each."""


@dataclass(frozen=True)
class Sources:
    """What reads are made of.

    Attributes:
        config: The algorithm's config.
        env_runner: The driver's env runner, which makes environments.
        learners: The learners, which score tokens.
        rollouts: The rollouts of the iteration, in the order of the batch; none before the first.
    """

    config: PolicyConfig
    env_runner: TaskSource
    learners: Scorer
    rollouts: Sequence[Rollout] = ()


class Read(ABC):
    """Something a credit rule may read.

    Attributes:
        gold: Whether it is the right answer or leads to it.
    """

    gold: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, sources: Sources, batch: StepBatch) -> Any:
        """Makes what the rule reads of an iteration.

        Args:
            sources: What it is made of.
            batch: The columns of the rollouts, S rows.
        """

    def lack(self, sources: Sources) -> str:
        """Why a run cannot have it, and the mend, in one sentence; blank where it can."""
        return ""


READS: Final[Registry[Read]] = Registry(
    "read",
    {
        "answer_logprobs": "trca.algorithms.credit.inputs.answers:ANSWER_LOGPROBS",
        "final_f1": "trca.algorithms.credit.inputs.answers:FINAL_F1",
        "final_word_set_f1": "trca.algorithms.credit.inputs.answers:FINAL_WORD_SET_F1",
        "gold_answers": "trca.algorithms.credit.inputs.gold:GOLD_ANSWERS",
        "gold_passages": "trca.algorithms.credit.inputs.gold:GOLD_PASSAGES",
        "hindsight_logprobs": "trca.algorithms.credit.inputs.hindsight:HINDSIGHT_LOGPROBS",
        "plans": "trca.algorithms.credit.inputs.plans:PLANS",
        "values": "trca.algorithms.credit.inputs.values:VALUES",
    },
)
"""Reads by name."""
