"""Rollouts as JSON lines: one rollout a line, every step with its prompt and response."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trca.common.files import writing

if TYPE_CHECKING:
    from trca.envs.annotate import Operators
    from trca.records import Rollout
    from trca.records.failures import Failure
    from trca.rubric import RubricLibrary
    from trca.runs.folder import RunFolder

Decode = Callable[[Any], str]
"""Token ids to text."""


def write_rollouts(
    path: Path,
    rollouts: Sequence[Rollout],
    decode: Decode,
    failures: Sequence[Failure] = (),
) -> None:
    """Writes a file that `read_rollouts` reads, whole or not at all, with each prompt as text too.

    Args:
        path: The file.
        rollouts: The rollouts.
        decode: Decodes token ids.
        failures: Groups that are missing for a technical reason: a line each.
    """
    from trca.records import to_record

    with writing(path) as file:
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


def read_prompts(path: Path, number: int) -> list[str]:
    """What the policy read at each step of a rollout in a file of `write_rollouts`.

    Raises:
        ValueError: When the file has no prompts.
    """
    with path.open(encoding="utf-8") as file:
        rollouts = (line for line in file if not line.startswith('{"missing"'))
        steps = json.loads(next(islice(rollouts, number, None)))["steps"]
    if any("prompt" not in step for step in steps):
        raise ValueError(f"{path} has no prompts")
    return [step["prompt"] for step in steps]


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


def agent_operators(env: str, env_config: Mapping[str, Any]) -> dict[str, Operators]:
    """The rubric operators that judge each agent: the only one, or the roles of a team.

    Raises:
        ValueError: When there is no such environment or team, or the library is broken.
    """
    from trca.envs.annotate import NO_OPERATORS, Operators
    from trca.envs.teams.env import role_operators
    from trca.envs.teams.team import Team
    from trca.envs.text_env import DEFAULT_AGENT

    library = load_library(env, env_config)
    if (team := env_config.get("team")) is not None:
        return {n: role_operators(role, library) for n, role in Team.load(team).roles.items()}
    alone = Operators(library.ids, library.categories) if library else NO_OPERATORS
    return {DEFAULT_AGENT: alone}


def judged(
    paths: Mapping[int, Path], operators: Mapping[str, Operators], mend: str = ""
) -> Iterator[tuple[int, dict[str, list[Rollout]]]]:
    """The rollouts of each iteration that have a step, by agent; these operators judged them.

    Args:
        paths: Files by iteration.
        operators: Those of each agent.
        mend: What else to do about rollouts of other settings, such as ``name a, or ``.

    Raises:
        ValueError: For rollouts of another agent, or that another library judged.
    """
    from trca.records import by_agent, read_rollouts

    for iteration, path in paths.items():
        rollouts = by_agent([rollout for rollout in read_rollouts(path) if rollout.steps])
        for agent, own in rollouts.items():
            if agent not in operators:
                raise ValueError(
                    f"{path}: rollouts of {agent}, and the settings have"
                    f" {' and '.join(operators)}: {mend}set env_config.team as it was when"
                    " they played"
                )
            if any(rollout.operators != operators[agent].ids for rollout in own):
                raise ValueError(
                    f"{path}: judged by another rubric library than that of the settings:"
                    f" {mend}put the library back as it was"
                )
        yield iteration, rollouts
