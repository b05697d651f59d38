"""The types of rollout sampling: groups, seeds and batches of rollouts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any

from trca.records import Rollout
from trca.records.rollout import Failure, Incident
from trca.records.store import from_table, to_table


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """One rollout group G(x) to sample."""

    group: int  # number of the group within the iteration or panel
    task_id: str
    split: str
    size: int  # number of rollouts N
    key: tuple[int | str, ...]  # key of the group's random streams
    # finished share of the training, 0 to 1, for an environment with a curriculum; None outside
    # training
    progress: float | None = None
    # memory line that replaces the environment's; None keeps the environment's
    memory: str | None = None
    # whether the finished rollouts of an incomplete group stay, for any on_missing_rollout.
    # Evaluations set it: each finished rollout counts
    keep_finished: bool = False
    # number of the demonstration of the loop's Teacher; None without a teacher
    demonstration: int | None = None
    # changes of the environment's arguments; None for the arguments of the config
    env_config: Mapping[str, Any] | None = None
    # receives the rollouts of each finished episode at its end, in this process
    finished: Callable[[Sequence[Rollout]], None] | None = None


def derive_seed(*key: int | str) -> int:
    """A seed below 2**63 for a key, such as (run seed, iteration, group, rollout, turn).

    The same key gives the same seed in any process; another key gives an unrelated one.
    """
    digest = blake2b("\x1f".join(map(repr, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@dataclass
class RolloutBatch:
    """The rollouts of several groups, ordered by group and index.

    Missing rollouts are in ``failures``; ``incidents`` has all failures, also the repaired ones.
    ``process_memory_mb`` is the largest memory of a sampling process, in MiB; ``seconds`` are
    wall-clock seconds in ``generation``, ``environment`` and ``judging``.
    """

    rollouts: list[Rollout] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    process_memory_mb: float = 0.0
    seconds: dict[str, float] = field(
        default_factory=lambda: {"generation": 0.0, "environment": 0.0, "judging": 0.0}
    )

    def add(
        self, batch: RolloutBatch, combine: Callable[[float, float], float] = operator.add
    ) -> None:
        """Adds a batch that was sampled after this batch; `max` for one of the same time."""
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
