"""Rollouts as JSON lines: one rollout a line, every step with its prompt and response."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trca.algorithms.records import Rollout
    from trca.algorithms.rollout import Failure
    from trca.cli.run_folder import RunFolder
    from trca.rubric import RubricLibrary

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


def iteration_files(folder: RunFolder, name: str) -> dict[int, Path]:
    """The files of a name in the rollouts of a run, by iteration; empty where there are none."""
    return {
        int(path.parent.name.rpartition("_")[2]): path
        for path in sorted((folder.path / "rollouts").glob(f"iteration_*/{name}"))
    }


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

    paths = iteration_files(folder, name)
    if not paths:
        raise ConfigError(f"{folder.path} has no {name} of any iteration yet")
    for iteration in iterations or []:
        if iteration not in paths:
            known = ", ".join(map(str, paths))
            raise ConfigError(
                f"{folder.path} has no {name} of iteration {iteration}: choose {known}"
            )
    return {k: paths[k] for k in sorted(iterations)} if iterations else paths


def load_library(env: str, env_config: Mapping[str, Any]) -> RubricLibrary | None:
    """The rubric library that judges an environment; None where nothing does.

    Raises:
        ValueError: When there is no such environment, or the library is broken.
    """
    from trca.envs.registration import env_class
    from trca.rubric import RubricLibrary

    library = env_config.get("library") or getattr(env_class(env), "library", None)
    return RubricLibrary.load(library) if library else None


def judged(
    paths: Mapping[int, Path],
    library: RubricLibrary | None,
    what: str,
    mend: str = "",
) -> Iterator[tuple[int, list[Rollout]]]:
    """The rollouts of each iteration that have a step; the library has judged them.

    Args:
        paths: Files by iteration.
        library: None where nothing judges.
        what: The command that reads them, for errors.
        mend: What else to do about rollouts of another library, such as ``name a, or ``.

    Raises:
        ValueError: For rollouts of a team, or that another library judged.
    """
    from trca.algorithms.records import read_rollouts, refuse_teams

    ids = library.ids if library else ()
    for iteration, path in paths.items():
        rollouts = [rollout for rollout in read_rollouts(path) if rollout.steps]
        refuse_teams(rollouts, what)
        if any(rollout.operators != ids for rollout in rollouts):
            raise ValueError(
                f"{path}: judged by another rubric library than that of the settings:"
                f" {mend}put the library back as it was"
            )
        yield iteration, rollouts
