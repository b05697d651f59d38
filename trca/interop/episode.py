"""`Episode`: an environment as other libraries' trainers play it, one episode after another.

::

    episode = Episode("alfworld", split="train")
    episode.start(task="...")  # the instruction, the observation and the admissible actions
    episode.act("go to desk 1")
    episode.reward, episode.won, episode.rubric_return
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, cast

from trca.common.short_line import short_line
from trca.envs import make
from trca.envs.registration import EnvClass
from trca.envs.text_env import TextEnv

ASKED = "Act in the environment until the task is done, one action at a time."
"""What an agent is asked in the first message of an episode."""
OVER = "The episode is over."
"""What the last answer of an episode ends with."""


class Judged(TypedDict):
    """What the rubric says of a transition, as plain data."""

    judgments: list[int]
    foundational: float
    breakthrough: float
    reward: float
    fired: list[str]


class Step(TypedDict):
    """A transition of an episode, as plain data; ``rubric`` is absent where nothing judges."""

    action: str
    observation: str
    reward: float
    accepted: bool
    rubric: NotRequired[Judged]


class Episode:
    """An environment and the episode that is played in it.

    An exception of the environment leaves the episode without a reward: `reward` is None from then
    on, and so is `rubric_return`, until the next `start`.

    Attributes:
        env: The environment, as `trca.envs.make` makes it.
        task_id: Id of the present task; blank before the first `start`.
        observation: What was observed last.
        admissible_actions: What the environment would accept now.
        steps: The transitions so far.
        over: Whether the episode has ended.
        won: Whether the task is completed.
        failure: What the environment raised, in one line; blank where it did not.
    """

    def __init__(self, env: EnvClass, **kwargs: Any) -> None:
        """Makes the environment.

        Args:
            env: Its name or class, as `trca.envs.make` takes it.
            kwargs: What `trca.envs.make` takes.

        Raises:
            ValueError: For a team, which several agents play.
        """
        if kwargs.get("team") is not None:
            raise ValueError(f"team {kwargs['team']!r}: adapters play with one agent; leave it out")
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
        """Starts a task; returns the instruction, the first observation and what may be done.

        Args:
            task: Id of the task; None draws one.
            seed: Seeds the drawing.
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
        """Takes an action; returns the observation and what may be done next.

        Raises:
            ValueError: When the episode is over.
            TypeError: When the action is no text.
            RuntimeError: When the environment fails, or has failed in this episode.
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
