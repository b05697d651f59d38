"""Serves this package's environments as an OpenEnv server.

``uvicorn serve:app``, with a file ``serve.py``::

    from trca_interop.openenv import make_app

    app = make_app("alfworld", split="train")
"""

from __future__ import annotations

from functools import partial
from typing import Any

from trca.common.names import unknown
from trca.envs.registration import EnvClass, env_class
from trca_interop import required
from trca_interop.episode import Episode

_server: Any = required("openenv.core.env_server", "openenv")


class TextAction(_server.Action):  # type: ignore[misc]
    """An action of a text environment."""

    action: str


class TextObservation(_server.Observation):  # type: ignore[misc]
    """An observation of a text environment.

    ``reward`` is the sparse reward of the step. ``metadata`` has ``task_id``, ``accepted``, ``won``
    and, with a rubric, ``rubric`` (`trca_interop.episode.Judged`).
    """

    text: str
    task: str
    admissible_actions: list[str]


class TextEnvironment(_server.Environment):  # type: ignore[misc]
    """A text environment with OpenEnv's interface.

    ``reset`` takes a ``seed``, the id of a ``task``, or ``split`` and ``index`` of OpenEnv's task
    API. A step after the end and a failure of the environment are errors of the server.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env: EnvClass, **kwargs: Any) -> None:
        """Makes the environment.

        Args:
            env: Name or class of the environment, as in `trca.envs.make`.
            kwargs: Arguments of `trca.envs.make`.
        """
        super().__init__()
        self.episode = Episode(env, **kwargs)
        self._episode_id: str | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task: str | None = None,
        split: str | None = None,
        index: int | None = None,
        **unknown_arguments: Any,
    ) -> TextObservation:
        """Starts a task.

        Args:
            seed: Seed of a random task.
            episode_id: OpenEnv's id of the episode.
            task: Id of the task.
            split: The served split; checked.
            index: Index of the task in the split, in place of `task`.
            unknown_arguments: Refused.

        Raises:
            ValueError: For an unknown argument or a split that is not served.
            IndexError: For an index outside the split.
        """
        if unknown_arguments:
            argument_names = ("seed", "episode_id", "task", "split", "index")
            raise unknown("argument of reset", next(iter(unknown_arguments)), argument_names)
        if split is not None:
            self._check_split(split)
        if index is not None:
            task = self.get_task(self.episode.text_env.split, index)["id"]
        self._episode_id = episode_id
        self.episode.start(task, seed)
        return self._observed(self.episode.observation, 0.0, {})

    def step(self, action: TextAction, timeout_s: float | None = None, **_: Any) -> TextObservation:
        """Takes an action."""
        self.episode.act(action.action)
        step = self.episode.steps[-1]
        rubric = {"rubric": step["rubric"]} if "rubric" in step else {}
        metadata = {"accepted": step["accepted"], **rubric}
        return self._observed(step["observation"], step["reward"], metadata)

    @property
    def state(self) -> Any:
        """Episode id, task id and number of steps."""
        return _server.State(
            episode_id=self._episode_id,
            step_count=len(self.episode.steps),
            task_id=self.episode.task_id,
        )

    def list_splits(self) -> list[str]:
        """The served split, as a list."""
        return [self.episode.text_env.split]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Id and index of each task of the split."""
        self._check_split(split)
        return [
            {"id": task_id, "index": n} for n, task_id in enumerate(self.episode.text_env.task_ids)
        ]

    def num_tasks(self, split: str) -> int:
        """Number of tasks of the split."""
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Id and index of one task of the split.

        Raises:
            IndexError: For an index outside the split.
        """
        tasks = self.list_tasks(split)
        if not 0 <= index < len(tasks):
            raise IndexError(f"no task {index} in split {split!r}: choose 0 to {len(tasks) - 1}")
        return tasks[index]

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Id and index of the tasks of a slice of the split."""
        return self.list_tasks(split)[start:stop]

    def close(self) -> None:
        """Closes the environment."""
        self.episode.env.close()

    def _check_split(self, split: str) -> None:
        served = self.episode.text_env.split
        if split != served:
            raise unknown("split", split, (served,))

    def _observed(self, text: str, reward: float, metadata: dict[str, Any]) -> TextObservation:
        return TextObservation(
            text=text,
            task=self.episode.text_env.instruction,
            admissible_actions=self.episode.admissible_actions,
            reward=reward,
            done=self.episode.over,
            metadata={"task_id": self.episode.task_id, "won": self.episode.won, **metadata},
        )


def make_app(env: EnvClass, sessions: int = 64, **kwargs: Any) -> Any:
    """The FastAPI application of an OpenEnv server.

    Args:
        env: The environment, as in `trca.envs.make`. The name of its class is the name in OpenEnv.
        sessions: Largest number of simultaneous episodes.
        kwargs: Arguments of `trca.envs.make`.
    """
    return _server.create_app(
        partial(TextEnvironment, env, **kwargs),
        TextAction,
        TextObservation,
        env_name=env_class(env).__name__,
        max_concurrent_envs=sessions,
    )
