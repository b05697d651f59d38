"""ScienceWorld as a text environment: 30 task types of elementary science in a simulated house.

trca play trca_scienceworld.env:ScienceWorld --set types=[find-plant] --check
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from trca.envs import Outcome, TextEnv
from trca.envs.panel import no_task
from trca.envs.text_env import OracleError
from trca_scienceworld.adapter import ScienceAdapter
from trca_scienceworld.demonstrator import next_action
from trca_scienceworld.reading import choices, refused, write_page
from trca_scienceworld.simulator import Simulator, Turn
from trca_scienceworld.tasks import VARIATIONS, task_ids

LONGEST_ACTION: Final = 300
"""Characters of the longest action that reaches the simulator, whose parser is slow."""
UNKNOWN: Final = "No known action matches that input."
"""The simulator's answer to an action that it does not know."""
FORMS: Final = frozenset(
    """activate <object>, close <object>, connect <object> to <object>, deactivate <object>,
    disconnect <object>, dunk <object> in <object>, eat <object>, flush <object>, focus on <object>,
    go <object>, inventory, look around, look at <object>, look in <object>, mix <object>,
    move <object> to <object>, open <object>, pick up <object>, pour <object> in <object>,
    put down <object>, read <object>, reset task, task, teleport <object>, use <object> on <object>,
    wait, wait1""".replace("\n    ", " ").split(", ")
)
"""The forms of all actions, which are the same in every state. Short prompts leave them out."""


class ScienceWorld(TextEnv):
    """ScienceWorld 1.2.3 (Wang et al., 2022): experiments in a house of ten rooms.

    An observation has the answer to the action, the room and the inventory, which the benchmark
    shows at no cost in time. Admissible actions are the benchmark's forms, such as
    ``move <object> to <object>``. After an ambiguous action the numbers of the choices are
    admissible. The reward is 1 for the full score of 100 points; ``score`` is the benchmark's
    score between 0 and 1. A wrong focus ends the task with a score of 0.
    """

    env_id = "scienceworld/ScienceWorld-v0"
    adapter_class = ScienceAdapter
    library = Path(__file__).with_name("rubric.yaml")
    default_split = "test"
    isolation = "process"
    waits = True
    language = ("types", "simplifications")
    idle_actions = FORMS
    tiny_policy = {"deliberate": ("focus",), "max_steps": 20, "stages": ((0.3, 600),)}  # noqa: RUF012

    def __init__(
        self,
        split: str = "train",
        max_steps: int = 100,
        types: Sequence[str] | None = None,
        per_type: int | None = None,
        simplifications: str = "easy",
    ) -> None:
        """Chooses the tasks; the first task starts Java.

        Args:
            split: ``train``, ``dev`` or ``test``.
            max_steps: The step limit.
            types: Task types, such as ``find-plant``; None for all.
            per_type: Largest number of variations of a type; None for all.
            simplifications: The benchmark's simplifications, separated by commas; empty for none.

        Raises:
            ValueError: For an unknown split or task type, or without any task.
        """
        super().__init__(split, max_steps)
        self._task_ids = task_ids(tuple(VARIATIONS if types is None else types), split, per_type)
        if not self._task_ids:
            raise ValueError(f"types is {types!r} and per_type is {per_type}: no task is left")
        self._simplifications = simplifications
        self._simulator = Simulator()
        self._task: tuple[str, int] = ("", 0)
        self._gold: tuple[str, ...] | None = None
        self._actions: list[str] = []

    @property
    def task_ids(self) -> tuple[str, ...]:
        return self._task_ids

    @property
    def instruction(self) -> str:
        return self._instruction

    @property
    def task_type(self) -> str:
        return self._task[0]

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        if task_id not in self._task_ids:
            raise no_task(task_id, self.split, self._task_ids)
        name, _, number = task_id.partition("/")
        self._task = (name, int(number))
        self._instruction = self._simulator.load(*self._task, self._simplifications)
        self._gold, self._actions = None, []
        return self._observed(self._simulator.act("look around"))

    def take_action(self, action: str) -> Outcome:
        known = len(action) <= LONGEST_ACTION
        self._actions.append(action)
        turn = self._simulator.act(" ".join(action.split())) if known else self._turn
        if not known:
            turn = turn._replace(answer=UNKNOWN)
        won = turn.score >= 1.0
        return Outcome(
            self._observed(turn),
            reward=float(won),
            terminated=turn.completed or turn.score < 0,
            accepted=bool(action.strip()) and not refused(turn.answer),
            won=won,
            score=max(0.0, turn.score),
        )

    @property
    def admissible_actions(self) -> list[str]:
        return choices(self._turn.answer) or list(self._forms)

    def random_action(self, rng: np.random.Generator) -> str:
        """An admissible action with random visible objects."""
        action = str(rng.choice(self.admissible_actions))
        objects = self._simulator.objects()
        while "<object>" in action:
            action = action.replace("<object>", str(rng.choice(objects)), 1)
        return action

    def oracle_action(self) -> str:
        """The next action of the benchmark's own solution, which starts in the first state.

        Raises:
            OracleError: After an action that is not the solution's.
        """
        if self._gold is None:
            self._gold = self._simulator.gold(*self._task, self._simplifications)
            for action in ("look around", *self._actions):
                self._simulator.act(action)
        step = len(self._actions)
        if tuple(self._actions) != self._gold[:step]:
            raise OracleError("the oracle knows a solution from the first state only: reset first")
        return self._gold[step] if step < len(self._gold) else "wait1"

    def demonstrator_action(self) -> str:
        return next_action(self.adapter)

    def close(self) -> None:
        self._simulator.close()

    def _observed(self, turn: Turn) -> str:
        self._turn = turn
        if not choices(turn.answer):
            self._forms = [form(action) for action in self._simulator.actions()]
        return write_page(*turn[:3])


def form(action: str) -> str:
    """An action form of the simulator with blanks: ``go OBJ`` becomes ``go <object>``."""
    return action.replace("OBJ", "<object>")
