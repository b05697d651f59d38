"""The columns of a batch in verl's v1 trainer, for the estimators of `trca_interop.verl`.

The v1 trainer keeps a batch in a TransferQueue, and gives ``compute_advantage`` no columns but
``uid``. Two columns are put together here: the agent loop's ``extra_fields`` have the annotations,
and a row's key ``{uid}_{session}_{index}`` has the rollout, which may have several rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from typing import Any, Final

import numpy as np

from trca_interop.credit import COLUMN

TRAINER: Final = "verl.trainer.ppo.v1.trainer_base"
_FIELD: Final = "extra_fields"
_COLUMNS: ContextVar[Mapping[str, Any] | None] = ContextVar("columns", default=None)


def find_columns(trainer: type, names: Collection[str]) -> None:
    """Lets a trainer find the columns of each batch before it computes advantages.

    Args:
        trainer: ``PPOTrainer`` of verl's v1 trainer.
        names: Names of our estimators; other estimators need no columns.
    """
    original = trainer._compute_advantage  # type: ignore[attr-defined]

    @wraps(original)
    def _compute_advantage(self: Any, batch: Any, metrics: dict[str, Any]) -> Any:
        if self.config.algorithm.adv_estimator not in names:
            return original(self, batch, metrics)
        queue = import_module("transfer_queue")
        place = {"keys": batch.keys, "partition_id": batch.partition_id}
        extra = queue.kv_batch_get(**place, select_fields=[_FIELD]).pop(_FIELD).tolist()
        token = _COLUMNS.set(columns(batch.keys, batch.tags, extra))
        try:
            return original(self, batch, metrics)
        finally:
            _COLUMNS.reset(token)

    trainer._compute_advantage = _compute_advantage  # type: ignore[attr-defined]


def columns(
    keys: Sequence[str], tags: Sequence[Mapping[str, Any]], extra: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The columns ``traj_uid`` and ``trca`` of a batch.

    Args:
        keys: Keys of the rows in the queue.
        tags: Tags of the rows; rows that fill the batch have ``is_padding``.
        extra: The rows' ``extra_fields``, with annotations of `trca_interop.credit.annotate`.

    Raises:
        ValueError: If a row has no annotations.
    """
    annotations = np.empty(len(keys), object)
    for row, (key, tag, fields) in enumerate(zip(keys, tags, extra, strict=True)):
        if tag.get("is_padding"):
            continue  # a copy of another row's fields
        if fields.get(COLUMN) is None:
            raise ValueError(
                f"row {key!r} of the batch has no {COLUMN!r} in extra_fields: put annotations of"
                f" trca_interop.credit.annotate into AgentLoopOutput.extra_fields[{COLUMN!r}]"
            )
        annotations[row] = fields[COLUMN]
    rollouts = np.array([key.rpartition("_")[0] for key in keys], object)
    return {"traj_uid": rollouts, COLUMN: annotations}


def found_columns() -> Mapping[str, Any]:
    """The columns of the batch whose advantages the v1 trainer computes; else empty."""
    return _COLUMNS.get() or {}
