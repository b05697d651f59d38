"""What failed while rollouts were sampled, and what was done about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """Rollouts of a group that are missing.

    Attributes:
        group: Number of the group.
        task_id: The task.
        rollouts: How many are missing.
        reason: The error, on one line.
    """

    group: int
    task_id: str
    rollouts: int
    reason: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that failed, and what was done about it.

    Attributes:
        time: When, in seconds since the epoch.
        kind: What failed: ``rollout``, ``env runner``, ``engine``, ``learner`` or ``driver``.
        which: Which one, such as ``3 of group 0``.
        task_id: The task; blank where it was not about one.
        reason: The error, on one line.
        action: What was done: ``retried``, ``dropped`` or in other words.
    """

    time: float
    kind: str
    which: str
    task_id: str
    reason: str
    action: str
