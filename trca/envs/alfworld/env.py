"""`ALFWorldEnv`: household tasks in text, as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from trca.envs.alfworld.adapter import ALFWorldAdapter
from trca.envs.alfworld.data.sources import game_source
from trca.envs.alfworld.drawing import draw_room
from trca.envs.alfworld.pages import REJECTED
from trca.envs.alfworld.players import (
    demonstrated_action,
    demonstrated_subgoal,
    oracle_action,
    walkthrough,
)
from trca.envs.alfworld.simulator import Simulator
from trca.envs.drawing import Drawing, Turn
from trca.envs.panel import Tasks
from trca.envs.text_env import Gold, Outcome, TextEnv

ENV_ID: Final = "trca/ALFWorld-v0"


class ALFWorldEnv(TextEnv):
    """One household task per episode, with ALFWorld's rules and text.

    Observations, admissible actions and success equal ALFWorld 0.4.2. An action must be one of
    ``info["admissible_actions"]``; spaces around the action do not count. The answer to any other
    action is ``Nothing happens.``, and the action costs a step. An episode ends with success
    (``terminated``, reward 1) or after ``max_steps`` (``truncated``).

    Attributes:
        source: The source of the games.
    """

    env_id = ENV_ID
    adapter_class = ALFWorldAdapter
    library = "alfworld"
    default_split = "valid_seen"
    tiny_policy: ClassVar = {"max_steps": 16}
    language = ("games", "task_types")
    idle_actions = frozenset({"help", "inventory", "look"})
    _simulator: Simulator

    def __init__(
        self,
        games: str = "small",
        split: str = "train",
        max_steps: int = 25,
        task_types: Iterable[str] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Selects the tasks.

        Args:
            games: ``small``, ``medium`` or ``large`` for generated games; ``small-SEED``, such as
                ``small-7``: as ``small``, of another seed; ``official``, or the path of a folder or
                archive of official games (see `sources.game_source`). For all games except
                ``small`` the first run with ``model: tiny`` builds the tiny policy of the games, in
                minutes.
            split: ``train``, ``valid_seen`` or ``valid_unseen``. Official games also have
                ``valid_train``.
            max_steps: The step limit.
            task_types: Task types to include: Pick, Look, Clean, Heat, Cool or Pick2. None for the
                default types of the games.
            render_mode: With ``ansi``, ``render`` returns the transcript of the episode as text.

        Raises:
            ValueError: For an unknown name. The message lists the known names.
            GameFileError: If there are no games at the path.
        """
        super().__init__(split, max_steps, render_mode)
        self.source = game_source(games)
        task_ids = self.source.task_ids(split, task_types)
        self._tasks = Tasks(split, {each: self.source.task_type(each) for each in task_ids})
        self._task_type = ""

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The task ids of the split, in panel order."""
        return self._tasks.ids

    @property
    def admissible_actions(self) -> list[str]:
        """The admissible actions now, in ALFWorld's order."""
        return list(self._playing().admissible_actions)

    def gold(self, task_id: str) -> Gold:
        """The walkthrough of the game file; the oracle's actions for a generated game."""
        self._tasks.find(task_id)
        return Gold(walkthrough=walkthrough(self.source.load(task_id)))

    def oracle_action(self) -> str:
        """The next action of a way to success, from the true state of the game."""
        return oracle_action(self._playing())

    def demonstrator_action(self) -> str:
        """A sensible next action, derived from the agent's observations."""
        adapter = self.adapter
        return demonstrated_action(adapter.binding, adapter.beliefs, self._transcript[-1][2])

    def demonstrator_subgoal(self) -> str:
        """The next milestone of a known plan, such as ``heat mug``, or an object to find."""
        adapter = self.adapter
        return demonstrated_subgoal(adapter.binding, adapter.beliefs)

    @classmethod
    def draw_turns(cls, instruction: str, turns: Sequence[Turn]) -> Sequence[Drawing]:
        """The room as a map: receptacles, their contents, the agent's place and hand."""
        return draw_room(instruction, turns)

    @property
    def instruction(self) -> str:
        """The task in words."""
        return self._playing().game.task

    @property
    def task_type(self) -> str:
        """One of `resources.TASK_TYPES`."""
        return self._task_type

    def start_task(self, task_id: Any, options: dict[str, Any]) -> str:
        """Loads the game of a task."""
        self._task_type = self._tasks.find(task_id)
        self._simulator = Simulator(self.source.load(task_id))
        return self._simulator.reset()

    def take_action(self, action: str) -> Outcome:
        """Carries out an action if it is admissible."""
        simulator = self._playing()
        observation = simulator.step(action)
        won = simulator.won
        return Outcome(
            observation,
            reward=float(won),
            terminated=simulator.done,
            accepted=observation != REJECTED,
            won=won,
        )

    def _playing(self) -> Simulator:
        self._check_started()
        return self._simulator
