"""The tiny policy before any RL: format, accepted actions, success and score.

python benchmarks/tiny_policy.py --split valid_unseen --episodes 256
python benchmarks/tiny_policy.py --env trca/WebShop-v0 --env-config '{"max_steps": 10}'

The next command builds the policies that the package ships, stores them in `trca/policies`, and
prints the SHA-256 of their files. Names after ``--ship`` select policies. The same machine gives
the same files. Another type of processor rounds differently and gives different weights.

python benchmarks/tiny_policy.py --ship
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import torch

from trca.common.cache import digest
from trca.common.files import sha256, write_json
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies import shipped
from trca.policies.engines.engine import Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.model_names import resolve_model
from trca.policies.models import load_model, load_tokenizer, quiet
from trca.policies.prompts import Prompter
from trca.policies.shipped import manifest
from trca.policies.spans import read_response
from trca.policies.tiny import build_policy, recipe_of
from trca.policies.warmstart import TinySpec


def main() -> None:
    """Builds the policy if it is not cached, plays, and prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="trca/ALFWorld-v0")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--split", default="train")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--env-config", type=json.loads, default={})
    parser.add_argument("--response-format", default="action")
    parser.add_argument("--ship", nargs="*", choices=list(manifest()))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.ship is not None:
        for name in asked.ship or manifest():
            ship(name)
        return
    start = time.monotonic()
    name = resolve_model(
        asked.model,
        env_id=asked.env,
        env_config=asked.env_config,
        response_format=asked.response_format,
    )
    print(f"{name} after {time.monotonic() - start:.0f} s")
    tokenizer = load_tokenizer(name)
    engine = TransformersEngine(load_model(name), tokenizer)
    print(play(engine, tokenizer, asked))


def ship(name: str, spec: TinySpec | None = None) -> None:
    """Builds a policy of the manifest and stores it in the package, in float16.

    Args:
        name: Name of the policy in the manifest.
        spec: Sizes and stages; `None` for the environment's declaration.
    """
    policies, target = manifest(), shipped.FOLDER / name
    policy = policies[name]
    env = (policy.env, policy.env_config)
    shutil.rmtree(target, ignore_errors=True)
    with TemporaryDirectory() as folder:
        build_policy(*env, Path(folder), spec, policy.response_format)
        with quiet():
            load_model(folder).half().save_pretrained(target)
        for path in Path(folder).glob("tokenizer*.json"):
            shutil.copy(path, target)
    recipe = digest(recipe_of(*env, spec, policy.response_format))
    hashes = {path.name: sha256(path) for path in sorted(target.iterdir())}
    policies[name] = replace(policy, recipe=recipe, sha256=hashes)
    write_json(
        shipped.FOLDER / shipped.MANIFEST, {key: asdict(each) for key, each in policies.items()}
    )
    for file, value in hashes.items():
        print(f"{value}  {name}/{file}")


def play(engine: TransformersEngine, tokenizer: Any, asked: argparse.Namespace) -> str:
    """Plays the episodes, 64 at the same time, and returns a summary."""
    config = {**asked.env_config, "split": asked.split}
    envs = [gymnasium.make(asked.env, disable_env_checker=True, **config) for _ in range(64)]
    inner: Any = envs[0].unwrapped
    prompter = Prompter(tokenizer, "compact", 0, memory=True)
    response_format = RESPONSE_FORMATS.get(asked.response_format)
    sampling = SamplingParams(asked.temperature, 28, response_format.stop)
    steps = parsed = accepted = tokens = 0
    score = 0.0
    won: Counter[str] = Counter()
    played: Counter[str] = Counter()
    for first in range(0, asked.episodes, len(envs)):
        live: list[tuple[Any, Any, str, Any]] = []
        for number in range(first, min(first + len(envs), asked.episodes)):
            env = envs[number - first]
            task = inner.task_ids[number % len(inner.task_ids)]
            live.append((number, env, *env.reset(options={"task": task})))
        turn = 0
        subgoals: dict[int, str] = {}
        while live:
            requests = [
                Request(
                    prompter.encode(
                        instruction=info["task"],
                        step=turn,
                        max_steps=inner.max_steps,
                        history=[],
                        observation=observation,
                        admissible=info["admissible_actions"],
                        idle=inner.idle_actions,
                        memory=info["memory"],
                        subgoal=subgoals.get(number, ""),
                    ),
                    number * 1000 + turn,
                )
                for number, _, observation, info in live
            ]
            going = []
            for (number, env, _, info), completion in zip(
                live, engine.generate(requests, sampling), strict=True
            ):
                response = read_response(completion.ids, tokenizer, response_format)
                action = response.action
                parsed += bool(action)
                if response.plan is not None:
                    subgoals[number] = response.plan.subgoal
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
