"""Imitation of a weak demonstrator: a tiny policy learns the response format before RL.

Shared with the algorithm `Imitation`: actions, subgoals and responses of the demonstrator
(`trca.envs.demonstrations`). The updates are separate, for three reasons. A tiny policy is built
inside a config or an env runner, where no second algorithm can run, and the packages above
`trca.policies` are not imported here. The tiny policy also learns to predict its prompts, which no
algorithm does. And the learner's `PolicyUpdater` needs 16% more CPU time for the same loss
(0.195 s against 0.168 s for 32 rows of ALFWorld), because it computes entropies and metrics, and
it does not split a batch over threads.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
import torch
from torch import Tensor

from trca.common.progress import Report
from trca.envs.demonstrations import DEMONSTRATION, Demonstrations
from trca.envs.responses import ACTION_FORMAT, ResponseFormat
from trca.envs.text_env import DEFAULT_AGENT
from trca.policies.prompts import compact_prompt, with_subgoal
from trca.policies.prompts.texts import listed_actions

Row = tuple[list[int], list[int]]
"""Ids of a prompt and its response."""
SNAPSHOT_UPDATES: Final = 100
"""Updates between two snapshots of imitation."""


@dataclass(frozen=True)
class Stage:
    """A stage of imitation, of a number of optimizer steps, ``updates``.

    With probability ``randomness`` the demonstrator takes a random admissible action, else a
    sensible action.
    """

    randomness: float
    updates: int


@dataclass(frozen=True)
class TinySpec:
    """The recipe of a tiny policy, except for the environment."""

    hidden_size: int = 128  # width d
    layers: int = 3
    heads: int = 4  # query heads
    kv_heads: int = 2
    feed_forward: int = 384
    # whether attention starts by copying the attended tokens; see trca.policies.tiny.new_model
    mimetic: bool = False
    words: int = 2000  # largest number of words of the environment that become tokens
    merges: int = 1000  # largest number of BPE merges for the rarer words
    # number of past actions in the prompt. Training must use the same number
    history_length: int = 0
    # number of generated environments that the demonstrator plays. They replace a generated
    # environment of seed s and have the seeds s + 1, s + 2 and so on, so that the policy cannot
    # memorize the answers of seed s. With 0 the demonstrator plays the environment of seed s
    worlds: int = 0
    # prefixes of actions that the demonstrator never takes at random
    deliberate: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = (Stage(0.3, 1200), Stage(0.8, 300))  # stages of imitation, in order
    batch_size: int = 32
    lr: float = 2e-3
    warmup: int = 100  # updates until the highest learning rate
    # weight of the loss on the prompt. The loss on the response has weight 1
    prompt_weight: float = 0.2
    seed: int = 0  # seed of weights, tasks, actions and order
    threads: int = 2  # number of threads that split a batch. The number changes the rounding
    # step limit of the demonstrator's episodes; None for the environment's limit
    max_steps: int | None = None


@dataclass(frozen=True)
class Example:
    """One demonstrated step, as text: prompt, and response that takes the demonstrator's action."""

    prompt: str
    action: str
    response: str


def demonstrate(
    envs: Sequence[gymnasium.Env[str, str]],
    randomness: float,
    steps: int,
    seed: int,
    history_length: int,
    tick: Report,
    deliberate: tuple[str, ...] = (),
    response_format: ResponseFormat = ACTION_FORMAT,
) -> list[Example]:
    """Plays complete episodes of random tasks by `Demonstrations` and collects their steps.

    Ends after at least ``steps`` steps. With plans the prompt shows the subgoal of the agent's last
    step.
    """
    draw = random.Random(seed)
    plans = response_format.write_plan is not None
    players = [Demonstrations(env, randomness, deliberate, plans, draw) for env in envs]
    tasks = [(player, task) for player in players for task in player.get_wrapper_attr("task_ids")]
    examples: list[Example] = []
    while len(examples) < steps:
        env, task = draw.choice(tasks)
        inner: Any = env.unwrapped
        observation, info = env.reset(options={"task": task})
        pasts = defaultdict[str, list[tuple[str, str]]](list)
        subgoals, over = defaultdict[str, str](str), False
        while not over:
            agent = info.get("agent", DEFAULT_AGENT)
            past, subgoal = pasts[agent], subgoals[agent]
            prompt = compact_prompt(
                with_subgoal(info["task"], subgoal),
                len(past),
                inner.max_steps,
                past[-history_length:] if history_length else (),
                info.get("memory", ""),
                observation,
                listed_actions(
                    info["admissible_actions"], info.get("tools", ()), inner.idle_actions
                ),
            )
            action = info[DEMONSTRATION].action
            response, subgoals[agent] = info[DEMONSTRATION].respond(response_format, subgoal)
            examples.append(Example(prompt, action, response))
            past.append((observation, action))
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        tick("playing", min(len(examples), steps), steps)
    return examples


def imitate(
    model: Any,
    stages: Sequence[Sequence[Row]],
    spec: TinySpec,
    tick: Report,
    snapshot: Path | None = None,
) -> float:
    """Trains a causal LM in place on prompts and responses, one epoch per stage.

    The loss of a row is the mean over its response plus ``prompt_weight`` times the mean over its
    prompt. The optimizer is AdamW. The learning rate rises linearly, then falls along a cosine to a
    twentieth. Each thread computes the gradients of a part of the batch: on such small tensors this
    is 1.5 times as fast as PyTorch's threads within an operation.

    The state goes to the file ``snapshot`` every `SNAPSHOT_UPDATES` updates. If the file exists,
    imitation resumes from it, and the result is bit for bit that of an uninterrupted run.

    Returns the response loss in nats per token, mean over the last twentieth of the updates.
    """
    total = sum(len(rows) // spec.batch_size for rows in stages)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=spec.lr, betas=(0.9, 0.98), weight_decay=0.01)
    losses: list[float] = []
    kept = 0
    if snapshot is not None and snapshot.is_file():
        state = torch.load(snapshot, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses, kept = state["losses"], len(state["losses"])
    seen = 0

    def share_gradients(share: Sequence[Row]) -> tuple[Any, float]:
        loss, response_loss = _loss(model, share, spec.prompt_weight)
        return torch.autograd.grad(loss * len(share), parameters), response_loss * len(share)

    threads = spec.threads
    model.train()
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for number, rows in enumerate(stages):
            for batch in _batches(rows, spec.batch_size, spec.seed + number):
                seen += 1
                if seen <= kept:
                    continue
                done = len(losses)
                fall = 0.05 + 0.95 * 0.5 * (1.0 + np.cos(np.pi * done / total))
                for group in optimizer.param_groups:
                    group["lr"] = float(spec.lr * min(1.0, (done + 1) / spec.warmup) * fall)
                shares = [batch[k::threads] for k in range(min(threads, len(batch)))]
                gradients, response_losses = zip(*pool.map(share_gradients, shares), strict=True)
                for parameter, *parts in zip(parameters, *gradients, strict=True):
                    parameter.grad = sum(parts[1:], start=parts[0]) / len(batch)
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                optimizer.step()
                losses.append(sum(response_losses) / len(batch))
                tick(f"imitating, loss {np.mean(losses[-50:]):.3f}", len(losses), total)
                if snapshot is not None and len(losses) % SNAPSHOT_UPDATES == 0:
                    written = snapshot.with_name(f"{snapshot.name}.new")
                    torch.save(
                        {
                            "model": model.state_dict(),
                            "optimizer": optimizer.state_dict(),
                            "losses": losses,
                        },
                        written,
                    )
                    written.replace(snapshot)
    model.eval()
    return float(np.mean(losses[-max(1, total // 20) :]))


def _batches(rows: Sequence[Row], size: int, seed: int) -> Iterator[list[Row]]:
    """Yields full batches of rows of similar length, in random order."""
    draw = random.Random(seed)
    order = list(rows)
    draw.shuffle(order)
    pool = 16 * size
    for first in range(0, len(order), pool):
        near = sorted(order[first : first + pool], key=lambda row: len(row[0]) + len(row[1]))
        batches = [near[k : k + size] for k in range(0, len(near) - size + 1, size)]
        draw.shuffle(batches)
        yield from batches


def _loss(model: Any, batch: Sequence[Row], prompt_weight: float) -> tuple[Tensor, float]:
    width = -(-max(len(prompt) + len(response) for prompt, response in batch) // 8) * 8
    ids = np.zeros((len(batch), width), dtype=np.int64)
    weights = np.zeros((len(batch), width), dtype=np.float32)
    responses = np.zeros((len(batch), width), dtype=bool)
    for line, (prompt, response) in enumerate(batch):
        first, last = len(prompt), len(prompt) + len(response)
        ids[line, :last] = prompt + response
        weights[line, 1:first] = prompt_weight / first
        weights[line, first:last] = 1.0 / len(response)
        responses[line, first:last] = True
    tokens = torch.from_numpy(ids)
    targets = tokens[:, 1:]
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="none"
    ).view_as(targets)
    loss = (losses * torch.from_numpy(weights[:, 1:])).sum() / len(batch)
    response_loss = losses.detach()[torch.from_numpy(responses[:, 1:])].mean()
    return loss, float(response_loss)
