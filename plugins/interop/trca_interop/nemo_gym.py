"""The rules for rollouts of NeMo Gym: the rows of its rollout files, or of a trainer.

NeMo Gym adds the rewards of a rollout up and keeps the ``info`` of the last step. An environment
of `GymnasiumServer` therefore returns the annotations of all steps so far with every step::

    return observation, reward, terminated, truncated, {"trca": self.annotations[session_id]}

`token_advantages` credits the rows; see docs/interop_credit.md. Written for the source of NeMo Gym
0.7.0, and tested with NeMo Gym 0.4.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca_interop.credit import COLUMN, Credit, steps_of
from trca_interop.turns import turn_advantages

_TASK: Final = "_ng_task_index"
_ROLLOUT: Final = "_ng_rollout_index"
_TOKENS: Final = "generation_token_ids"


def step_advantages(credit: Credit, rows: Sequence[Mapping[str, Any]]) -> list[NDArray[np.float64]]:
    """The advantages of the steps of rollouts.

    Args:
        credit: The rule.
        rows: Rows of NeMo Gym: results of ``/run`` with the indices of task and rollout.

    Returns:
        Float64 (T,) for each row; empty for a row with ``mask_sample``, whose reward is not valid.

    Raises:
        ValueError: If a row lacks an index or annotations, or if the rewards of its annotations do
            not add up to its reward.
    """
    annotations = [[] if row.get("mask_sample") else _annotations(row) for row in rows]
    groups, rollouts = ([row.get(name) for row in rows] for name in (_TASK, _ROLLOUT))
    return turn_advantages(credit, groups, rollouts, annotations)


def token_advantages(
    credit: Credit, rows: Sequence[Mapping[str, Any]]
) -> list[list[NDArray[np.float64]]]:
    """The advantages of the generated tokens of rollouts, by item of ``response.output``.

    Takes what `step_advantages` takes. The items with ``generation_token_ids`` are those of the
    model, one for each step.

    Returns:
        For each row a list of float64 (R,), one for each item of the model; an item of a row with
        ``mask_sample`` has zeros.

    Raises:
        ValueError: Also if a row has another number of items of the model than annotations.
    """
    advantages = []
    for row, values in zip(rows, step_advantages(credit, rows), strict=True):
        lengths = [len(item[_TOKENS]) for item in row["response"]["output"] if item.get(_TOKENS)]
        if row.get("mask_sample"):
            values = np.zeros(len(lengths))
        if len(lengths) != len(values):
            raise ValueError(
                f"{_place(row)} has {len(values)} annotations and {len(lengths)} items with"
                f" {_TOKENS}: annotate every step, and let the model server return token ids"
            )
        pairs = zip(values, lengths, strict=True)
        advantages.append([np.full(length, value) for value, length in pairs])
    return advantages


def _place(row: Mapping[str, Any]) -> str:
    return f"rollout {row.get(_ROLLOUT)} of task {row.get(_TASK)}"


def _annotations(row: Mapping[str, Any]) -> Sequence[Any]:
    if missing := [name for name in (_TASK, _ROLLOUT) if row.get(name) is None]:
        raise ValueError(f"a row has no {' and no '.join(missing)}: give rows of NeMo Gym")
    annotations = (row.get("info") or {}).get(COLUMN)
    if not annotations:
        raise ValueError(
            f"{_place(row)} has no {COLUMN!r} in info: return the annotations of all steps, made by"
            " trca_interop.credit.annotate, in the info of every step"
        )
    steps, reward = steps_of(annotations, ("step", "reward"), 0, _place(row)), row.get("reward")
    total = sum(step["reward"] for step in steps)
    if not isinstance(reward, int | float | np.number) or not np.isclose(total, reward):
        raise ValueError(
            f"{_place(row)} has the reward {reward!r}, and its annotations have {total}: return the"
            " rewards of the annotations from step()"
        )
    return steps
