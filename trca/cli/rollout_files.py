"""Rollouts as JSON lines: one rollout a line, every step with its prompt and response."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trca.algorithms.records import Rollout
    from trca.algorithms.rollout import Failure

Decode = Callable[[Any], str]
"""Token ids to text."""


def write_rollouts(
    path: Path,
    rollouts: Sequence[Rollout],
    decode: Decode,
    failures: Sequence[Failure] = (),
) -> None:
    """Writes a file that `read_rollouts` reads, with each prompt as text too.

    Args:
        path: The file.
        rollouts: The rollouts.
        decode: Decodes token ids.
        failures: Groups that are missing for a technical reason: a line each.
    """
    from trca.algorithms.records import to_record

    with path.open("w", encoding="utf-8") as file:
        for rollout in rollouts:
            record = to_record(rollout)
            for line, step in zip(record["steps"], rollout.steps, strict=True):
                line["prompt"] = decode(step.prompt_ids)
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        for failure in failures:
            missing = {
                "missing": failure.rollouts,
                "task_id": failure.task_id,
                "group": failure.group,
                "reason": failure.reason,
            }
            file.write(json.dumps(missing, ensure_ascii=False) + "\n")
