"""Rollout records: rollouts and steps of episodes, and the columns that credit rules read.

A file of rollouts has all data of the rollouts. A recorded run can therefore be credited again,
with another rule or lambda, without new rollouts::

    write_rollouts(path, rollouts)
    batch = StepBatch.from_rollouts(list(read_rollouts(path)), library.categories)
    assign_advantages(rollouts, credit(batch))
"""

from typing import TYPE_CHECKING, Any

from trca.records.rollout import (
    DEFAULT_MODULE,
    Rollout,
    Step,
    advantages_of,
    assign_advantages,
    by_agent,
    by_episode,
    changed_facts,
    episodes,
    refuse_teams,
)
from trca.records.rollout_json import ARRAYS, from_json, to_json, to_record
from trca.records.step_batch import Bools, Floats, Ints, RubricRewards, StepBatch

if TYPE_CHECKING:
    from trca.records.store import read_rollouts, write_rollouts

__all__ = [
    "ARRAYS",
    "DEFAULT_MODULE",
    "Bools",
    "Floats",
    "Ints",
    "Rollout",
    "RubricRewards",
    "Step",
    "StepBatch",
    "advantages_of",
    "assign_advantages",
    "by_agent",
    "by_episode",
    "changed_facts",
    "episodes",
    "from_json",
    "read_rollouts",
    "refuse_teams",
    "to_json",
    "to_record",
    "write_rollouts",
]


def __getattr__(name: str) -> Any:
    """Imports the files of rollouts on first use: the base package does not have pyarrow."""
    if name not in ("read_rollouts", "write_rollouts"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trca.records import store

    return getattr(store, name)
