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

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.offline.offline_prelearner import OfflinePreLearner

from trca.records import Rollout, read_rollouts, write_rollouts
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


def write_episodes(rollouts: Sequence[Rollout], path: str | Path) -> int:
    """Writes rollouts as one Parquet file.

    Args:
        rollouts: The rollouts; rollouts without a step are left out.
        path: The file, or a URI for ``pyarrow.fs.FileSystem.from_uri``.

    Returns:
        The number of episodes in the file; 0 writes no file.
    """
    episodes = [rollout for rollout in rollouts if rollout.steps]
    if episodes and "://" not in str(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    if episodes:
        write_rollouts(path, episodes)
    return len(episodes)


def read_episodes(folder: str | Path) -> Iterator[Rollout]:
    """Reads the rollouts of `write_episodes`, or of a run.

    Args:
        folder: A file, or a folder that is searched with its subfolders; a path or a URI.

    Raises:
        FileNotFoundError: If the path does not exist.
        ValueError: If a Parquet file does not hold rollouts of this package.
    """
    return read_rollouts(folder)
