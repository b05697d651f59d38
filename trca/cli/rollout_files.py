"""Rollouts as JSON lines: one rollout a line, every step with its prompt and response."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trca.algorithms.records import Rollout
    from trca.algorithms.rollout import Failure
    from trca.cli.run_folder import RunFolder
    from trca.tune_configs.settings import RunSettings

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


def recorded(
    folder: RunFolder, name: str = "train.jsonl", iterations: Sequence[int] | None = None
) -> dict[int, Path]:
    """The recorded files of a run, by iteration.

    Args:
        folder: The run.
        name: The files' name, ``train.jsonl`` or ``eval.jsonl``.
        iterations: Those wanted; None for all.

    Raises:
        ConfigError: When nothing is recorded, or not an iteration that is wanted; names those that
            are.
    """
    from trca.tune_configs.files import ConfigError

    paths = {
        int(path.parent.name.rpartition("_")[2]): path
        for path in sorted((folder.path / "rollouts").glob(f"iteration_*/{name}"))
    }
    if not paths:
        raise ConfigError(f"{folder.path} has no {name} of any iteration yet")
    for iteration in iterations or []:
        if iteration not in paths:
            known = ", ".join(map(str, paths))
            raise ConfigError(
                f"{folder.path} has no {name} of iteration {iteration}: choose {known}"
            )
    return {k: paths[k] for k in sorted(iterations)} if iterations else paths


def library_of(settings: RunSettings) -> str | Path | None:
    """The rubric library that judges a run; None where nothing does."""
    from trca.envs.registration import env_class

    own = getattr(env_class(settings.run.env), "library", None)
    library: str | Path | None = settings.run.env_config.get("library") or own
    return library
