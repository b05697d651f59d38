"""Stock ALFWorld 0.4.2 for the benchmarks: one game at a time, with the outputs for an agent.

The wrappers are the wrappers of alfworld's ``AlfredTWEnv``. The class requires further files, such
as a ``traj_data.json`` in the folder of each game, which do not affect the outputs.
"""

from __future__ import annotations

import copy
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import fast_downward  # type: ignore[import-untyped]
import textworld  # type: ignore[import-untyped]
import textworld.gym  # type: ignore[import-untyped]
from alfworld.agents.environment import alfred_tw_env  # type: ignore[import-untyped]
from textworld.envs.batch import SyncBatchEnv  # type: ignore[import-untyped]
from textworld.envs.pddl import textgen  # type: ignore[import-untyped]
from textworld.gym.envs import textworld_batch  # type: ignore[import-untyped]
from textworld.logic import Rule  # type: ignore[import-untyped]


class Shown(NamedTuple):
    """The outputs of the environment after a step."""

    text: str
    admissible: list[str]
    won: bool
    done: bool


class Stock:
    """Stock ALFWorld's environment."""

    def __init__(self) -> None:
        infos = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
        demangler = partial(alfred_tw_env.AlfredDemangler, shuffle=False)
        wrappers = [demangler, alfred_tw_env.AlfredInfos]
        self._env = SyncBatchEnv([partial(textworld_batch._make_env, infos, None, wrappers)])

    def load(self, path: Path) -> None:
        """Loads a game."""
        self._env.load([str(path)])

    def reset(self) -> Shown:
        """Restarts the game."""
        (text,), infos = self._env.reset()
        return Shown(text, infos["admissible_commands"][0], infos["won"][0], False)

    def step(self, command: str) -> Shown:
        """Takes an action."""
        (text,), _, (done,), infos = self._env.step([command])
        return Shown(text, infos["admissible_commands"][0], infos["won"][0], done)


def remember() -> None:
    """Makes stock ALFWorld several times faster, with the same outputs.

    Caches the results of pure functions: the translation of a game and the parsing of its grammar.
    The benchmarks do not use the planner, which gets the plain translation. The contexts of
    sentences share their variables, which no code changes.
    """
    translate = lru_cache(maxsize=2)(fast_downward.pddl2sas)
    fast_downward.pddl2sas = lambda domain, problem, **_: translate(domain, problem)
    Rule.parse_conjunctive_query = lru_cache(maxsize=None)(Rule.parse_conjunctive_query)
    parse = lru_cache(maxsize=None)(textgen._parse_and_convert)
    textgen._parse_and_convert = lambda *args, **kwargs: copy.deepcopy(parse(*args, **kwargs))
    textgen.copy_context = lambda context: {
        key: dict(value) if key in ("variables", "mapping") else value
        for key, value in context.items()
    }
