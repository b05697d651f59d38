"""Stock ALFWorld 0.4.2 for the benchmarks: one game at a time, with what an agent is shown.

The wrappers are those of alfworld's ``AlfredTWEnv``. What else that class asks for, such as a
``traj_data.json`` beside each game, does not touch what is shown.
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
    """What the environment shows after a step."""

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
        """Takes up a game."""
        self._env.load([str(path)])

    def reset(self) -> Shown:
        """Starts the game over."""
        (text,), infos = self._env.reset()
        return Shown(text, infos["admissible_commands"][0], infos["won"][0], False)

    def step(self, command: str) -> Shown:
        """Carries out a command."""
        (text,), _, (done,), infos = self._env.step([command])
        return Shown(text, infos["admissible_commands"][0], infos["won"][0], done)


def remember() -> None:
    """Makes stock several times faster, and its outputs stay the same.

    It remembers the pure functions that it calls over and over: the translation of a game and the
    parsing of its grammar. The planner, which nobody asks here, gets the plain translation, and the
    contexts of sentences share their variables, which nothing changes.
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
