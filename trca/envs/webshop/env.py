"""`WebShopEnv`: shopping in a catalogue by an instruction, as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trca.common.names import unknown
from trca.envs.drawing import Drawing, Turn
from trca.envs.text_env import Outcome, TextEnv
from trca.envs.webshop.adapter import WebShopAdapter
from trca.envs.webshop.data.catalogue import Catalogue, Compat
from trca.envs.webshop.data.sources import open_catalogue
from trca.envs.webshop.drawing import draw_shop
from trca.envs.webshop.players import demonstrated_action, oracle_action
from trca.envs.webshop.reading import SEARCH_OFFER
from trca.envs.webshop.simulator import SEARCH, Simulator
from trca.envs.webshop.tasks import make_goals, tasks_of


class WebShopEnv(TextEnv):
    """One purchase per episode, in an independent implementation of WebShop's text environment.

    Actions are ``search[query]`` and ``click[x]``. Any other text leaves the page unchanged and
    costs a step. An episode ends with a purchase (``terminated``) or after ``max_steps``
    (``truncated``). The reward is 1 for a purchase with score 1, else 0; ``info["score"]`` has the
    score. In ``info["admissible_actions"]``, a search is ``search[<your query>]``.

    Attributes:
        catalogue: The products, shared by all environments of a process.
        goals: All goals of the catalogue, in all splits.
    """

    env_id = "trca/WebShop-v0"
    adapter_class = WebShopAdapter
    library = "webshop"
    default_split = "test"
    tiny_policy: ClassVar = {"kv_heads": 4, "mimetic": True, "lr": 3e-3, "max_steps": 10}
    open_actions = frozenset({SEARCH_OFFER})
    language = ("catalogue", "goals", "split_rule", "observation_mode", "compat", "seed")

    def __init__(
        self,
        catalogue: str | Path | Catalogue = "small",
        goals: str = "human",
        split: str = "train",
        split_rule: str = "by-product",
        observation_mode: str = "text",
        compat: Compat = "clean",
        max_steps: int = 15,
        reward: str = "success",
        nouns: str = "simple",
        seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        """Selects the tasks.

        Args:
            catalogue: ``small``, ``medium`` or ``large`` for a generated catalogue; ``small-SEED``,
                such as ``small-7``: as ``small``, of another seed; the path of official files (see
                `catalogue.open_catalogue`), or a `Catalogue`. For all catalogues except ``small``
                the first run with ``model: tiny`` builds the tiny policy of the catalogue, in
                minutes.
            goals: ``human`` or ``synthetic``.
            split: A split of the rule.
            split_rule: ``by-product`` (train, validation, test), ``original`` (train, eval, test)
                or ``verl-agent`` (train, validation); see `tasks.SPLIT_RULES`.
            observation_mode: ``text`` or ``text_rich``.
            compat: ``clean``, or ``original`` with all its quirks; see `compat.Quirks`.
            max_steps: The step limit.
            reward: ``success`` for 1 or 0, ``score`` for the score.
            nouns: ``simple``, ``recorded``, ``spacy`` or ``spacy:<model>``; see `reward`.
            seed: Seed of prices and price bounds; the order of tasks and the splits do not depend
                on it.
            render_mode: With ``ansi``, ``render`` returns the transcript of the episode as text.

        Raises:
            ValueError: For an unknown name. The message lists the known names.
            DataFileError: If there is no such catalogue, or one of its files is broken.
        """
        super().__init__(split, max_steps, render_mode)
        if reward not in ("success", "score"):
            raise unknown("reward", reward, ("success", "score"))
        if isinstance(catalogue, (str, Path)):
            catalogue = open_catalogue(catalogue, seed=seed, compat=compat)
        self.catalogue = catalogue
        self._tasks = tasks_of(catalogue, goals, seed, compat, split_rule, split)
        self.goals = make_goals(catalogue, goals, seed, compat)
        self._simulator = Simulator(catalogue, self.goals, observation_mode, compat, nouns)
        self._by_score = reward == "score"

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The task ids of the split, in panel order."""
        return self._tasks.ids

    @property
    def admissible_actions(self) -> list[str]:
        """The admissible actions on the page: a search first, then clicks in page order."""
        self._check_started()
        simulator = self._simulator
        clicks = [f"click[{name}]" for name in simulator.clickables if name != "search"]
        return [SEARCH_OFFER, *clicks] if simulator.page == SEARCH else clicks

    def oracle_action(self) -> str:
        """The next action of a plan for a purchase with score 1, from the hidden goal."""
        self._check_started()
        return oracle_action(self._simulator)

    def demonstrator_action(self) -> str:
        """A sensible next action, derived from the agent's observations."""
        return demonstrated_action(self.adapter.beliefs, self._transcript[-1][2])

    @classmethod
    def draw_turns(cls, instruction: str, turns: Sequence[Turn]) -> Sequence[Drawing]:
        """The pages of the shop: search box, results, product with its options."""
        return draw_shop(instruction, turns)

    def random_action(self, rng: np.random.Generator) -> str:
        """An admissible action, drawn uniformly. A search gets random words of the instruction."""
        action = super().random_action(rng)
        if action != SEARCH_OFFER:
            return action
        words = self._simulator.goal.instruction.replace(",", " ").split() or ["gift"]
        count = int(rng.integers(1, 7))
        return f"search[{' '.join(words[int(rng.integers(len(words)))] for _ in range(count))}]"

    @property
    def instruction(self) -> str:
        """The instruction: the product to buy, in words."""
        return self._simulator.goal.instruction

    @property
    def task_type(self) -> str:
        """The category of the product."""
        return self._simulator.goal.category

    def start_task(self, task_id: Any, options: dict[str, Any]) -> str:
        """Opens the search page of a task."""
        return self._simulator.reset(self._tasks.find(task_id))

    def take_action(self, action: str) -> Outcome:
        """Carries out a search or a click."""
        simulator = self._simulator
        observation, score, done = simulator.step(action)
        won = score == 1.0
        return Outcome(
            observation,
            reward=score if self._by_score else float(won),
            terminated=done,
            accepted=simulator.accepted,
            won=won,
            score=score,
        )
