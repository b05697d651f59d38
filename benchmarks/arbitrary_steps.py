"""Arbitrary actions in every environment: no exception, and constant memory.

    python benchmarks/arbitrary_steps.py --steps 1_000_000
    python benchmarks/arbitrary_steps.py --steps 100_000 --env trca/WebShop-v0 --set compat=original

Half of the actions are admissible. The other half consists of actions of earlier pages, garbage,
texts in any script, several lines, unpaired surrogates, and texts of up to a megabyte, bare or
between the brackets of an action. The rubric judges every transition. Memory is the process memory
at the start and after each tenth of the steps.
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
import yaml
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
class Result:
    """The result of arbitrary steps in an environment.

    Attributes:
        env: Id of the environment.
        steps: Number of steps.
        episodes: Number of started episodes.
        accepted: Number of executed actions.
        won: Number of successful episodes.
        seconds: Duration.
        memory: Process memory in MiB, at the start and after each tenth of the steps.
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
        """Returns the next action."""
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
        stale = rng.choice(self._stale)
        cut = rng.randrange(len(stale) + 1)
        return stale[:cut] + text + stale[cut + rng.randrange(3) :]

    def _text(self) -> str:
        """Returns garbage, often short and sometimes very long."""
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


def act_arbitrarily(env: gymnasium.Env[str, str], steps: int, seed: int = 0) -> Result:
    """Takes arbitrary steps in consecutive episodes, and records exceptions and memory."""
    actor = Actor(seed)
    result = Result(env.spec.id if env.spec else type(env.unwrapped).__name__)
    result.memory.append(resident_mib())
    started = time.monotonic()
    over, admissible, action = True, [], "none yet"
    for step in range(steps):
        if step and step % max(1, steps // 10) == 0:
            result.memory.append(resident_mib())
        try:
            if over:
                result.episodes += 1
                over = False
                _, info = env.reset(seed=seed + result.episodes)
                admissible = info["admissible_actions"]
            action = actor.action(env, admissible)
            observation, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            admissible = info["admissible_actions"]
            assert isinstance(observation, str), "an observation that is no text"
            assert 0.0 <= float(reward) <= 1.0, f"a reward of {reward}"
            assert len(info["memory"].splitlines()) == 1, "a memory of several lines"
            assert len(info["memory"]) <= 2000, "a long memory"
            result.accepted += info["accepted"]
            result.won += info["won"]
        except Exception:
            result.exceptions.append(f"{action[:200]!r}\n{traceback.format_exc()}")
            over = True
        result.steps += 1
    result.memory.append(resident_mib())
    result.seconds = time.monotonic() - started
    return result


def main() -> None:
    """Acts in each environment and prints one line per environment."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps per environment")
    parser.add_argument("--env", nargs="+", default=ENVIRONMENTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    settings = {
        key: yaml.safe_load(value)
        for key, _, value in (each.partition("=") for each in options.set)
    }
    failed = False
    print("environment        steps      episodes  accepted  won     exceptions  steps/s  MiB")
    for name in options.env:
        result = act_arbitrarily(gymnasium.make(name, **settings), options.steps, options.seed)
        memory = " ".join(f"{held:.0f}" for held in result.memory)
        print(
            f"{name:<18} {result.steps:<10,} {result.episodes:<9,} {result.accepted:<9,}"
            f" {result.won:<7,} {len(result.exceptions):<11}"
            f" {result.steps / result.seconds:<8,.0f} {memory}",
            flush=True,
        )
        for trace in result.exceptions[:3]:
            print(trace, file=sys.stderr)
        failed = failed or bool(result.exceptions)
    sys.exit(failed)


if __name__ == "__main__":
    main()
