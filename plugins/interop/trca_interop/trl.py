"""This package's environments for TRL's ``environment_factory``.

::

    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    from trca_interop.trl import environment_factory, rows, rubric_return

    GRPOTrainer(
        model="Qwen/Qwen3-0.6B",
        environment_factory=environment_factory("alfworld"),
        reward_funcs=[rubric_return],  # TRL always adds the outcome as a reward
        train_dataset=Dataset.from_list(rows("alfworld")),
        args=GRPOConfig(...),
    )

Differences from this package's GRPO: an action is a call of the tool ``act``; an unreadable call
takes no step; TRL has one reward per rollout, so rubric judgments enter as their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, cast

from trca.envs.registration import EnvClass, env_class
from trca_interop.episode import ASKED, Episode


class ToolEnvironment:
    """A text environment as TRL plays it; `environment_factory` makes subclasses.

    TRL calls `reset` with a row of the data set, lets the model call `act`, and calls `get_reward`
    at the end.

    Attributes:
        episode: The current episode, with its transitions and judgments.
    """

    _play: ClassVar[Any]

    def __init__(self) -> None:
        self.episode = cast(Episode, type(self)._play())

    def reset(self, task: str | None = None, seed: int | None = None, **row: Any) -> str:
        """Starts the task of a row.

        Args:
            task: Id of the task.
            seed: Seed of a random task, for a row without task.
            row: The further columns of the row.

        Returns:
            The instruction and the first observation. If the environment fails: its error. In this
            case TRL continues, and the rollout has no reward.

        Raises:
            ValueError: If the row has neither task nor seed, because a group would mix tasks.
            Exception: The environment's exception for an unknown task.
        """
        if task is None and seed is None:
            raise ValueError(
                f"a row has the columns {', '.join(row) or 'none'}, but neither task nor seed: the"
                " rollouts of a group would play different tasks; use trca_interop.trl.rows"
            )
        try:
            return self.episode.start(task, seed)
        except Exception:
            if task is not None and task not in self.episode.text_env.task_ids:
                raise
            return self.episode.failure

    def act(self, action: str) -> str:
        """Takes one action in the environment.

        Args:
            action: The action, in the words of the environment.

        Returns:
            The observation and the admissible actions.
        """
        return self.episode.act(action)

    def get_reward(self) -> float | None:
        """The outcome: 1 for success, else 0. None after a failure; TRL ignores such rollouts."""
        return self.episode.reward


def environment_factory(env: EnvClass, **kwargs: Any) -> type[ToolEnvironment]:
    """The class for TRL's ``GRPOTrainer(environment_factory=...)``.

    Args:
        env: The environment, as in `trca.envs.make`. TRL logs the outcome under the name of its
            class.
        kwargs: Arguments of `trca.envs.make`, such as ``split`` and ``library``.
    """
    name = str(env_class(env).__name__)
    return type(name, (ToolEnvironment,), {"_play": staticmethod(partial(Episode, env, **kwargs))})


def rows(
    env: EnvClass, tasks: Sequence[str] | None = None, system: str = "", **kwargs: Any
) -> list[dict[str, Any]]:
    """The rows of a TRL data set, one per task: ``Dataset.from_list(rows("alfworld"))``.

    Args:
        env: The environment, as in `trca.envs.make`.
        tasks: Task ids; None for the complete split.
        system: A system prompt.
        kwargs: Arguments of `trca.envs.make`, such as ``split``.
    """
    if tasks is None:
        episode = Episode(env, **kwargs)
        tasks = episode.text_env.task_ids
        episode.env.close()
    first = [{"role": "system", "content": system}] if system else []
    asked = f"{ASKED} Call the tool act for each.\n\n"
    return [{"prompt": [*first, {"role": "user", "content": asked}], "task": t} for t in tasks]


def rubric_return(environments: Sequence[Any], **_: Any) -> list[float | None]:
    """A reward function for TRL: the sum of r^TRCA over each rollout's transitions.

    None after a failure of the environment or without a rubric; TRL ignores such rollouts.
    """
    return [
        e.episode.rubric_return if isinstance(e, ToolEnvironment) else None for e in environments
    ]
