"""`TextEnv`: the contract of a text environment, and the typed ``info`` it emits.

A text environment is a Gymnasium environment whose observations and actions are strings::

    env = gymnasium.make("trca.envs:trca/ALFWorld-v0", split="train")
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(info["admissible_actions"][0])
    info["rubric"]["fired"]  # the rubric operators this transition satisfied
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from trca.common.names import unknown
from trca.envs.adapter import Adapter
from trca.envs.drawing import Drawing, Turn
from trca.envs.info import RubricInfo as RubricInfo
from trca.envs.info import TextInfo as TextInfo
from trca.envs.panel import Panel
from trca.envs.text_space import AnyText

UNPARSED: Final = ""
"""The action of a response that contains no readable action."""

DEFAULT_AGENT: Final = "default_agent"
"""Id of the agent of an episode with one agent (RLlib's name)."""

_NO_TEXT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_BLANK: Final = re.compile("<[^<>]+>")


def as_action(text: str, admissible: Sequence[str] = ()) -> str:
    """Returns a text as an action: `UNPARSED` if it contains control characters or surrogates.

    Native libraries, such as interpreters of text adventures, may crash or hang on these
    characters. Tabs and line breaks are allowed, and so is every admissible action: scraped texts
    contain control characters.

    Raises:
        TypeError: If the text is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"the action is {text!r:.80}: give a string, empty if unreadable")
    return UNPARSED if _NO_TEXT.search(text) and text not in admissible else text


def filled(action: str, text: str) -> str:
    """Returns one of `TextEnv.open_actions` with a text in its gap."""
    return _BLANK.sub(lambda _: text, action)


class MissingPartError(NotImplementedError, ValueError):
    """An environment lacks an optional part, such as an oracle. The message names the part."""


class OracleError(RuntimeError):
    """An oracle has no plan from the current state."""


class Outcome(NamedTuple):
    """The result of one action.

    Attributes:
        observation: Text that answers the action.
        reward: The sparse reward r_{i,t}: 1 on success, else 0.
        terminated: Whether the task has ended.
        truncated: Whether the environment cuts the episode off before the step limit.
        accepted: Whether the environment carried out the action.
        won: Whether the agent completed the task. Default: the task ended with a positive reward.
        score: Quality of the result, 0 to 1. Default: the reward.
        milestone: Whether the action completed a subgoal of the environment. Default: the
            environment has no milestones.
        rewards: In a game, the reward of each role of the team, by name. Default: all roles get
            ``reward``.
    """

    observation: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    accepted: bool = True
    won: bool | None = None
    score: float | None = None
    milestone: bool | None = None
    rewards: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Gold:
    """The hidden truth of a task.

    Attributes:
        answers: The right answer and its aliases.
        passages: Texts that support the answer, in reading order. Empty if unknown.
        answer_actions: Actions that state the answers. Empty if the agent gives no answer by an
            action.
        walkthrough: Actions that complete the task, in order. Empty if unknown.
    """

    answers: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    answer_actions: tuple[str, ...] = ()
    walkthrough: tuple[str, ...] = ()


class TextEnv(gymnasium.Env[str, str], ABC):
    """The base class of text environments: observations and actions are strings.

    An episode plays one task. A subclass writes `task_ids`, `start_task`, `take_action`,
    `instruction` and `admissible_actions`. This class draws tasks, counts steps, keeps the
    transcript and fills ``info``. Class attributes declare everything that training and evaluation
    need to know about an environment; each has a default. ``trca.envs.register`` registers an
    environment under a Gymnasium id. ``trca.envs.make`` makes an environment from an id, a class or
    ``path/to/file.py:Class``.

    ``reset(seed=..., options={"task": task_id})`` starts the named task. Without the option,
    ``reset`` draws a task uniformly from the split with the environment's random generator.
    ``step(action)`` takes *any* string: an environment answers garbage with an observation and
    raises no exception. Control characters never reach `take_action`. ``terminated`` means the end
    of the task, ``truncated`` the step limit. The reward is sparse: 1 on success, else 0. ``info``
    has the keys of `TextInfo`. The same task and actions always give the same transcript. An
    exception in `start_task` or `take_action` makes the rollout missing; the agent gets no zero
    reward.

    Attributes:
        env_id: Gymnasium id, part of a panel and its hash. Default: the name of the class.
        adapter_class: The `Adapter` that turns transcripts into facts. With None, the context is
            the observation and no rubric can judge the environment.
        library: Name or path of the default rubric library; None for no rubric.
        default_split: Default split for play and evaluation.
        tiny_policy: Changes to the recipe of the tiny policy, by field of
            `trca.policies.tiny.TinySpec`.
        language: Names of the arguments that change the texts of the environment, such as its tasks
            or their wording. The tiny policy is rebuilt only if one of these arguments changes.
            None means all arguments except ``split``, ``max_steps`` and ``render_mode``.
        open_actions: Admissible actions with a gap that the agent fills in, such as
            ``search[<your query>]``. All further admissible actions are sent as they are, also
            with a text in angle brackets.
        idle_actions: Admissible actions that are always available and change nothing. Short prompts
            leave these actions out.
        generated: Whether each ``seed`` generates a complete and different set of tasks.
        waits: Whether steps and resets wait for a network. Such environments run in parallel
            threads.
        isolation: ``process`` if the environment plays in a child process that can be killed, for
            native libraries; see `trca.envs.isolated`. Else ``none``.
        split: Name of the split that provides the tasks.
        max_steps: The step limit.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (Gymnasium's own convention)
    env_id: str = ""
    adapter_class: ClassVar[type[Adapter] | None] = None
    library: ClassVar[str | Path | None] = None
    default_split: ClassVar[str] = "train"
    tiny_policy: ClassVar[Mapping[str, Any]] = {}
    language: ClassVar[tuple[str, ...] | None] = None
    open_actions: ClassVar[frozenset[str]] = frozenset()
    idle_actions: ClassVar[frozenset[str]] = frozenset()
    generated: bool = False
    waits: bool = False
    isolation: ClassVar[str] = "none"
    split: str
    max_steps: int

    def __init__(
        self, split: str = "train", max_steps: int = 25, render_mode: str | None = None
    ) -> None:
        """Sets split and step limit. In render mode ``ansi``, ``render`` returns the transcript.

        Raises:
            ValueError: For a step limit that is not 1, 2, ..., or an unknown render mode.
        """
        given: Any = max_steps
        if isinstance(given, bool) or not isinstance(given, Integral) or max_steps < 1:
            raise ValueError(f"max_steps is {max_steps!r}: give a whole number from 1 on")
        if render_mode not in (None, "ansi"):
            raise unknown("render mode", render_mode, ("ansi",))
        self.observation_space = AnyText()
        self.action_space = AnyText()
        self.split = split
        self.max_steps = max_steps
        self.render_mode = render_mode
        self._task_id = ""
        self._steps = 0
        self._over = False
        self._transcript: list[tuple[str, str, Sequence[str]]] = []
        self._followed = 0
        self._adapter = self.adapter_class() if self.adapter_class else None

    @property
    @abstractmethod
    def task_ids(self) -> tuple[str, ...]:
        """The task ids of the split, in panel order."""

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        """Starts a task and returns the first observation.

        Args:
            task_id: One of `task_ids`, or the unchecked value of ``options["task"]``.
            options: All options of ``reset``. Training adds its ``progress``, from 0 to 1.

        Raises:
            ValueError: If the split has no such task.
        """
        raise NotImplementedError(f"{type(self).__name__} has no start_task()")

    def take_action(self, action: str) -> Outcome:
        """Carries out an action; any string is legal."""
        raise NotImplementedError(f"{type(self).__name__} has no take_action()")

    @property
    def instruction(self) -> str:
        """The current task in words, as the agent may see it."""
        raise NotImplementedError(f"{type(self).__name__} has no instruction")

    @property
    def task_type(self) -> str:
        """Type of the current task, for grouping results. Default: one type for all tasks."""
        return "task"

    @property
    def admissible_actions(self) -> list[str]:
        """The admissible actions now, in the environment's order; may be empty."""
        return []

    def episode_measures(self) -> dict[str, float]:
        """Further metrics at the end of an episode, by name."""
        return {}

    def gold(self, task_id: str) -> Gold:
        """The hidden truth of a task, for credit rules that declare this input.

        ``info`` contains no part of it.
        """
        raise MissingPartError(f"{type(self).__name__} has no gold(task_id)")

    def oracle_action(self) -> str:
        """The next action of a solution that uses the hidden truth; for checks only."""
        raise MissingPartError(f"{type(self).__name__} has no oracle_action()")

    def demonstrator_action(self) -> str:
        """A sensible next action, chosen from the observations so far without hidden truth.

        The tiny policy imitates these actions. The method must work after any sequence of actions.
        """
        raise MissingPartError(
            f"{type(self).__name__} has no demonstrator_action() to imitate: add one, or name a"
            " model instead of tiny"
        )

    def demonstrator_subgoal(self) -> str:
        """The subgoal of `demonstrator_action` in a few words; by default its first word.

        The tiny policy learns subgoals from this method if the response format has a plan.
        """
        verb = re.match(r"[^\W\d_]+", self.demonstrator_action())
        return verb[0] if verb else "act"

    def random_action(self, rng: np.random.Generator) -> str:
        """An admissible action, drawn uniformly. Override this method to fill in blanks."""
        admissible = self.admissible_actions
        return admissible[int(rng.integers(len(admissible)))] if admissible else UNPARSED

    @classmethod
    def prefetch(cls, pairs: Sequence[tuple[TextEnv, str]]) -> None:
        """Prepares the next steps of several environments together, such as one batch of searches.

        The rollout loop passes the environments of this class with their next actions. The method
        must not change the result of a step.
        """

    @classmethod
    def draw_turns(cls, instruction: str, turns: Sequence[Turn]) -> Sequence[Drawing]:
        """Draws the turns of a recorded episode for ``trca view``. Default: no drawings.

        The method is a class method: it reads recorded text, and no environment plays. The page
        shows an exception as a note.

        Args:
            instruction: The instruction of the task.
            turns: Each action with the observation after it; the first action is empty.

        Returns:
            A drawing for each turn: a list of `trca.envs.drawing.Cell`, which are dictionaries.
            Empty for no drawings.
        """
        return ()

    @property
    def panel(self) -> Panel:
        """The task ids of the split as a panel, with its hash."""
        return Panel(self.env_id or type(self).__name__, self.split, self.task_ids)

    @property
    def adapter(self) -> Any:
        """The adapter of this environment, which has followed the episode up to now.

        Rubric annotation, demonstrator and oracle share one adapter. The adapter reads the
        instruction, observations, actions and admissible actions. It catches up with the transcript
        on access.

        Raises:
            MissingPartError: If the class declares no `adapter_class`.
        """
        adapter = self._adapter
        if adapter is None:
            raise MissingPartError(f"{type(self).__name__} declares no adapter_class")
        self._check_started()
        for action, observation, admissible in self._transcript[self._followed :]:
            if self._followed:
                adapter.step(action, observation, admissible)
            else:
                adapter.reset(self.instruction, observation, admissible)
            self._followed += 1
        return adapter

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts the task ``options["task"]``, or a task drawn uniformly from the split.

        Args:
            seed: Seed of the generator that draws tasks.
            options: ``{"task": task_id}``, or None.

        Raises:
            TypeError: If the observation is not a string.
            ValueError: If the split has no such task. The message names the nearest task id.
        """
        super().reset(seed=seed)
        options = options or {}
        task_id = options.get("task")
        if task_id is None:
            task_id = self.task_ids[int(self.np_random.integers(len(self.task_ids)))]
        observation = self.start_task(task_id, options)
        self._check_observation(observation)
        self._task_id = str(task_id)
        self._steps = 0
        self._over = False
        admissible = self.admissible_actions
        self._transcript = [("", observation, admissible)]
        self._followed = 0
        return observation, dict(self._info(admissible))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carries out an action. Any string is legal; an empty string is an unreadable response.

        An action with control characters or surrogates counts as empty (`as_action`).

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset`` and after the end of an episode.
            TypeError: If action or observation is not a string.
            ValueError: If reward or score is not finite.
        """
        self._check_started()
        if self._over:
            raise ResetNeeded("the episode is over: call reset() to start another")
        action = self._as_action(action)
        outcome = self.take_action(action)
        observation, reward, terminated, truncated, accepted, won, score, milestone, rewards = (
            outcome
        )
        self._check_observation(observation)
        score = reward if score is None else score
        if not (math.isfinite(reward) and math.isfinite(score)):
            raise ValueError(
                f"{self.env_id or type(self).__name__} gave reward {reward} and score {score}:"
                " both must be finite"
            )
        if rewards is not None and not all(map(math.isfinite, rewards.values())):
            raise ValueError(
                f"{self.env_id or type(self).__name__} gave the roles' rewards {dict(rewards)}: all"
                " must be finite"
            )
        self._steps += 1
        admissible = self.admissible_actions
        self._transcript.append((action, observation, admissible))
        truncated = not terminated and (truncated or self._steps == self.max_steps)
        self._over = terminated or truncated
        info = self._info(admissible)
        info["parsed"], info["accepted"] = bool(action.strip()), accepted
        info["won"] = terminated and reward > 0 if won is None else won
        info["score"] = score
        if milestone is not None:
            info["milestone"] = bool(milestone)
        if rewards is not None:
            info["rewards"] = {role: float(each) for role, each in rewards.items()}
        if self._over and (measures := self.episode_measures()):
            info["measures"] = measures
        return observation, reward, terminated, truncated, dict(info)

    def render(self) -> str | None:  # type: ignore[override]
        """The transcript of the episode as text, in render mode ``ansi``."""
        if self.render_mode is None:
            return None
        return "\n\n".join(
            f"> {action}\n{observation}" if turn else observation
            for turn, (action, observation, _) in enumerate(self._transcript)
        )

    def _as_action(self, action: str) -> str:
        """The action that is carried out, and that the adapter reads."""
        return as_action(action, self._transcript[-1][2])

    def _check_started(self) -> None:
        if not self._task_id:
            raise ResetNeeded("no task was started: call reset() first")

    def _check_observation(self, observation: object) -> None:
        if not isinstance(observation, str):
            raise TypeError(
                f"{self.env_id or type(self).__name__} gave the observation {observation!r:.80}:"
                " an observation is a string"
            )

    def _info(self, admissible: Sequence[str]) -> TextInfo:
        return TextInfo(
            task_id=self._task_id,
            split=self.split,
            task_type=self.task_type,
            task=self.instruction,
            admissible_actions=list(admissible),
        )
