"""Rollout records: what one episode left behind, and the columns that credit rules read.

A rollout is written as one line of JSON and read back whole, so that a recorded run can be credited
again, under another rule or lambda, with no new rollout::

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
