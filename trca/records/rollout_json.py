"""Rollouts as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from trca.records.rollout import DEFAULT_MODULE, Rollout, Step


def changed_facts(facts: Any) -> dict[str, Any]:
    """Returns the fields of a facts dataclass that differ from their defaults, as JSON types.

    Args:
        facts: Facts of a transition; `None` for an environment without facts.
    """
    if facts is None:
        return {}
    changed = {}
    facts_type: Any = type(facts)
    for name, default in _defaults(facts_type):
        value = getattr(facts, name)
        if value != default:
            changed[name] = list(value) if isinstance(value, tuple) else value
    return changed


def to_record(rollout: Rollout) -> dict[str, Any]:
    """Returns the rollout as plain JSON types.

    The keys are the fields of `Rollout`. ``steps`` holds the fields of `Step`, and ``advantage`` if
    the rollout has advantages.
    """
    record = {f.name: getattr(rollout, f.name) for f in fields(Rollout) if f.name not in _OPTIONAL}
    if rollout.module_id != DEFAULT_MODULE:
        record["module_id"] = rollout.module_id
    if rollout.turns:
        record["turns"] = list(rollout.turns)
    if rollout.final_prompt_ids is not None:
        record["final_prompt_ids"] = _plain(rollout.final_prompt_ids)
    record["steps"] = [
        {f.name: _plain(getattr(step, f.name)) for f in fields(Step)} for step in rollout.steps
    ]
    for step in record["steps"]:
        if not step["demonstration"]:
            del step["demonstration"]
        if step["milestone"] is None:
            del step["milestone"]
    if rollout.advantages is not None:
        for step, advantage in zip(record["steps"], rollout.advantages, strict=True):
            step["advantage"] = float(advantage)
    return record


def to_json(rollout: Rollout) -> str:
    """Returns `to_record` as one line of ASCII JSON, without a line break."""
    return json.dumps(to_record(rollout), separators=(",", ":"))


def from_json(line: str) -> Rollout:
    """Reads a line of `to_json`, and ignores unknown keys.

    Raises:
        ValueError: If the line is not a JSON object, or lacks a field.
    """
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError(f"a rollout is a JSON object, not {type(record).__name__}")
    try:
        steps = record["steps"]
        scalars = {
            f.name: record[f.name] for f in fields(Rollout) if f.name not in ("steps", *_OPTIONAL)
        }
        scalars["operators"] = tuple(scalars["operators"])
        if not isinstance(scalars["task_id"], str):
            raise TypeError(f"task_id {scalars['task_id']!r:.60} is no text")
        rollout = Rollout(**scalars, steps=[Step(**_fields_of_step(step)) for step in steps])
        rollout.module_id = str(record.get("module_id", DEFAULT_MODULE))
        rollout.turns = [int(turn) for turn in record.get("turns", ())]
        if "final_prompt_ids" in record:
            rollout.final_prompt_ids = np.array(record["final_prompt_ids"], dtype=np.int32)
        if steps and all("advantage" in step for step in steps):
            rollout.advantages = np.array([step["advantage"] for step in steps], dtype=np.float64)
    except KeyError as error:
        raise ValueError(f"the rollout lacks the field {error}") from None
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a field of the rollout has the wrong type: {error}") from None
    return rollout


def read_rollouts(path: Path) -> Iterator[Rollout]:
    """Reads the rollouts of a file of `to_json` lines one by one.

    Skips lines about missing rollouts (their first key is ``missing``).

    Raises:
        ValueError: If a line is invalid. The message names the file and the line.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.startswith(b'{"missing"'):
                continue
            try:
                yield from_json(line.decode().rstrip("\n"))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from error


ARRAYS: Final = {
    "prompt_ids": np.int32,
    "response_ids": np.int32,
    "action_mask": np.bool_,
    "old_logprobs": np.float32,
    "judgments": np.uint8,
}
"""Array fields of a step, and their types."""

_OPTIONAL: Final = ("module_id", "turns", "final_prompt_ids", "advantages")
"""Fields of a rollout that a record may lack."""
_OPTIONAL_IN_STEP: Final = ("version", "demonstration", "milestone")
"""Fields of a step that a record may lack."""


def _plain(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == np.bool_:
        return value.astype(np.uint8).tolist()
    if value.dtype == np.float32:  # the shortest digits that read back as the same float32
        if np.isnan(value).any():  # JSON has no NaN; `_fields_of_step` reads None as NaN
            return [None if np.isnan(number) else float(str(number)) for number in value]
        return [float(str(number)) for number in value]
    return value.tolist()


def _fields_of_step(step: dict[str, Any]) -> dict[str, Any]:
    names = [f.name for f in fields(Step) if f.name in step or f.name not in _OPTIONAL_IN_STEP]
    values = {name: step[name] for name in names}
    for name, dtype in ARRAYS.items():
        values[name] = np.array(values[name], dtype=dtype)
    values["judgments"].setflags(write=False)
    return values


@cache
def _defaults(facts_type: type) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (f.name, f.default if f.default_factory is MISSING else f.default_factory())
        for f in fields(facts_type)
    )
