"""Rollouts as JSON: for ``trca inspect --json``, and from the JSON lines of earlier versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from trca.records.rollout import DEFAULT_MODULE, Failure, Rollout, Step

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


def to_record(rollout: Rollout, prompts: Sequence[str] | None = None) -> dict[str, Any]:
    """Returns the rollout as plain JSON types; the keys are the fields of `Rollout`.

    ``steps`` holds the fields of `Step`, ``advantage`` if the rollout has advantages, and
    ``prompt`` if the prompts are given.
    """
    record = {f.name: getattr(rollout, f.name) for f in fields(Rollout) if f.name not in _OPTIONAL}
    if rollout.module_id != DEFAULT_MODULE:
        record["module_id"] = rollout.module_id
    if rollout.turns:
        record["turns"] = list(rollout.turns)
    if rollout.final_prompt_ids is not None:
        record["final_prompt_ids"] = rollout.final_prompt_ids.tolist()
    names = [f.name for f in fields(Step)]
    record["steps"] = [{n: _plain(getattr(step, n)) for n in names} for step in rollout.steps]
    for number, step in enumerate(record["steps"]):
        if not step["demonstration"]:
            del step["demonstration"]
        if step["milestone"] is None:
            del step["milestone"]
        if rollout.advantages is not None:
            step["advantage"] = float(rollout.advantages[number])
        if prompts:
            step["prompt"] = prompts[number]
    return record


def to_json(rollout: Rollout) -> str:
    """Returns `to_record` as one line of ASCII JSON, without a line break."""
    return json.dumps(to_record(rollout), separators=(",", ":"))


def from_json(line: str) -> Rollout:
    """Reads a line of `to_json`, and ignores unknown keys; a `ValueError` if a field is missing."""
    return _rollout(json.loads(line))


def read_lines(path: Path) -> tuple[list[Rollout], list[str] | None, list[Failure]]:
    """Reads ``train.jsonl`` or ``eval.jsonl`` of a run of an earlier version.

    Returns rollouts, the prompt of each step (`None` if one is missing), and failures.

    Raises:
        ValueError: If a line is invalid. The message names the file and the line.
    """
    rollouts, failures, prompts = list[Rollout](), list[Failure](), list[str | None]()
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                record = json.loads(line.rstrip(b"\n"))
                if line.startswith(b'{"missing"'):
                    record["rollouts"] = record.pop("missing")
                    failures.append(Failure(**record))
                    continue
                rollouts.append(_rollout(record))
                prompts += [step.get("prompt") for step in record["steps"]]
            except (ValueError, TypeError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    return rollouts, None if None in prompts else [p for p in prompts if p is not None], failures


def _rollout(record: Any) -> Rollout:
    if not isinstance(record, dict):
        raise ValueError(f"a rollout is a JSON object, not {type(record).__name__}")
    try:
        steps = []
        for each in record["steps"]:
            values = {f.name: each[f.name] for f in fields(Step) if f.name in each}
            values |= {name: np.array(each[name], dtype) for name, dtype in ARRAYS.items()}
            values["judgments"].setflags(write=False)
            steps.append(Step(**values))
        values = {f.name: record[f.name] for f in fields(Rollout) if f.name in record}
        rollout = Rollout(**values | {"steps": steps, "operators": tuple(record["operators"])})
        if rollout.final_prompt_ids is not None:
            rollout.final_prompt_ids = np.array(rollout.final_prompt_ids, dtype=np.int32)
        if steps and all("advantage" in each for each in record["steps"]):
            rollout.advantages = np.array([each["advantage"] for each in record["steps"]], float)
    except KeyError as error:
        raise ValueError(f"the rollout lacks the field {error}") from None
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a field is missing or has the wrong type: {error}") from None
    return rollout


def _plain(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == np.bool_:
        return value.astype(np.uint8).tolist()
    if value.dtype == np.float32:  # the shortest digits that read back as the same float32
        return [None if number != number else float(str(number)) for number in value]
    return value.tolist()
