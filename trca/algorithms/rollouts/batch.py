"""The types of rollout sampling: groups, seeds, time limits and batches of rollouts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, Final

from trca.algorithms.settings.types import OnMissingRollout
from trca.records import Rollout
from trca.records.failures import Failure, Incident
from trca.records.store import from_table, to_table


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """One rollout group G(x) to sample.

    Attributes:
        group: Number of the group within the iteration or panel.
        task_id: Id of the task x.
        split: Split of the task.
        size: Number of rollouts N.
        key: Key of the group's random streams.
        progress: Finished share of the training, 0 to 1, for an environment with a curriculum;
            None outside training.
        memory: Memory line that replaces the environment's; None keeps the environment's.
        keep_finished: Whether the finished rollouts of an incomplete group stay, for any
            `Limits.on_missing_rollout`. Evaluations set it: each finished rollout counts.
        demonstration: Number of the demonstration of the loop's `Teacher`; None without a teacher.
        env_config: Changes of the environment's arguments; None for the arguments of the config.
    """

    group: int
    task_id: str
    split: str
    size: int
    key: tuple[int | str, ...]
    progress: float | None = None
    memory: str | None = None
    keep_finished: bool = False
    demonstration: int | None = None
    env_config: Mapping[str, Any] | None = None


def derive_seed(*key: int | str) -> int:
    """A seed below 2**63 for a key, such as (run seed, iteration, group, rollout, turn).

    The seed is a pure function of the key, independent of the process that samples. Any change of
    the key gives an unrelated seed.
    """
    digest = blake2b("\x1f".join(map(repr, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@dataclass(frozen=True)
class Limits:
    """Time limits of rollouts, and the policy for incomplete groups.

    Attributes:
        generation_timeout_s: Longest time of one generation, in seconds.
        env_step_timeout_s: Longest time of one step or reset of an environment, in seconds.
        rollout_timeout_s: Longest time of a rollout from its first prompt, in seconds.
        on_missing_rollout: ``drop_group`` drops an incomplete group; ``go_on`` keeps its finished
            rollouts.
    """

    generation_timeout_s: float = math.inf
    env_step_timeout_s: float = math.inf
    rollout_timeout_s: float = math.inf
    on_missing_rollout: OnMissingRollout = "drop_group"

    def keeps_incomplete(self, request: GroupRequest) -> bool:
        """Whether the finished rollouts of an incomplete group stay."""
        return request.keep_finished or self.on_missing_rollout == "go_on"


NO_LIMITS: Final = Limits()
"""No time limits."""


@dataclass
class RolloutBatch:
    """The rollouts of several groups.

    Attributes:
        rollouts: Finished rollouts, ordered by group and index.
        failures: The missing rollouts.
        incidents: All failures, also the failures that a retry repaired.
        process_memory_mb: Largest memory of a sampling process, in MiB.
        seconds: Wall-clock seconds in ``generation``, ``environment`` and ``judging``.
    """

    rollouts: list[Rollout] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    process_memory_mb: float = 0.0
    seconds: dict[str, float] = field(
        default_factory=lambda: {"generation": 0.0, "environment": 0.0, "judging": 0.0}
    )

    def add_later(self, batch: RolloutBatch) -> None:
        """Adds a batch that was sampled after this batch: the seconds add up."""
        self._add(batch, lambda before, after: before + after)

    def add_parallel(self, batch: RolloutBatch) -> None:
        """Adds a batch that another process sampled at the same time: the longest time counts."""
        self._add(batch, max)

    def _add(self, batch: RolloutBatch, combine: Callable[[float, float], float]) -> None:
        self.rollouts += batch.rollouts
        self.failures += batch.failures
        self.incidents += batch.incidents
        self.process_memory_mb = max(self.process_memory_mb, batch.process_memory_mb)
        for name, seconds in batch.seconds.items():
            self.seconds[name] = combine(self.seconds.get(name, 0.0), seconds)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the rollouts as columns; see `trca.records.store`."""
        rest = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rollouts"}
        return _from_columns, (to_table(self.rollouts), rest)


def _from_columns(table: Any, rest: dict[str, Any]) -> RolloutBatch:
    return RolloutBatch(from_table(table), **rest)
