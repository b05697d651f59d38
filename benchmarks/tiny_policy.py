"""What the tiny policy can do before any RL: format, accepted actions, success and score.

OMP_NUM_THREADS=2 python benchmarks/tiny_policy.py --split valid_unseen --episodes 256
python benchmarks/tiny_policy.py --env trca/WebShop-v0 --env-config '{"max_steps": 10}'
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from typing import Any

import gymnasium
import torch

from trca.envs.responses import ACTION_FORMAT
from trca.policies.engines.engine import Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.models import load_model, load_tokenizer, resolve_model
from trca.policies.prompts import Prompter
from trca.policies.spans import read_response


def main() -> None:
    """Builds the policy where it is not kept, plays, and prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="trca/ALFWorld-v0")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--split", default="train")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--env-config", type=json.loads, default={})
    asked = parser.parse_args()
    torch.set_num_threads(1)
    start = time.monotonic()
    name = resolve_model(asked.model, env_id=asked.env, env_config=asked.env_config)
    print(f"{name} after {time.monotonic() - start:.0f} s")
    tokenizer = load_tokenizer(name)
    engine = TransformersEngine(load_model(name), tokenizer)
    print(play(engine, tokenizer, asked))


def play(engine: TransformersEngine, tokenizer: Any, asked: argparse.Namespace) -> str:
    """Plays the episodes side by side, 64 at a time."""
    config = {**asked.env_config, "split": asked.split}
    envs = [gymnasium.make(asked.env, disable_env_checker=True, **config) for _ in range(64)]
    world: Any = envs[0].unwrapped
    prompter = Prompter(tokenizer, "compact", 0, memory=True)
    sampling = SamplingParams(asked.temperature, 28, ACTION_FORMAT.stop)
    steps = parsed = accepted = tokens = 0
    score = 0.0
    won: Counter[str] = Counter()
    played: Counter[str] = Counter()
    for first in range(0, asked.episodes, len(envs)):
        live: list[tuple[Any, Any, str, Any]] = []
        for number in range(first, min(first + len(envs), asked.episodes)):
            env = envs[number - first]
            task = world.task_ids[number % len(world.task_ids)]
            live.append((number, env, *env.reset(options={"task": task})))
        turn = 0
        while live:
            requests = [
                Request(
                    prompter.encode(
                        task=info["task"],
                        step=turn,
                        max_steps=world.max_steps,
                        history=[],
                        observation=observation,
                        admissible=info["admissible_actions"],
                        idle=world.idle_actions,
                        memory=info["memory"],
                    ),
                    number * 1000 + turn,
                )
                for number, _, observation, info in live
            ]
            going = []
            for (number, env, _, info), said in zip(
                live, engine.generate(requests, sampling), strict=True
            ):
                action = read_response(said.ids, tokenizer).action
                parsed += bool(action)
                steps += 1
                observation, _, terminated, truncated, info = env.step(action)
                accepted += info["accepted"]
                if terminated or truncated:
                    played[info["task_type"]] += 1
                    won[info["task_type"]] += info["won"]
                    score += info["score"]
                else:
                    going.append((number, env, observation, info))
            tokens += sum(len(request.prompt_ids) for request in requests)
            live = going
            turn += 1
    types = ", ".join(f"{t} {won[t]}/{n}" for t, n in sorted(played.items()))
    return (
        f"{asked.split}: parsed {parsed / steps:.3f}, accepted {accepted / steps:.3f},"
        f" success {won.total() / played.total():.3f} ({types}),"
        f" score {score / played.total():.3f}, {tokens / steps:.0f} tokens a prompt,"
        f" {steps / played.total():.1f} steps an episode"
    )


if __name__ == "__main__":
    main()
