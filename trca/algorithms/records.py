"""Rollout records: what one episode left behind, and the columns that credit rules read.

A rollout is written as one line of JSON and read back whole, so that a recorded run can be credited
again, under another rule or lambda, with no new rollout::

    for rollout in rollouts:
        print(to_json(rollout), file=file)
    batch = StepBatch.from_rollouts(list(read_rollouts(path)), library.categories)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Step:
    """One interaction step. Token in, token out: the ids are the sampled ones.

    Attributes:
        prompt_ids: int32 (P,), what the policy read.
        response_ids: int32 (R,), what it sampled.
        action_mask: bool (R,), True on the tokens that overlap the ``<action>`` span.
        logprobs: float32 (R,), the sampler's log-probabilities of the response.
        observation: The observation before the action.
        response: The response as text.
        command: The command handed to the world (blank when none could be parsed).
        context: Structural key of the state before the action.
        next_context: Structural key of the state after it.
        reward: Environment reward r_{i,t}.
        judgments: uint8 (M,), one 0/1 per rubric operator in library order.
        parsed: Whether a command could be read from the response.
        accepted: Whether the world carried it out.
    """

    prompt_ids: NDArray[np.int32]
    response_ids: NDArray[np.int32]
    action_mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    observation: str
    response: str
    command: str
    context: str
    next_context: str
    reward: float
    judgments: NDArray[np.uint8]
    parsed: bool
    accepted: bool


@dataclass(slots=True)
class Rollout:
    """One finished episode of one task.

    Attributes:
        task_id: The task.
        split: Its split.
        task_type: Its type, such as ``Heat``.
        group: Number of the rollout group G(x) within the iteration.
        index: Number of the rollout within its group, 0 to N - 1.
        policy_version: Version of the weights that sampled it.
        steps: The steps in order.
        won: Whether the task was completed, R(tau) = 1.
        score: The world's own score.
        truncated: Whether the step limit ended it.
        measures: What else the world measured at the end, such as ``f1``.
        advantages: float64 (T,), the credit of each step, once a rule has given it.
    """

    task_id: str
    split: str
    task_type: str
    group: int
    index: int
    policy_version: int
    steps: list[Step] = field(default_factory=list)
    won: bool = False
    score: float = 0.0
    truncated: bool = False
    measures: dict[str, float] = field(default_factory=dict)
    advantages: NDArray[np.float64] | None = None

    def env_steps(self) -> int:
        """Number of interaction steps T_i (RLlib's name)."""
        return len(self.steps)

    def agent_steps(self) -> int:
        """The same: one agent acts (RLlib's name)."""
        return len(self.steps)


@dataclass(frozen=True)
class StepBatch:
    """The columns a credit rule reads: one row a step, S rows, M operators.

    Rows of a rollout are contiguous and in time order; rollouts of a group need not be contiguous.

    Attributes:
        group: int64 (S,), the rollout group G(x).
        rollout: int64 (S,), unique over the batch and constant on a rollout's rows.
        reward: float64 (S,), environment reward r_{i,t}.
        observation: int64 (S,), code of the observation's text before the action.
        context: int64 (S,), code of the structural key before the action.
        next_context: int64 (S,), code of the key after it, same coding.
        judgments: uint8 (S, M), rubric judgments.
        categories: int8 (M,), 0 Evidence, 1 Invalidity, 2 Execution.
        parsed: bool (S,), whether a command could be read.
        accepted: bool (S,), whether the world carried it out.
        terminated: bool (S,), True on the last row of a rollout that the world ended.
        truncated: bool (S,), True on the last row of a rollout that the step limit ended.

    Raises:
        ValueError: For a column of another length, or rows of a rollout that are scattered.
    """

    group: NDArray[np.int64]
    rollout: NDArray[np.int64]
    reward: NDArray[np.float64]
    observation: NDArray[np.int64]
    context: NDArray[np.int64]
    next_context: NDArray[np.int64]
    judgments: NDArray[np.uint8]
    categories: NDArray[np.int8]
    parsed: NDArray[np.bool_]
    accepted: NDArray[np.bool_]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self)):
            shape = getattr(self, name).shape
            wanted: tuple[int, ...] = (len(self),)
            if name == "judgments":
                wanted = (len(self), len(self.categories))
            if name != "categories" and shape != wanted:
                raise ValueError(f"column {name!r} has shape {shape}: give {wanted}")
        new = np.flatnonzero(np.diff(self.rollout)) + 1
        if len(np.unique(self.rollout[new])) < len(new) or self.rollout[:1] in self.rollout[new]:
            raise ValueError(
                "the rows of a rollout are scattered: keep them together, in time order"
            )

    def __len__(self) -> int:
        return len(self.rollout)

    @classmethod
    def from_rollouts(cls, rollouts: Sequence[Rollout], categories: NDArray[np.int8]) -> StepBatch:
        """The columns of finished rollouts, in their order; empty rollouts leave no row.

        Args:
            rollouts: The rollouts.
            categories: int8 (M,), the categories of the library that judged them.
        """
        steps = [step for rollout in rollouts for step in rollout.steps]
        lengths = np.array([len(r.steps) for r in rollouts], dtype=np.int64)
        contexts = _codes([s.context for s in steps] + [s.next_context for s in steps])
        last = np.zeros(len(steps), dtype=bool)
        last[np.cumsum(lengths[lengths > 0]) - 1] = True
        truncated = np.repeat(np.array([r.truncated for r in rollouts], dtype=bool), lengths)
        judgments = [s.judgments for s in steps]
        return cls(
            group=np.repeat(np.array([r.group for r in rollouts], dtype=np.int64), lengths),
            rollout=np.repeat(np.arange(len(rollouts)), lengths),
            reward=np.array([s.reward for s in steps], dtype=np.float64),
            observation=_codes([s.observation for s in steps]),
            context=contexts[: len(steps)],
            next_context=contexts[len(steps) :],
            judgments=np.array(judgments, dtype=np.uint8).reshape(len(steps), len(categories)),
            categories=categories,
            parsed=np.array([s.parsed for s in steps], dtype=bool),
            accepted=np.array([s.accepted for s in steps], dtype=bool),
            terminated=last & ~truncated,
            truncated=last & truncated,
        )


def to_record(rollout: Rollout) -> dict[str, Any]:
    """The rollout as plain JSON types.

    The keys are the fields of `Rollout`; ``steps`` holds the fields of `Step`, and ``advantage``
    where a rule has given one.
    """
    record = {f.name: getattr(rollout, f.name) for f in fields(Rollout) if f.name != "advantages"}
    record["steps"] = [
        {f.name: _plain(getattr(step, f.name)) for f in fields(Step)} for step in rollout.steps
    ]
    if rollout.advantages is not None:
        for step, advantage in zip(record["steps"], rollout.advantages, strict=True):
            step["advantage"] = float(advantage)
    return record


def to_json(rollout: Rollout) -> str:
    """`to_record` as one line of ASCII JSON, without the line's end."""
    return json.dumps(to_record(rollout), separators=(",", ":"))


def from_json(line: str) -> Rollout:
    """The rollout of a line of `to_json`; keys it does not know are passed over.

    Raises:
        ValueError: For a line that is no JSON object, or lacks a field.
    """
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError(f"a rollout is a JSON object, not {type(record).__name__}")
    try:
        steps = record["steps"]
        scalars = {
            f.name: record[f.name] for f in fields(Rollout) if f.name not in ("steps", "advantages")
        }
        rollout = Rollout(**scalars, steps=[Step(**_fields_of_step(step)) for step in steps])
    except KeyError as error:
        raise ValueError(f"the rollout lacks the field {error}") from None
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a field of the rollout has the wrong type: {error}") from None
    if steps and all("advantage" in step for step in steps):
        rollout.advantages = np.array([step["advantage"] for step in steps], dtype=np.float64)
    return rollout


def read_rollouts(path: Path) -> Iterator[Rollout]:
    """The rollouts of a file of `to_json` lines, one at a time; a run folder's are such files.

    Lines that tell of missing rollouts (their first key is ``missing``) are passed over.

    Raises:
        ValueError: For a line that cannot be read; it names the file and the line.
    """
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.startswith('{"missing"'):
                continue
            try:
                yield from_json(line.rstrip("\n"))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error


_ARRAYS = {
    "prompt_ids": np.int32,
    "response_ids": np.int32,
    "action_mask": np.bool_,
    "logprobs": np.float32,
    "judgments": np.uint8,
}


def _plain(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == np.bool_:
        return value.astype(np.uint8).tolist()
    if value.dtype == np.float32:  # the shortest digits that read back as the same float32
        return [float(str(number)) for number in value]
    return value.tolist()


def _fields_of_step(step: dict[str, Any]) -> dict[str, Any]:
    return {
        f.name: np.array(step[f.name], dtype=_ARRAYS[f.name]) if f.name in _ARRAYS else step[f.name]
        for f in fields(Step)
    }


def _codes(keys: Iterable[str]) -> NDArray[np.int64]:
    """Numbers in order of first appearance; equal exactly for equal keys."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)
