"""`Episode`: plays an environment for the trainers of external libraries.

::

    episode = Episode("alfworld", split="train")
    episode.start(task="...")  # the instruction, the observation and the admissible actions
    episode.act("go to desk 1")
    episode.reward, episode.won, episode.rubric_return
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, cast

from trca.common.errors import short_line
from trca.envs import make
from trca.envs.registration import EnvClass
from trca.envs.text_env import TextEnv

ASKED = "Act in the environment until the task is done, one action at a time."
"""The request in the first message of an episode."""
OVER = "The episode is over."
"""The end of the last observation of an episode."""


class Judged(TypedDict):
    """Rubric judgments and rewards of a transition, as plain data."""

    judgments: list[int]
    foundational: float
    breakthrough: float
    reward: float
    fired: list[str]


class Step(TypedDict):
    """A transition of an episode, as plain data; ``rubric`` is absent without a rubric."""

    action: str
    observation: str
    reward: float
    accepted: bool
    rubric: NotRequired[Judged]


class Episode:
    """An environment and its current episode.

    After an exception of the environment, `reward` and `rubric_return` have the value `None` until
    the next `start`.

    Attributes:
        env: The environment of `trca.envs.make`.
        task_id: Id of the current task; empty before the first `start`.
        observation: The last observation.
        admissible_actions: The admissible actions now.
        steps: The transitions so far.
        over: Whether the episode has ended.
        won: Whether the agent completed the task.
        failure: The environment's exception on one line; empty without exception.
    """

    def __init__(self, env: EnvClass, **kwargs: Any) -> None:
        """Makes the environment.

        Args:
            env: Name or class of the environment, as in `trca.envs.make`.
            kwargs: Arguments of `trca.envs.make`.

        Raises:
            ValueError: For a team, which needs several agents.
        """
        if kwargs.get("team") is not None:
            raise ValueError(f"team is {kwargs['team']!r}: adapters play one agent; remove team")
        self.env = make(env, **kwargs)
        self.task_id = ""
        self.observation = ""
        self.admissible_actions: list[str] = []
        self.steps: list[Step] = []
        self.over = True
        self.won = False
        self.failure = ""

    @property
    def text_env(self) -> TextEnv:
        """The environment without its wrappers."""
        return cast(TextEnv, self.env.unwrapped)

    @property
    def reward(self) -> float | None:
        """The outcome: the sum of the environment's sparse rewards; None after a failure."""
        return None if self.failure else sum(step["reward"] for step in self.steps)

    @property
    def rubric_return(self) -> float | None:
        """The sum of r^TRCA over the transitions; None after a failure or without a rubric."""
        if self.failure or not self.env.has_wrapper_attr("judge"):
            return None
        return sum(step["rubric"]["reward"] for step in self.steps)

    def start(self, task: str | None = None, seed: int | None = None) -> str:
        """Starts a task; returns instruction, first observation and admissible actions as text.

        Args:
            task: Id of the task; None for a random task.
            seed: Seed of the random task.

        Raises:
            Exception: The exception of the environment, such as for an unknown task.
        """
        self.task_id, self.steps, self.over, self.won, self.failure = "", [], True, False, ""
        options = None if task is None else {"task": task}
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Exception as error:
            self.failure = _failure(error)
            raise
        self.task_id, self.over = info["task_id"], False
        self.observation, self.admissible_actions = observation, info["admissible_actions"]
        return f"Your task: {info['task']}\n\n{self._shown()}"

    def act(self, action: str) -> str:
        """Takes an action; returns the observation and the admissible actions as text.

        Raises:
            ValueError: After the end of the episode.
            TypeError: If the action is not a string.
            RuntimeError: If the environment fails, or has failed in this episode.
        """
        if self.failure:
            raise RuntimeError(self.failure)
        if self.over:
            raise ValueError(f"{OVER} No action can be taken.")
        if not isinstance(action, str):
            raise TypeError(f"the action is {action!r}: give text")
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            self.over = True
            self.failure = _failure(error)
            raise RuntimeError(self.failure) from error
        self.over, self.won = terminated or truncated, bool(info["won"])
        self.observation, self.admissible_actions = observation, info["admissible_actions"]
        step = Step(
            action=action,
            observation=observation,
            reward=float(reward),
            accepted=bool(info["accepted"]),
        )
        if "rubric" in info:
            step["rubric"] = _plain(info["rubric"])
        self.steps.append(step)
        return self._shown()

    def _shown(self) -> str:
        if self.over:
            return f"{self.observation}\n\n{OVER}"
        if not self.admissible_actions:
            return self.observation
        listed = "\n".join(f"- {action}" for action in self.admissible_actions)
        return f"{self.observation}\n\nAdmissible actions:\n{listed}"


def _failure(error: Exception) -> str:
    return short_line(f"the environment failed: {type(error).__name__}: {error}")


def _plain(rubric: Any) -> Judged:
    return Judged(
        judgments=[int(judgment) for judgment in rubric["judgments"]],
        foundational=float(rubric["foundational"]),
        breakthrough=float(rubric["breakthrough"]),
        reward=float(rubric["reward"]),
        fired=list(rubric["fired"]),
    )
