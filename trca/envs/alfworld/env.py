"""`ALFWorldEnv`: household tasks in text, as a Gymnasium environment.

For example::

    env = gymnasium.make("trca.envs:trca/ALFWorld-v0", games="small", split="train")
    observation, info = env.reset(options={"task": "small/train/heat-0012"})
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gymnasium.error import ResetNeeded

from trca.common.names import unknown
from trca.envs.alfworld.adapter import ALFWorldAdapter
from trca.envs.alfworld.binding import bind
from trca.envs.alfworld.data.games import game_source
from trca.envs.alfworld.demonstrator import demonstrated_action
from trca.envs.alfworld.oracle import oracle_action
from trca.envs.alfworld.pages import REJECTED
from trca.envs.alfworld.simulator import Simulator
from trca.envs.task_env import TaskEnv
from trca.envs.text_env import TextInfo

ENV_ID: Final = "trca/ALFWorld-v0"


class ALFWorldEnv(TaskEnv):
    """One household task an episode, played by ALFWorld's own rules with its own text.

    Observations, admissible commands and success are those of ALFWorld 0.4.2. Commands are exact:
    a command is carried out when it is one of ``info["admissible_actions"]``; anything else is
    answered ``Nothing happens.`` and costs a step. An episode ends with success (``terminated``,
    reward 1) or after ``max_steps`` (``truncated``).

    Attributes:
        source: Where the games come from.
        split: Name of the split the tasks come from.
        max_steps: The step limit.
    """

    env_id = ENV_ID

    def __init__(
        self,
        games: str = "small",
        split: str = "train",
        max_steps: int = 25,
        task_types: Iterable[str] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Chooses the tasks.

        Args:
            games: ``small``, ``medium`` or ``large`` for generated games, ``official``, or the path
                of a folder or archive of official games (see `games.game_source`).
            split: ``train``, ``valid_seen`` or ``valid_unseen`` (official games: or
                ``valid_train``).
            max_steps: The step limit.
            task_types: Only these types of tasks, of Pick, Look, Clean, Heat, Cool and Pick2; None
                for the usual ones of the games.
            render_mode: ``ansi`` lets ``render`` return the episode so far as text.

        Raises:
            ValueError: When one of the names is unknown; lists the known ones.
            GameFileError: When there are no games at the path.
        """
        super().__init__(split, max_steps, render_mode)
        if max_steps < 1:
            raise ValueError(f"max_steps is {max_steps}: give 1 or more")
        if render_mode not in (None, "ansi"):
            raise unknown("render mode", render_mode, ("ansi",))
        self.source = game_source(games)
        self._task_ids = self.source.task_ids(split, task_types)
        self._known = frozenset(self._task_ids)
        self._task_type = ""
        self._simulator: Simulator | None = None
        self._adapter = ALFWorldAdapter()

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The tasks of the split, in panel order."""
        return self._task_ids

    @property
    def admissible_actions(self) -> list[str]:
        """The commands the world would accept now, in its order."""
        return list(self._playing().admissible_commands)

    def oracle_action(self) -> str:
        """The next action on a way to success, by the true state of the game.

        For proofs, checks and demonstrations; nothing of it reaches ``info``.
        """
        simulator = self._playing()
        return oracle_action(bind(simulator.game.task), simulator)

    def heuristic_action(self) -> str:
        """A sensible next command from what an agent could have observed so far.

        It copes with whatever was done before, so a demonstrator may mix it with other actions.
        """
        adapter = self._adapter
        self._follow(adapter)
        return demonstrated_action(adapter.binding, adapter.beliefs, self._record[-1][2])

    def _start(self, task_id: Any, options: dict[str, Any]) -> str:
        if task_id not in self._known:
            raise unknown(f"task of split {self.split!r}", task_id, self._task_ids)
        self._task_type = self.source.task_type(task_id)
        self._simulator = Simulator(self.source.load(task_id))
        return self._simulator.reset()

    def _carry_out(self, action: str) -> tuple[str, float, bool, TextInfo]:
        simulator = self._playing()
        observation = simulator.step(action)
        score = float(simulator.won)
        outcome = TextInfo(accepted=observation != REJECTED, won=simulator.won, score=score)
        return observation, score, simulator.done, outcome

    def _described(self) -> tuple[str, str]:
        return self._task_type, self._playing().game.task

    def _playing(self) -> Simulator:
        if self._simulator is None:
            raise ResetNeeded("no task was started: call reset() first")
        return self._simulator
