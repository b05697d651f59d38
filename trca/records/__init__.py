"""Rollout records: rollouts and steps of episodes, and the columns that credit rules read.

A rollout is stored as one line of JSON with all its data. A recorded run can therefore be credited
again, with another rule or lambda, without new rollouts::

    for rollout in rollouts:
        print(to_json(rollout), file=file)
    batch = StepBatch.from_rollouts(list(read_rollouts(path)), library.categories)
    assign_advantages(rollouts, credit(batch))
"""

from trca.records.rollout import (
    DEFAULT_MODULE,
    Rollout,
    Step,
    advantages_of,
    assign_advantages,
    by_agent,
    by_episode,
    episodes,
    refuse_teams,
)
from trca.records.rollout_json import (
    ARRAYS,
    changed_facts,
    from_json,
    read_rollouts,
    to_json,
    to_record,
)
from trca.records.step_batch import RubricRewards, StepBatch

__all__ = [
    "ARRAYS",
    "DEFAULT_MODULE",
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
]
