"""Rollouts as episodes of RLlib's offline API.

An algorithm of this package records its rollouts if its config names a folder::

    config.offline_data(output="episodes")

Each iteration of each env runner writes one Parquet file that RLlib reads with
``offline_data(input_=..., input_read_episodes=True)``. `read_episodes` restores the rollouts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgpack
import msgpack_numpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from trca.records import Rollout, from_json, to_record

_COLUMN: Final = "item"
"""The column in which RLlib's `OfflinePreLearner` finds episodes."""
_RECORD: Final = "rollout"


def to_episode(rollout: Rollout) -> SingleAgentEpisode:
    """Converts a rollout to an RLlib episode of text observations and text actions.

    Each ``info`` has the context of its state and, after an action, the judgments of the
    transition; the last ``info`` has the complete record under ``rollout``.
    ``extra_model_outputs`` has the tokens of prompt and response, the response, and the sum of its
    log-probabilities as ``action_logp``.

    Raises:
        ValueError: For a rollout without steps.
    """
    steps = rollout.steps
    if not steps:
        raise ValueError(f"the rollout of task {rollout.task_id} has no step")
    infos: list[dict[str, Any]] = [{"context": step.context} for step in steps]
    infos.append({"context": steps[-1].next_context, _RECORD: json.dumps(to_record(rollout))})
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
    """Writes rollouts as one Parquet file of RLlib's episodes.

    Args:
        rollouts: The rollouts; rollouts without a step are left out.
        path: The file, or a URI for ``pyarrow.fs.FileSystem.from_uri``.

    Returns:
        The number of episodes in the file; 0 writes no file.
    """
    states = [to_episode(rollout).get_state() for rollout in rollouts if rollout.steps]
    if states:
        packed = [msgpack.packb(state, default=msgpack_numpy.encode) for state in states]
        files, place = _files(path)
        files.create_dir(place.rpartition("/")[0], recursive=True)
        pq.write_table(pa.table({_COLUMN: packed}), place, filesystem=files)
    return len(states)


def read_episodes(folder: str | Path) -> Iterator[Rollout]:
    """Reads the rollouts of `write_episodes`; runs no code of a file.

    Args:
        folder: A file, or a folder that is searched with its subfolders; a path or a URI.

    Raises:
        FileNotFoundError: If the path does not exist.
        ValueError: For an episode that is no rollout of this package.
    """
    files, place = _files(folder)
    entry = files.get_file_info(place)
    if entry.type is FileType.NotFound:
        raise FileNotFoundError(f"there is nothing at {folder}")
    inside = [entry] if entry.is_file else files.get_file_info(FileSelector(place, recursive=True))
    for each in sorted(info.path for info in inside if info.path.endswith(".parquet")):
        for packed in pq.read_table(each, filesystem=files)[_COLUMN].to_pylist():
            try:  # arrays stay packed: msgpack_numpy unpickles arrays of objects
                record = msgpack.unpackb(packed)["infos"]["data"][-1][_RECORD]
            except (ValueError, LookupError, TypeError):
                raise ValueError(f"{each} has episodes that are no rollouts of trca") from None
            yield from_json(record)


def _files(path: str | Path) -> tuple[FileSystem, str]:
    if "://" in str(path):
        files, place = FileSystem.from_uri(str(path))
        return files, str(place)
    return LocalFileSystem(), Path(path).absolute().as_posix()
