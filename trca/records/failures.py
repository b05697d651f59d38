"""Failures during sampling, and the actions taken."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """Missing rollouts of a group: its number, its task, their number, the error on one line."""

    group: int
    task_id: str
    rollouts: int
    reason: str


@dataclass(frozen=True, slots=True)
class Incident:
    """A failure, and the action taken.

    Attributes:
        time: Time of the failure, in seconds since the epoch.
        kind: Failed part: ``rollout``, ``env runner``, ``engine``, ``learner`` or ``driver``.
        which: Name of the failed part, such as ``3 of group 0``.
        task_id: Id of the task; empty for a failure that concerns no task.
        reason: The error, on one line.
        action: The action taken: ``retried``, ``dropped`` or a description.
    """

    time: float
    kind: str
    which: str
    task_id: str
    reason: str
    action: str
