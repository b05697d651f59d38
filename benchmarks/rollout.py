"""Tokens/s of the rollout loop, of the bare engine and of synchronous loops.

Run: ``OMP_NUM_THREADS=1 python benchmarks/rollout.py [--engine vllm] [--rollouts 64] [--repeat 5]``

Rollouts have 2 to 8 steps. A random model of the tiny policy's size writes the responses, with a
geometric distribution of lengths (mean 24 tokens, at most 96). A step of an environment takes 0, 5
or 50 ms on average, exponentially distributed, like the latency of a server.

================  ==================================================================================
asynchronous      The rollout loop: each rollout continues after its completion or step.
lock-step         The synchronous loop: all completions of a turn, then all steps in parallel.
one by one        Lock-step with sequential steps of the environments.
bare              Only the engine with the same prompts: each prompt is submitted after the
                  completion of the rollout's previous prompt. This is an upper bound for every
                  loop. A batch engine gets all prompts of a turn as one batch.
all at once       Only the engine with all prompts at the start, which no loop can do.
================  ==================================================================================

A push of weights before each measurement empties the prefix cache, as in training. The variants
alternate, and a ratio is the median of the ratios within a round. Processor time excludes waiting
and other work of the machine.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import torch

from trca.algorithms.rollouts.batch import GroupRequest, derive_seed
from trca.algorithms.rollouts.play import RolloutLoop
from trca.envs import Outcome, TextEnv, make
from trca.policies.bpe import train_tokenizer
from trca.policies.engines import ENGINES
from trca.policies.engines.engine import (
    BatchEngine,
    Completion,
    Engine,
    EngineSpec,
    Request,
    SamplingParams,
)
from trca.policies.models import load_model, load_tokenizer
from trca.policies.prompts import Prompter
from trca.policies.tiny import new_model
from trca.policies.warmstart import TinySpec
from trca.policies.weights import export_weights
from trca.records import Rollout

KEY = ("benchmark", 0)
LENGTH = 24
SAMPLING = SamplingParams(1.0, 4 * LENGTH, stop=("</never>",))


class Server(TextEnv):
    """An environment with slow steps, like a server."""

    waits = True
    mean_ms = 0.0

    @property
    def task_ids(self) -> tuple[str, ...]:
        """Eight tasks."""
        return tuple(f"task {k}" for k in range(8))

    @property
    def instruction(self) -> str:
        """The same instruction for all tasks."""
        return "put a mug on shelf 1"

    @property
    def admissible_actions(self) -> list[str]:
        """One action."""
        return ["look"]

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        """Draws the length of the episode."""
        self.left = int(self.np_random.integers(2, 9))
        return "You are in a room."

    def take_action(self, action: str) -> Outcome:
        """Waits."""
        time.sleep(self.np_random.exponential(self.mean_ms / 1000))
        self.left -= 1
        return Outcome("You are in a room.", terminated=self.left == 0)


class OneByOne(Server):
    """A server whose steps run sequentially."""

    waits = False


class Turns(BatchEngine):
    """An engine that returns the completions of a turn together."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def generate(self, requests: Sequence[Request], sampling: SamplingParams) -> list[Completion]:
        """Generates with the engine."""
        return generate(self._engine, requests)


@dataclass(frozen=True)
class Speed:
    """Tokens per second, and per second of processor time."""

    wall: float
    processor: float


def main() -> None:
    """Prints one line per variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="transformers")
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--ms", type=float, nargs="+", default=[0.0, 5.0, 50.0])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        save_model(Path(folder))
        tokenizer, weights = load_tokenizer(folder), export_weights(load_model(folder))
        engine = ENGINES.get(asked.engine).open(EngineSpec(folder, "float32", max_tokens=512))
        groups = [
            GroupRequest(k, f"task {k % 8}", "train", 8, KEY) for k in range(asked.rollouts // 8)
        ]
        rollouts: list[Rollout] = []
        loops: list[RolloutLoop] = []

        def loop(env: type[TextEnv], in_turns: bool = False) -> Callable[[], int]:
            played, prompter = Turns(engine) if in_turns else engine, Prompter(tokenizer, "compact")
            made = RolloutLoop(lambda split: make(env, split=split), played, prompter, tokenizer)
            if in_turns:
                made.guard.patience = math.inf
            loops.append(made)

            def play() -> int:
                rollouts[:] = made.run(groups, SAMPLING).rollouts
                return sum(len(step.response_ids) for r in rollouts for step in r.steps)

            return play

        asynchronous = loop(Server)
        lock_step, one_by_one = loop(Server, in_turns=True), loop(OneByOne, in_turns=True)
        prompted = bare_by_turns if isinstance(engine, BatchEngine) else bare

        def measure(variants: dict[str, Callable[[], int]]) -> dict[str, list[Speed]]:
            speeds: dict[str, list[Speed]] = {name: [] for name in variants}
            for _ in range(asked.repeat):
                for name, play in variants.items():
                    engine.load_weights(weights, engine.version + 1)
                    wall, processor = time.perf_counter(), time.process_time()
                    tokens = play()
                    wall, processor = time.perf_counter() - wall, time.process_time() - processor
                    speeds[name].append(Speed(tokens / wall, tokens / processor))
            return speeds

        for play in (asynchronous, lock_step, one_by_one):
            play()
        for ms in asked.ms:
            Server.mean_ms = ms
            variants = {"asynchronous": asynchronous, "lock-step": lock_step}
            if ms:
                variants["one by one"] = one_by_one
            else:
                variants["bare"] = lambda: prompted(engine, rollouts)
                variants["all at once"] = lambda: all_at_once(engine, rollouts)
            report(f"{asked.engine}, {ms:g} ms", measure(variants))
        for made in loops:
            made.close()


def report(title: str, variants: dict[str, list[Speed]]) -> None:
    """Prints the median speeds, and the ratio of the loop's speed to each variant's speed."""
    first, *_ = variants
    for name, speeds in variants.items():
        wall = statistics.median(s.wall for s in speeds)
        line = f"{title}: {name} {wall:.0f} tokens/s"
        if name != first:
            pairs = list(zip(variants[first], speeds, strict=True))
            walls = [a.wall / b.wall for a, b in pairs]
            processors = [a.processor / b.processor for a, b in pairs]
            line += f"; {first} {statistics.median(walls):.2f} times"
            line += f" (from {min(walls):.2f} to {max(walls):.2f})"
            line += f", in processor time {statistics.median(processors):.2f}"
        print(line, flush=True)


def bare(engine: Any, rollouts: Sequence[Rollout]) -> int:
    """Generates the tokens of the rollouts again, each prompt after the previous completion."""
    arrived: SimpleQueue[tuple[int, int, Any]] = SimpleQueue()

    def ask(k: int, turn: int) -> None:
        future = engine.submit(request(rollouts[k], turn), SAMPLING)
        future.add_done_callback(lambda done: arrived.put((k, turn, done)))

    for k in range(len(rollouts)):
        ask(k, 0)
    tokens, open_ = 0, len(rollouts)
    while open_:
        k, turn, done = arrived.get()
        tokens += len(done.result().ids)
        if turn + 1 < len(rollouts[k].steps):
            ask(k, turn + 1)
        else:
            open_ -= 1
    return tokens


def bare_by_turns(engine: Any, rollouts: Sequence[Rollout]) -> int:
    """Generates the tokens of the rollouts again, the prompts of each turn as one batch."""
    turns = range(max(len(r.steps) for r in rollouts))
    return sum(
        tokens_of(engine, [request(r, turn) for r in rollouts if turn < len(r.steps)])
        for turn in turns
    )


def all_at_once(engine: Any, rollouts: Sequence[Rollout]) -> int:
    """Generates the tokens of the rollouts again, all prompts as one batch."""
    return tokens_of(engine, [request(r, turn) for r in rollouts for turn in range(len(r.steps))])


def tokens_of(engine: Any, requests: Sequence[Request]) -> int:
    """Generates a batch; returns the number of tokens."""
    return sum(len(completion.ids) for completion in generate(engine, requests))


def generate(engine: Any, requests: Sequence[Request]) -> list[Completion]:
    """Generates a batch."""
    futures = [engine.submit(request, SAMPLING) for request in requests]
    engine.flush()
    return [future.result() for future in futures]


def request(rollout: Rollout, turn: int) -> Request:
    """Returns the loop's request for a step."""
    seed = derive_seed(*KEY, rollout.group, rollout.index, turn)
    return Request(rollout.steps[turn].prompt_ids, seed)


def save_model(folder: Path) -> None:
    """Saves a random model with responses of `LENGTH` tokens on average."""
    tokenizer = train_tokenizer(["put a mug on shelf 1. You are in a room. look"] * 9, [], 60, 60)
    torch.manual_seed(0)
    model = new_model(tokenizer, TinySpec())
    model.generation_config.eos_token_id = list(range(0, len(tokenizer), LENGTH))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
