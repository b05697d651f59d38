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
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypedDict

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from trca.common.names import unknown
from trca.envs.adapter import Adapter
from trca.envs.panel import Panel
from trca.envs.text_space import AnyText

UNPARSED: Final = ""
"""The action that stands for a response from which no action could be read."""

DEFAULT_AGENT: Final = "default_agent"
"""Id of the agent of an episode with one agent (RLlib's name)."""

BLANK: Final = re.compile("<[^<>]+>")
"""What an admissible action leaves to the agent to write, as in ``search[<your query>]``."""


class MissingPartError(NotImplementedError, ValueError):
    """An environment lacks an optional part that was asked for; says which."""


class RubricInfo(TypedDict):
    """What the rubric says of one transition (Appendix C of the paper)."""

    judgments: NDArray[np.uint8]
    """uint8 (M,), read-only: one 0/1 per operator, in the order of the library."""
    foundational: float
    """r^F of this transition under the environment's budgets."""
    breakthrough: float
    """r^B of this transition."""
    reward: float
    """r^TRCA = (1 - lambda) r^F + lambda r^B."""
    fired: tuple[str, ...]
    """The ids of the operators whose judgment is 1."""


class TextInfo(TypedDict, total=False):
    """The documented keys of ``info``; those from ``next_context`` on are absent after ``reset``.

    `trca.envs.make` adds ``context``, ``memory`` and ``next_context``; ``facts`` where the
    environment has an adapter; ``rubric`` where it has a rubric library too.
    """

    task_id: str
    split: str
    task_type: str
    task: str
    """The instruction in words, as the agent may see it."""
    admissible_actions: list[str]
    """The actions that would be accepted now, in the environment's order; may be empty."""
    context: str
    """Structural key s~ of the state *before* the action (after ``reset``: of the first state)."""
    memory: str
    """One short line of what the agent has observed so far; may be blank."""
    next_context: str
    """Structural key of the state after the action."""
    facts: Any
    """The adapter's facts of this transition, a frozen dataclass."""
    parsed: bool
    """False when the action is `UNPARSED` (blank)."""
    accepted: bool
    """Whether the environment carried the action out."""
    won: bool
    score: float
    measures: dict[str, float]
    """What else is measured at the end of an episode, by name; absent before."""
    rubric: RubricInfo
    agent: str
    """In a team, the role whose turn it is."""
    brief: str
    """In a team, the prompt of that role."""
    closed: tuple[Any, ...]
    """In a team, the transitions that ended (`trca.envs.teams.env.RoleTransition`)."""


class Outcome(NamedTuple):
    """What an action led to.

    Attributes:
        observation: The answer to the action.
        reward: The sparse reward r_{i,t}: 1 on success, else 0.
        terminated: Whether the task has come to its end.
        truncated: Whether the episode is cut off, before the step limit.
        accepted: Whether the action was carried out.
        won: Whether the task is completed; by default, whether it ended with a reward.
        score: How well the task is done, from 0 to 1; by default the reward.
    """

    observation: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    accepted: bool = True
    won: bool | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Gold:
    """The hidden truth of a task.

    Attributes:
        answers: The right answer and its aliases.
        passages: Texts that support it, in the order to read them; none where they are not known.
        answer_actions: The actions that state the answers; none where an answer is not an action.
    """

    answers: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    answer_actions: tuple[str, ...] = ()


class TextEnv(gymnasium.Env[str, str], ABC):
    """The base class of text environments: strings in, strings out, one task an episode.

    An environment writes `task_ids`, `start_task`, `take_action`, `instruction` and
    `admissible_actions`; this class draws tasks, counts steps, keeps the transcript and fills
    ``info``. The class attributes declare what others need to know, so that nothing else has to
    name the environment; each has a default that asks for nothing. ``trca.envs.register`` gives it
    a Gymnasium id, and ``trca.envs.make`` makes it by that id, by class, or as
    ``path/to/file.py:Class``.

    ``reset(seed=..., options={"task": task_id})`` starts a named task; without the option a task is
    drawn evenly from the split with the environment's own generator. ``step(action)`` takes *any*
    string: garbage is answered by the environment, never by an exception. ``terminated`` is the
    task's end, ``truncated`` the step limit. The reward is sparse: 1 on success, else 0. ``info``
    holds the keys of `TextInfo`. The same task and actions give the same transcript; an exception
    in `start_task` or `take_action` makes the rollout missing, not a failure of the agent.

    Attributes:
        env_id: Gymnasium id; panels and their hashes name it. By default the name of the class.
        adapter_class: The `Adapter` that turns transcripts into facts; None leaves the observation
            as context, and no rubric can judge.
        library: Name or path of the rubric library that judges by default; None for none.
        default_split: The split that is played and evaluated where none is named.
        tiny_policy: Changes to the recipe of the tiny policy, by field of
            `trca.policies.tiny.TinySpec`.
        language: Names of the arguments that change what is said in the environment, such as the
            tasks or their wording; the tiny policy is built anew for these alone. None for all but
            ``split``, ``max_steps`` and ``render_mode``.
        idle_actions: Admissible actions that are always there and change nothing; short prompts
            leave them out.
        generated: Whether another ``seed`` gives other content, complete in itself.
        waits: Whether steps and resets wait on a network; such environments take theirs side by
            side, in threads.
        split: Name of the split the tasks come from.
        max_steps: The step limit.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (Gymnasium's own convention)
    env_id: str = ""
    adapter_class: ClassVar[type[Adapter] | None] = None
    library: ClassVar[str | Path | None] = None
    default_split: ClassVar[str] = "train"
    tiny_policy: ClassVar[Mapping[str, Any]] = {}
    language: ClassVar[tuple[str, ...] | None] = None
    idle_actions: ClassVar[frozenset[str]] = frozenset()
    generated: bool = False
    waits: bool = False
    split: str
    max_steps: int

    def __init__(
        self, split: str = "train", max_steps: int = 25, render_mode: str | None = None
    ) -> None:
        """Prepares to play.

        Args:
            split: Name of the split the tasks come from.
            max_steps: The step limit.
            render_mode: ``ansi`` lets ``render`` return the episode so far as text.

        Raises:
            ValueError: For a step limit below 1 or an unknown render mode.
        """
        if max_steps < 1:
            raise ValueError(f"max_steps is {max_steps}: give 1 or more")
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
        """The tasks of the split, in panel order."""

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        """Starts a task and returns the first observation.

        Args:
            task_id: One of `task_ids`, or what the caller of ``reset`` took for one.
            options: All options of ``reset``; training tells its ``progress`` from 0 to 1.

        Raises:
            ValueError: When the split has no such task.
        """
        raise NotImplementedError(f"{type(self).__name__} has no start_task()")

    def take_action(self, action: str) -> Outcome:
        """Carries an action out; any string is legal."""
        raise NotImplementedError(f"{type(self).__name__} has no take_action()")

    @property
    def instruction(self) -> str:
        """The present task in words, as the agent may see it."""
        raise NotImplementedError(f"{type(self).__name__} has no instruction")

    @property
    def task_type(self) -> str:
        """The kind of the present task, by which results are grouped; by default all are alike."""
        return "task"

    @property
    def admissible_actions(self) -> list[str]:
        """The actions that would be accepted now, in the environment's order; may be empty."""
        return []

    def episode_measures(self) -> dict[str, float]:
        """What else is measured at the end of an episode, by name."""
        return {}

    def gold(self, task_id: str) -> Gold:
        """The hidden truth of a task, for credit rules that say that they read it.

        Nothing of it reaches ``info``.
        """
        raise MissingPartError(f"{type(self).__name__} has no gold(task_id)")

    def oracle_action(self) -> str:
        """The next action on a way to success, by the hidden truth: for checks alone."""
        raise MissingPartError(f"{type(self).__name__} has no oracle_action()")

    def demonstrator_action(self) -> str:
        """A sensible next action from what an agent could have observed so far.

        The tiny policy learns from it by imitation. It copes with whatever was done before.
        """
        raise MissingPartError(
            f"{type(self).__name__} has no demonstrator_action() to imitate: add one, or name a"
            " model instead of tiny"
        )

    def demonstrator_subgoal(self) -> str:
        """What `demonstrator_action` is for, in a few words; by default its first word.

        The tiny policy learns from it where responses have a plan.
        """
        verb = re.match(r"[^\W\d_]+", self.demonstrator_action())
        return verb[0] if verb else "act"

    def random_action(self, rng: np.random.Generator) -> str:
        """One of the admissible actions, drawn evenly; override it to fill blanks."""
        admissible = self.admissible_actions
        return admissible[int(rng.integers(len(admissible)))] if admissible else UNPARSED

    @classmethod
    def prefetch(cls, pairs: Sequence[tuple[TextEnv, str]]) -> None:
        """Prepares the steps of a turn together, such as searches as one batch.

        The rollout loop calls it with the environments of this class and the actions they are
        about to take. It changes nothing that a step returns.
        """

    @property
    def panel(self) -> Panel:
        """The tasks as a panel, with its hash."""
        return Panel(self.env_id or type(self).__name__, self.split, self.task_ids)

    @property
    def adapter(self) -> Any:
        """The one adapter of this environment; it has followed the episode up to now.

        Rubric annotation, demonstrator and oracle share it. It sees the instruction, observations,
        admissible actions and actions, and follows when it is asked for.

        Raises:
            MissingPartError: When the class declares no `adapter_class`.
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
        """Starts a task: the one in ``options["task"]``, else one drawn evenly from the split.

        Args:
            seed: Seeds the drawing of tasks.
            options: ``{"task": task_id}``, or nothing.

        Raises:
            ValueError: When the split has no such task; names the nearest one.
        """
        super().reset(seed=seed)
        options = options or {}
        task_id = options.get("task")
        if task_id is None:
            task_id = self.task_ids[int(self.np_random.integers(len(self.task_ids)))]
        observation = self.start_task(task_id, options)
        self._task_id = str(task_id)
        self._steps = 0
        self._over = False
        admissible = self.admissible_actions
        self._transcript = [("", observation, admissible)]
        self._followed = 0
        return observation, dict(self._info(admissible))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carries an action out; any string is legal, and blank means that none could be read.

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset`` and after the end of an episode.
            ValueError: When reward or score is no finite number.
        """
        self._check_started()
        if self._over:
            raise ResetNeeded("the episode is over: call reset() to start another")
        outcome = self.take_action(action)
        observation, reward, terminated, truncated, accepted, won, score = outcome
        score = reward if score is None else score
        if not (math.isfinite(reward) and math.isfinite(score)):
            raise ValueError(
                f"{self.env_id or type(self).__name__} gave reward {reward} and score {score}:"
                " both must be finite"
            )
        self._steps += 1
        admissible = self.admissible_actions
        self._transcript.append((action, observation, admissible))
        truncated = not terminated and (truncated or self._steps == self.max_steps)
        self._over = terminated or truncated
        info = self._info(admissible)
        info["parsed"] = bool(action.strip())
        info["accepted"] = accepted
        info["won"] = terminated and reward > 0 if won is None else won
        info["score"] = score
        if self._over and (measures := self.episode_measures()):
            info["measures"] = measures
        return observation, reward, terminated, truncated, dict(info)

    def render(self) -> str | None:  # type: ignore[override]
        """The episode so far as text, in render mode ``ansi``."""
        if self.render_mode is None:
            return None
        return "\n\n".join(
            f"> {action}\n{observation}" if turn else observation
            for turn, (action, observation, _) in enumerate(self._transcript)
        )

    def _check_started(self) -> None:
        if not self._task_id:
            raise ResetNeeded("no task was started: call reset() first")

    def _info(self, admissible: Sequence[str]) -> TextInfo:
        return TextInfo(
            task_id=self._task_id,
            split=self.split,
            task_type=self.task_type,
            task=self.instruction,
            admissible_actions=list(admissible),
        )
