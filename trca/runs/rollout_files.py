"""The rollouts of a run: the files of its iterations, and the operators that judged them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from trca.common.extras import missing_extra
from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from trca.envs.annotate import Operators
    from trca.records import Rollout
    from trca.rubric import RubricLibrary
    from trca.runs.folder import RunFolder

Kind = Literal["train", "eval"]
"""Rollouts of training, or of the held-out evaluation."""
_KINDS: Final = {"train": "training rollouts", "eval": "evaluation rollouts"}


def rollout_file(folder: RunFolder, kind: Kind, iteration: int) -> Path:
    """Returns the path of the rollouts of an iteration, and creates its folder."""
    return folder.rollouts(iteration) / f"{kind}.parquet"


def iteration_files(folder: RunFolder, kind: Kind) -> dict[int, Path]:
    """Returns the existing files of a kind by iteration; JSON lines are of an earlier version."""
    return {
        int(path.parent.name.rpartition("_")[2]): path
        for suffix in (".jsonl", ".parquet")
        for path in sorted((folder.path / "rollouts").glob(f"iteration_*/{kind}{suffix}"))
    }


def recorded(
    folder: RunFolder, kind: Kind = "train", iterations: Sequence[int] | None = None
) -> dict[int, Path]:
    """Returns the recorded files of a run by iteration; of some iterations, or of all.

    Raises:
        ConfigError: If no iteration is recorded, or a requested iteration is not. The message lists
            the recorded iterations.
    """
    if lack := missing_extra("pyarrow", "reading rollouts", "train"):
        raise ConfigError(lack)
    paths = iteration_files(folder, kind)
    if not paths:
        raise ConfigError(f"{folder.path} has no {_KINDS[kind]} of any iteration yet")
    for iteration in iterations or []:
        if iteration not in paths:
            raise ConfigError(
                f"{folder.path} has no {_KINDS[kind]} of iteration {iteration}: choose"
                f" {', '.join(map(str, sorted(paths)))}"
            )
    return {k: paths[k] for k in sorted(iterations or paths)}


def load_library(env: str, env_config: Mapping[str, Any]) -> RubricLibrary | None:
    """Loads the rubric library of an environment; returns `None` for no library.

    Raises a `ValueError` if the environment is unknown, or the library is broken.
    """
    from trca.envs.registration import env_class
    from trca.rubric import RubricLibrary

    library = env_config.get("library") or getattr(env_class(env), "library", None)
    return RubricLibrary.load(library) if library else None


def agent_operators(env: str, env_config: Mapping[str, Any]) -> dict[str, Operators]:
    """Returns the rubric operators of each agent: of the single agent, or of each role of a team.

    Raises a `ValueError` if the environment or team is unknown, or the library is broken.
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
    paths: Mapping[int, Path], operators: Mapping[str, Operators], fix: str = ""
) -> Iterator[tuple[int, dict[str, list[Rollout]]]]:
    """Yields each iteration with its rollouts by agent, without empty rollouts.

    Raises:
        ValueError: If the rollouts have another agent or another rubric library. ``fix`` is a
            further fix for the message, such as ``name a, or ``.
    """
    from trca.records import by_agent, read_rollouts

    for iteration, path in paths.items():
        rollouts = by_agent([rollout for rollout in read_rollouts(path) if rollout.steps])
        for agent, played in rollouts.items():
            if agent not in operators:
                raise ValueError(
                    f"{path}: rollouts of {agent}, but the settings have"
                    f" {' and '.join(operators)}: {fix}set env_config.team to the team of the"
                    " rollouts"
                )
            if any(rollout.operators != operators[agent].ids for rollout in played):
                raise ValueError(
                    f"{path}: the rubric library of the rollouts differs from the settings'"
                    f" library: {fix}restore the library of the rollouts"
                )
        yield iteration, rollouts
