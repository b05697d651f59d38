"""Our environments in TRL's ``environment_factory``.

::

    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    from trca.interop.trl import environment_factory, rows, rubric_return

    GRPOTrainer(
        model="Qwen/Qwen3-0.6B",
        environment_factory=environment_factory("alfworld"),
        reward_funcs=[rubric_return],  # the outcome is a reward in any case
        train_dataset=Dataset.from_list(rows("alfworld")),
        args=GRPOConfig(...),
    )

What differs from our own GRPO: an action is a call of the tool ``act``; a call that cannot be read
takes no step; TRL sees one reward a rollout, so that the rubric's judgments enter as their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, cast

from trca.envs.registration import EnvClass, env_class
from trca.interop.episode import ASKED, Episode


class ToolEnvironment:
    """One of our environments as TRL plays it; `environment_factory` makes classes of it.

    TRL calls `reset` with a row of the data set, lets the model call `act`, and asks `get_reward`
    at the end.

    Attributes:
        episode: The episode that is played, with its transitions and their judgments.
    """

    _play: ClassVar[Any]

    def __init__(self) -> None:
        self.episode = cast(Episode, type(self)._play())

    def reset(self, task: str | None = None, seed: int | None = None, **row: Any) -> str:
        """Starts the task of a row.

        Args:
            task: Id of the task.
            seed: Draws the task, where the row names none.
            row: The row's other columns.

        Returns:
            The instruction and the first observation. Where the environment fails, what it raised:
            TRL goes on, and the rollout has no reward.

        Raises:
            ValueError: When the row says neither, and a group would mix tasks.
            Exception: What the environment raises where the split has no such task.
        """
        if task is None and seed is None:
            raise ValueError(
                f"a row has the columns {', '.join(row) or 'none'}, and neither task nor seed: the"
                " rollouts of a group would play different tasks; see trca.interop.trl.rows"
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
            What the environment answers, and what may be done next.
        """
        return self.episode.act(action)

    def get_reward(self) -> float | None:
        """The outcome: 1 for success, else 0; None, which TRL leaves out, after a failure."""
        return self.episode.reward


def environment_factory(env: EnvClass, **kwargs: Any) -> type[ToolEnvironment]:
    """The class to give to TRL's ``GRPOTrainer(environment_factory=...)``.

    Args:
        env: The environment, as `trca.envs.make` takes it. TRL logs the outcome under its class.
        kwargs: What `trca.envs.make` takes, such as ``split`` and ``library``.
    """
    name = str(env_class(env).__name__)
    return type(name, (ToolEnvironment,), {"_play": staticmethod(partial(Episode, env, **kwargs))})


def rows(
    env: EnvClass, tasks: Sequence[str] | None = None, system: str = "", **kwargs: Any
) -> list[dict[str, Any]]:
    """The rows of a data set for TRL, one a task: ``Dataset.from_list(rows("alfworld"))``.

    Args:
        env: The environment, as `trca.envs.make` takes it.
        tasks: Ids of the tasks; None for all of the split.
        system: A system prompt.
        kwargs: What `trca.envs.make` takes, such as ``split``.
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

    None, which TRL leaves out, where the environment failed or has no rubric.
    """
    return [
        e.episode.rubric_return if isinstance(e, ToolEnvironment) else None for e in environments
    ]
