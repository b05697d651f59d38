"""Tokens/s of the rollout loop: against the bare engine, and against taking turns in lock-step.

Run: ``OMP_NUM_THREADS=1 python benchmarks/rollout.py [--engine vllm] [--rollouts 64]``

A random model of the tiny policy's size writes 24 tokens a step. Rollouts have 2 to 8 steps. An
environment's step takes nothing, 5 ms, or 50 ms, exponentially distributed, as of a server that is
waited for.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from trca.algorithms.rollout import GroupRequest, RolloutLoop
from trca.envs import Outcome, TextEnv, make
from trca.policies.bpe import train_tokenizer
from trca.policies.engines import ENGINES
from trca.policies.engines.engine import EngineSpec, Request, SamplingParams
from trca.policies.models import load_tokenizer
from trca.policies.prompts import Prompter
from trca.policies.tiny import TinySpec, new_model

SAMPLING = SamplingParams(1.0, 24, stop=("</never>",))


class Server(TextEnv):
    """An environment whose steps are waited for."""

    waits = True
    mean_ms = 0.0

    @property
    def task_ids(self) -> tuple[str, ...]:
        """Eight tasks."""
        return tuple(f"task {k}" for k in range(8))

    @property
    def instruction(self) -> str:
        """The same for all."""
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


class LockStep(RolloutLoop):
    """The loop before: every turn waits for all completions, then for all environments."""

    stepping = 0

    def _arrivals(self, arrived: Any, generating: int, seconds: dict[str, float]) -> Any:
        wanted = generating or self.stepping
        found = [arrived.get() for _ in range(wanted)]
        self.stepping = wanted if generating else 0
        return sorted(found, key=lambda a: (a[0].request.group, a[0].rollout.index))


def main() -> None:
    """Prints one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="transformers")
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        save_model(Path(folder))
        tokenizer = load_tokenizer(folder)
        engine = ENGINES.get(asked.engine)(EngineSpec(folder, "float32", max_tokens=512))
        groups = [
            GroupRequest(k, f"task {k % 8}", "train", 8, ("b", 0))
            for k in range(asked.rollouts // 8)
        ]
        for mean_ms in (0.0, 5.0, 50.0):
            Server.mean_ms = mean_ms
            speeds = {}
            for name, kind in (("asynchronous", RolloutLoop), ("lock-step", LockStep)):
                loop = kind(
                    lambda split: make(Server, split=split),
                    engine,
                    Prompter(tokenizer, "compact"),
                    tokenizer,
                )
                loop.run(groups[:1], SAMPLING)
                for _ in range(asked.repeat):
                    start = time.perf_counter()
                    batch = loop.run(groups, SAMPLING)
                    seconds = time.perf_counter() - start
                    steps = [step for rollout in batch.rollouts for step in rollout.steps]
                    tokens = sum(len(step.response_ids) for step in steps)
                    speeds[name] = max(speeds.get(name, 0.0), tokens / seconds)
                loop.pool.close()
            said = ", ".join(f"{name} {speed:.0f}" for name, speed in speeds.items())
            ratio = speeds["asynchronous"] / speeds["lock-step"]
            print(f"{asked.engine}, step of {mean_ms:.0f} ms: tokens/s {said}: {ratio:.2f} times")
            if not mean_ms:
                bare = max(bare_speed(engine, batch.rollouts) for _ in range(asked.repeat))
                share = speeds["asynchronous"] / bare
                print(f"{asked.engine}, bare on the same prompts: {bare:.0f}; share {share:.2f}")
        engine.close()


def bare_speed(engine: Any, rollouts: Any) -> float:
    """Tokens/s of the prompts of each turn as one batch."""
    start, tokens = time.perf_counter(), 0
    for turn in range(8):
        prompts = [r.steps[turn].prompt_ids for r in rollouts if turn < len(r.steps)]
        requests = [Request(prompt, 8 * k + turn) for k, prompt in enumerate(prompts)]
        futures = [engine.submit(request, SAMPLING) for request in requests]
        engine.flush()
        tokens += sum(len(future.result().ids) for future in futures)
    return tokens / (time.perf_counter() - start)


def save_model(folder: Path) -> None:
    """Writes a random model and its tokenizer."""
    tokenizer = train_tokenizer(["put a mug on shelf 1. You are in a room. look"] * 9, [], 60, 60)
    torch.manual_seed(0)
    model = new_model(tokenizer, TinySpec())
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    np.random.seed(0)


if __name__ == "__main__":
    main()
