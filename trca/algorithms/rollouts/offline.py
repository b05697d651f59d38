"""Rollouts for RLlib's offline API.

An algorithm of this package records its rollouts if its config names a folder::

    config.offline_data(output="episodes")

Each iteration of each env runner writes one Parquet file of `trca.records.store`, the format of the
rollouts in run folders. RLlib reads the files of both with `RolloutPreLearner`::

    config.offline_data(
        input_=["episodes"], input_read_sample_batches=True, prelearner_class=RolloutPreLearner
    )
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.offline.offline_prelearner import OfflinePreLearner

from trca.records import Rollout
from trca.records.store import SCHEMA, from_table


class RolloutPreLearner(OfflinePreLearner):
    """Gives the rollouts in Parquet files to RLlib's learners as episodes of `to_episode`."""

    def _map_sample_batch_to_episode(
        self, batch: Mapping[str, Any], to_numpy: bool = False, **kwargs: Any
    ) -> dict[str, list[SingleAgentEpisode | MultiAgentEpisode]]:
        """RLlib's hook: one row of the batch is one rollout."""
        columns = [pa.array(list(batch[field.name]), field.type) for field in SCHEMA]
        rollouts = from_table(pa.table(columns, schema=SCHEMA))
        return {"episodes": [to_episode(rollout) for rollout in rollouts if rollout.steps]}


def to_episode(rollout: Rollout) -> SingleAgentEpisode:
    """Converts a rollout to an RLlib episode of text observations and text actions.

    Each ``info`` has the context of its state and, after an action, the judgments of the
    transition. ``extra_model_outputs`` has the tokens of prompt and response, the response, and the
    sum of its log-probabilities as ``action_logp``.

    Raises:
        ValueError: For a rollout without steps.
    """
    steps = rollout.steps
    if not steps:
        raise ValueError(f"the rollout of task {rollout.task_id} has no step")
    infos: list[dict[str, Any]] = [{"context": step.context} for step in steps]
    infos.append({"context": steps[-1].next_context})
    for step, info in zip(steps, infos[1:], strict=True):
        info["judgments"] = step.judgments
    infos[0]["task_id"] = rollout.task_id
    return SingleAgentEpisode(
        id_=uuid4().hex,
        observations=[*(step.observation for step in steps), rollout.last_observation],
        actions=[step.action for step in steps],
        rewards=[step.reward for step in steps],
        infos=infos,
        extra_model_outputs={
            "prompt_ids": [step.prompt_ids for step in steps],
            "response_ids": [step.response_ids for step in steps],
            "response": [step.response for step in steps],
            Columns.ACTION_LOGP: [float(np.sum(step.old_logprobs)) for step in steps],
        },
        terminated=not rollout.truncated,
        truncated=rollout.truncated,
        len_lookback_buffer=0,
        agent_id=rollout.agent_id,
        module_id=rollout.module_id,
    )
