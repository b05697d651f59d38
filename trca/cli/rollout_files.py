"""Rollouts as JSON lines: one whole rollout a line, every step with what was read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trca.algorithms.player import Failure
    from trca.algorithms.records import Rollout, Step

Decode = Callable[[Any], str]
"""Token ids to text."""


def write_rollouts(
    path: Path,
    rollouts: Sequence[Rollout],
    decode: Decode,
    advantages: NDArray[np.float64] | None = None,
    failures: Sequence[Failure] = (),
) -> None:
    """Writes rollouts, and a line for each group that is missing.

    Args:
        path: The file.
        rollouts: The rollouts.
        decode: The tokenizer's way from ids to text.
        advantages: float64 (S,), one a step over all rollouts in order; None where there are none.
        failures: Groups that are missing for a technical reason.
    """
    with path.open("w", encoding="utf-8") as file:
        for record in _records(rollouts, decode, advantages):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        for failure in failures:
            missing = {
                "task_id": failure.task_id,
                "group": failure.group,
                "missing": failure.rollouts,
                "reason": failure.reason,
            }
            file.write(json.dumps(missing, ensure_ascii=False) + "\n")


def _records(
    rollouts: Sequence[Rollout], decode: Decode, advantages: NDArray[np.float64] | None
) -> Iterator[dict[str, Any]]:
    first = 0
    for rollout in rollouts:
        steps = [_step(step, decode) for step in rollout.steps]
        if advantages is not None:
            shares = advantages[first : first + len(steps)]
            for step, advantage in zip(steps, shares, strict=True):
                step["advantage"] = float(advantage)
        first += len(steps)
        yield {
            "task_id": rollout.task_id,
            "split": rollout.split,
            "task_type": rollout.task_type,
            "group": rollout.group,
            "index": rollout.index,
            "policy_version": rollout.policy_version,
            "won": rollout.won,
            "score": rollout.score,
            "truncated": rollout.truncated,
            "steps": steps,
        }


def _step(step: Step, decode: Decode) -> dict[str, Any]:
    return {
        "observation": step.observation,
        "prompt": decode(step.prompt_ids),
        "response": step.response,
        "command": step.command,
        "parsed": step.parsed,
        "accepted": step.accepted,
        "reward": step.reward,
        "judgments": [int(judgment) for judgment in step.judgments],
        "context": step.context,
        "next_context": step.next_context,
        "response_tokens": len(step.response_ids),
        "action_logprob": float(step.logprobs[step.action_mask].sum()),
    }
