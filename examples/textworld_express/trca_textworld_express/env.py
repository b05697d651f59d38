"""CookingWorld of TextWorldExpress: find a recipe, its ingredients and tools, cook, and eat.

trca play trca_textworld_express.env:CookingWorld --set rooms=3 --set ingredients=2 --check
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from trca.envs import Outcome, TextEnv
from trca.envs.panel import no_task
from trca.envs.text_env import OracleError
from trca_textworld_express.adapter import CookingAdapter
from trca_textworld_express.demonstrator import next_action
from trca_textworld_express.reading import refused, write_page
from trca_textworld_express.simulator import Simulator, Turn
from trca_textworld_express.tasks import task_ids

FORMS: Final = (
    "look around",
    "inventory",
    "prepare meal",
    "move <direction>",
    "open door to <direction>",
    "close door to <direction>",
    "open <container>",
    "close <container>",
    "examine <thing>",
    "read <thing>",
    "take <thing>",
    "put <thing> in <place>",
    "chop <thing>",
    "slice <thing>",
    "dice <thing>",
    "cook <thing> in <appliance>",
    "eat <thing>",
)
"""The forms of all actions, which are the same in every state. Short prompts leave them out."""


class CookingWorld(TextEnv):
    """CookingWorld of TextWorldExpress 1.1.0 (Jansen and Côté, 2022).

    A cookbook in the kitchen lists ingredients and directions. The agent finds the ingredients and
    a knife, cuts and cooks as directed, prepares the meal in the kitchen and eats it. A wrong cut,
    a wrong way of cooking, or an ingredient that is eaten ends the task without success. An
    observation has the answer to the action, the room and the inventory. Admissible actions are the
    benchmark's forms; the list of the actions that are valid now is not shown, because it tells
    when the meal can be prepared. The reward is 1 for the meal; ``score`` is the benchmark's score.
    """

    env_id = "textworld_express/CookingWorld-v0"
    adapter_class = CookingAdapter
    library = Path(__file__).with_name("rubric.yaml")
    default_split = "test"
    waits = True
    language = ("ingredients", "rooms", "doors", "distractors", "limited_inventory")
    open_actions = frozenset(form for form in FORMS if "<" in form)
    idle_actions = frozenset(FORMS)
    tiny_policy = {  # noqa: RUF012
        "hidden_size": 96,
        "layers": 2,
        "feed_forward": 256,
        "deliberate": ("eat", "cook", "chop", "slice", "dice"),
        "max_steps": 30,
        "stages": ((0.2, 1300), (0.3, 200)),
        "warmup": 50,
        "threads": 1,
    }

    def __init__(
        self,
        split: str = "train",
        max_steps: int = 100,
        panel: int | None = None,
        ingredients: int = 3,
        rooms: int = 11,
        doors: bool = True,
        distractors: int = 10,
        limited_inventory: bool = True,
    ) -> None:
        """Chooses the tasks; the first task starts Java. The defaults are the benchmark's.

        Args:
            split: ``train``, ``dev`` or ``test``: the benchmark's folds, of 1,000 seeds each. Of a
                panel ``train`` or ``valid``, of 64 seeds each.
            max_steps: The step limit.
            panel: Number of a panel of seeds outside the folds, with the recipes of the fold
                train; None for the benchmark's folds.
            ingredients: Number of ingredients of a recipe, 1 to 5.
            rooms: Number of rooms, 1 to 11.
            doors: Whether some rooms have doors, which are closed at the start.
            distractors: Number of foods that no recipe needs, 0 to 10.
            limited_inventory: Whether the agent can hold no more than two things besides the
                ingredients.

        Raises:
            ValueError: For an unknown split or a number out of its range.
        """
        super().__init__(split, max_steps)
        ranges = {
            "ingredients": (ingredients, 1, 5),
            "rooms": (rooms, 1, 11),
            "distractors": (distractors, 0, 10),
        }
        for name, (value, lowest, highest) in ranges.items():
            if not lowest <= value <= highest:
                raise ValueError(f"{name} is {value}: give {lowest} to {highest}")
        self._task_ids = task_ids(split, panel)
        self._simulator = Simulator(
            f"numLocations={rooms},numIngredients={ingredients},numDistractorItems={distractors},"
            f"includeDoors={doors:d},limitInventorySize={limited_inventory:d}"
        )
        self._task: tuple[int, str] = (0, "")

    @property
    def task_ids(self) -> tuple[str, ...]:
        return self._task_ids

    @property
    def instruction(self) -> str:
        return self._instruction

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        if task_id not in self._task_ids:
            raise no_task(task_id, self.split, self._task_ids)
        fold, _, seed = task_id.partition("/")
        self._task = (int(seed), fold)
        turn = self._simulator.start(*self._task)
        self._instruction = self._simulator.instruction()
        self._gold: tuple[str, ...] | None = None
        self._actions: list[str] = []
        return self._observed(turn)

    def take_action(self, action: str) -> Outcome:
        action = " ".join(action.split())
        self._actions.append(action)
        turn = self._simulator.act(action)
        return Outcome(
            self._observed(turn),
            reward=float(turn.won),
            terminated=turn.won or turn.lost,
            accepted=not refused(turn.answer),
            won=turn.won,
            score=turn.score,
        )

    @property
    def admissible_actions(self) -> list[str]:
        return list(FORMS)

    def random_action(self, rng: np.random.Generator) -> str:
        """One of the benchmark's valid actions."""
        return str(rng.choice(self._turn.valid))

    def oracle_action(self) -> str:
        """The next action of the benchmark's own solution, which starts in the first state.

        Raises:
            OracleError: After an action that is not the solution's.
        """
        if self._gold is None:
            self._gold = self._simulator.gold(*self._task)
            for action in self._actions:
                self._simulator.act(action)
        step = len(self._actions)
        if tuple(self._actions) != self._gold[:step]:
            raise OracleError("the oracle knows a solution from the first state only: reset first")
        return self._gold[step] if step < len(self._gold) else "look around"

    def demonstrator_action(self) -> str:
        return next_action(self.adapter)

    def close(self) -> None:
        self._simulator.close()

    def _observed(self, turn: Turn) -> str:
        self._turn = turn
        return write_page(turn.answer, turn.look, turn.inventory)
