"""Arbitrary actions in every environment: no exception, and memory that stays flat.

    python benchmarks/arbitrary_steps.py --steps 1_000_000
    python benchmarks/arbitrary_steps.py --steps 100_000 --env trca/WebShop-v0 --set compat=original

Half of the actions are admissible; the others are actions of earlier pages, garbage, texts in any
script, lines, lone surrogates, and texts of up to a megabyte, bare or between the brackets of an
action. Every transition is judged by the rubric. Memory is what the process holds at the start and
after each tenth of the steps.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import gymnasium
import numpy as np
from measuring import resident_mib

import trca.envs  # noqa: F401 (registers the environments)

ENVIRONMENTS: Final = ("trca/ALFWorld-v0", "trca/WebShop-v0", "trca/SearchQA-v0")
_WORDS: Final = (
    "go",
    "to",
    "search",
    "click",
    "open",
    "answer",
    "mug",
    "1",
    "buy now",
    "<r>",
    "%s",
)
_SIZES: Final = (1_000, 20_000, 100_000, 1_000_000)
_SIZE_ODDS: Final = (40, 10, 3, 1)


@dataclass
class Found:
    """What arbitrary steps in one environment showed.

    Attributes:
        env: Id of the environment.
        steps: Steps taken.
        episodes: Episodes begun.
        accepted: Steps that the environment carried out.
        won: Episodes won.
        seconds: Time taken.
        memory: MiB held at the start and after each tenth of the steps.
        exceptions: Tracebacks.
    """

    env: str
    steps: int = 0
    episodes: int = 0
    accepted: int = 0
    won: int = 0
    seconds: float = 0.0
    memory: list[float] = field(default_factory=list)
    exceptions: list[str] = field(default_factory=list)


class Actor:
    """Chooses arbitrary actions."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._numpy = np.random.default_rng(seed)
        self._stale: deque[str] = deque(maxlen=500)

    def action(self, env: Any, admissible: Sequence[str]) -> str:
        """The next action, whatever it does."""
        rng = self._rng
        self._stale.extend(admissible)
        kind = rng.random()
        if admissible and kind < 0.5:
            return str(env.unwrapped.random_action(self._numpy))
        if kind < 0.65:
            return rng.choice(self._stale)
        text = self._text()
        if kind < 0.75:
            return text
        if kind < 0.9:
            return f"{rng.choice(('search', 'click', 'open', 'answer'))}[{text}]"
        known = rng.choice(self._stale)
        cut = rng.randrange(len(known) + 1)
        return known[:cut] + text + known[cut + rng.randrange(3) :]

    def _text(self) -> str:
        """Garbage: often short, at times very long."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.3:
            return " ".join(rng.choices(_WORDS, k=rng.randrange(6)))
        if kind < 0.5:
            return "".join(map(chr, rng.choices(range(0x2FFF), k=rng.randrange(30))))
        if kind < 0.7:
            return rng.randbytes(rng.randrange(40)).decode("utf-8", "surrogateescape")
        if kind < 0.8:
            return "\n".join(rng.choices((*_WORDS, "\r", "\u2028", "\x1e", "\t"), k=8))
        if kind < 0.98:
            return "".join(map(chr, rng.choices(range(0x110000), k=rng.randrange(20))))
        size = rng.choices(_SIZES, _SIZE_ODDS)[0]
        unit = rng.choice(("x", "mug ", "\n", "é", f"w{rng.random()} ", "[", "]", "\U0001f600"))
        return (unit * (size // len(unit) + 1))[:size]


def act_arbitrarily(env: gymnasium.Env[str, str], steps: int, seed: int = 0) -> Found:
    """Takes arbitrary steps, episode after episode, and counts what goes wrong."""
    actor = Actor(seed)
    found = Found(env.spec.id if env.spec else type(env.unwrapped).__name__)
    found.memory.append(resident_mib())
    started = time.monotonic()
    over, admissible = True, []
    for step in range(steps):
        if step and step % max(1, steps // 10) == 0:
            found.memory.append(resident_mib())
        try:
            if over:
                found.episodes += 1
                over = False
                _, info = env.reset(seed=seed + found.episodes)
                admissible = info["admissible_actions"]
            action = actor.action(env, admissible)
            observation, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            admissible = info["admissible_actions"]
            assert isinstance(observation, str), "an observation that is no text"
            assert 0.0 <= float(reward) <= 1.0, f"a reward of {reward}"
            assert len(info["memory"].splitlines()) == 1, "a memory of several lines"
            assert len(info["memory"]) <= 2000, "a long memory"
            found.accepted += info["accepted"]
            found.won += info["won"]
        except Exception:
            found.exceptions.append(f"{action[:200]!r}\n{traceback.format_exc()}")
            over = True
        found.steps += 1
    found.memory.append(resident_mib())
    found.seconds = time.monotonic() - started
    return found


def main() -> None:
    """Acts in the environments in turn and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps an environment")
    parser.add_argument("--env", nargs="+", default=ENVIRONMENTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in options.set)
    failed = False
    print("environment        steps      episodes  accepted  won     exceptions  steps/s  MiB")
    for name in options.env:
        found = act_arbitrarily(gymnasium.make(name, **settings), options.steps, options.seed)
        memory = " ".join(f"{held:.0f}" for held in found.memory)
        print(
            f"{name:<18} {found.steps:<10,} {found.episodes:<9,} {found.accepted:<9,}"
            f" {found.won:<7,} {len(found.exceptions):<11}"
            f" {found.steps / found.seconds:<8,.0f} {memory}",
            flush=True,
        )
        for trace in found.exceptions[:3]:
            print(trace, file=sys.stderr)
        failed = failed or bool(found.exceptions)
    sys.exit(failed)


if __name__ == "__main__":
    main()
