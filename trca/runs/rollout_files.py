"""Rollouts as JSON lines: one rollout per line, every step with its prompt and response."""

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
    """Writes a file for `read_rollouts` atomically, with the text of each prompt.

    Args:
        path: The file.
        rollouts: The rollouts.
        decode: Decodes token ids.
        failures: Groups that are missing for a technical reason; one line per group.
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
    """Returns the prompt of each step of a rollout in a file of `write_rollouts`.

    Raises:
        ValueError: If the file has no prompts.
    """
    with path.open(encoding="utf-8") as file:
        rollouts = (line for line in file if not line.startswith('{"missing"'))
        steps = json.loads(next(islice(rollouts, number, None)))["steps"]
    if any("prompt" not in step for step in steps):
        raise ValueError(f"{path} has no prompts")
    return [step["prompt"] for step in steps]


def iteration_files(folder: RunFolder, name: str) -> dict[int, Path]:
    """Returns the existing files with a name in the rollouts of a run, by iteration."""
    return {
        int(path.parent.name.rpartition("_")[2]): path
        for path in sorted((folder.path / "rollouts").glob(f"iteration_*/{name}"))
    }


def recorded(
    folder: RunFolder, name: str = "train.jsonl", iterations: Sequence[int] | None = None
) -> dict[int, Path]:
    """Returns the recorded files of a run by iteration.

    Args:
        folder: The run.
        name: The files' name, ``train.jsonl`` or ``eval.jsonl``.
        iterations: Requested iterations; `None` for all.

    Raises:
        ConfigError: If no iteration is recorded, or a requested iteration is not. The message lists
            the recorded iterations.
    """
    from trca.tune_configs.files import ConfigError

    paths = iteration_files(folder, name)
    if not paths:
        raise ConfigError(f"{folder.path} has no {name} of any iteration yet")
    for iteration in iterations or []:
        if iteration not in paths:
            numbers = ", ".join(map(str, paths))
            raise ConfigError(
                f"{folder.path} has no {name} of iteration {iteration}: choose {numbers}"
            )
    return {k: paths[k] for k in sorted(iterations)} if iterations else paths


def load_library(env: str, env_config: Mapping[str, Any]) -> RubricLibrary | None:
    """Loads the rubric library of an environment; returns `None` for no library.

    Raises:
        ValueError: If the environment is unknown, or the library is broken.
    """
    from trca.envs.registration import env_class
    from trca.rubric import RubricLibrary

    library = env_config.get("library") or getattr(env_class(env), "library", None)
    return RubricLibrary.load(library) if library else None


def agent_operators(env: str, env_config: Mapping[str, Any]) -> dict[str, Operators]:
    """Returns the rubric operators of each agent: of the single agent, or of each role of a team.

    Raises:
        ValueError: If the environment or team is unknown, or the library is broken.
    """
    from trca.envs.annotate import NO_OPERATORS, Operators
    from trca.envs.teams.env import role_operators
    from trca.envs.teams.team import Team
    from trca.envs.text_env import DEFAULT_AGENT

    library = load_library(env, env_config)
    if (team := env_config.get("team")) is not None:
        return {n: role_operators(role, library) for n, role in Team.load(team).roles.items()}
    operators = Operators(library.ids, library.categories) if library else NO_OPERATORS
    return {DEFAULT_AGENT: operators}


def judged(
    paths: Mapping[int, Path], operators: Mapping[str, Operators], mend: str = ""
) -> Iterator[tuple[int, dict[str, list[Rollout]]]]:
    """Yields each iteration with its rollouts by agent, without empty rollouts.

    Args:
        paths: Files by iteration.
        operators: Expected operators of each agent.
        mend: A further fix for rollouts of other settings, such as ``name a, or ``, for errors.

    Raises:
        ValueError: If the rollouts have another agent or another rubric library.
    """
    from trca.records import by_agent, read_rollouts

    for iteration, path in paths.items():
        rollouts = by_agent([rollout for rollout in read_rollouts(path) if rollout.steps])
        for agent, played in rollouts.items():
            if agent not in operators:
                raise ValueError(
                    f"{path}: rollouts of {agent}, but the settings have"
                    f" {' and '.join(operators)}: {mend}set env_config.team to the team of the"
                    " rollouts"
                )
            if any(rollout.operators != operators[agent].ids for rollout in played):
                raise ValueError(
                    f"{path}: the rubric library of the rollouts differs from the settings'"
                    f" library: {mend}restore the library of the rollouts"
                )
        yield iteration, rollouts
