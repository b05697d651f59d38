"""Our environments on an OpenEnv server.

``uvicorn serve:app``, with a file ``serve.py``::

    from trca.interop.openenv import make_app

    app = make_app("alfworld", split="train")
"""

from __future__ import annotations

from functools import partial
from typing import Any

from trca.common.extras import required
from trca.common.names import unknown
from trca.envs.registration import EnvClass, env_class
from trca.interop.episode import Episode

_server: Any = required("openenv.core.env_server", "openenv")


class TextAction(_server.Action):  # type: ignore[misc]
    """An action of a text environment."""

    action: str


class TextObservation(_server.Observation):  # type: ignore[misc]
    """What a text environment answers.

    ``reward`` is the sparse reward of the step. ``metadata`` has ``task_id``, ``accepted``, ``won``
    and, where the environment has a rubric, ``rubric``: `trca.interop.episode.Judged`.
    """

    text: str
    task: str
    admissible_actions: list[str]


class TextEnvironment(_server.Environment):  # type: ignore[misc]
    """One of our environments behind OpenEnv's interface.

    ``reset`` takes a ``seed``, the id of a ``task``, or ``split`` and ``index`` as OpenEnv's task
    API has them. A step after the end is an error of the server, and so is any failure of the
    environment.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env: EnvClass, **kwargs: Any) -> None:
        """Makes the environment.

        Args:
            env: Its name or class, as `trca.envs.make` takes it.
            kwargs: What `trca.envs.make` takes.
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
        **others: Any,
    ) -> TextObservation:
        """Starts a task."""
        if others:
            known = ("seed", "episode_id", "task", "split", "index")
            raise unknown("argument of reset", next(iter(others)), known)
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
        said = {"accepted": step["accepted"], **rubric}
        return self._observed(step["observation"], step["reward"], said)

    @property
    def state(self) -> Any:
        """Episode, task and number of steps."""
        return _server.State(
            episode_id=self._episode_id,
            step_count=len(self.episode.steps),
            task_id=self.episode.task_id,
        )

    def list_splits(self) -> list[str]:
        """The split that is served."""
        return [self.episode.text_env.split]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """The tasks of the split, by id."""
        self._check_split(split)
        return [{"id": task, "index": n} for n, task in enumerate(self.episode.text_env.task_ids)]

    def num_tasks(self, split: str) -> int:
        """The number of tasks of the split."""
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One task of the split."""
        tasks = self.list_tasks(split)
        if not 0 <= index < len(tasks):
            raise IndexError(f"no task {index} in split {split!r}: it has {len(tasks)}")
        return tasks[index]

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Some tasks of the split, as a slice."""
        return self.list_tasks(split)[start:stop]

    def close(self) -> None:
        """Closes the environment."""
        self.episode.env.close()

    def _check_split(self, split: str) -> None:
        served = self.episode.text_env.split
        if split != served:
            raise unknown("split", split, (served,))

    def _observed(self, text: str, reward: float, said: dict[str, Any]) -> TextObservation:
        return TextObservation(
            text=text,
            task=self.episode.text_env.instruction,
            admissible_actions=self.episode.admissible_actions,
            reward=reward,
            done=self.episode.over,
            metadata={"task_id": self.episode.task_id, "won": self.episode.won, **said},
        )


def make_app(env: EnvClass, sessions: int = 64, **kwargs: Any) -> Any:
    """The FastAPI application of an OpenEnv server of one of our environments.

    Args:
        env: The environment, as `trca.envs.make` takes it; the name of its class is OpenEnv's.
        sessions: Episodes that may be played at once.
        kwargs: What `trca.envs.make` takes.
    """
    return _server.create_app(
        partial(TextEnvironment, env, **kwargs),
        TextAction,
        TextObservation,
        env_name=env_class(env).__name__,
        max_concurrent_envs=sessions,
    )
