"""Counts the tokens that prompts of each template cost: no model runs, and nothing is timed.

Run: ``python benchmarks/prompts.py [--model smollm2] [--steps 25] [--thought 30]``

A weak demonstrator plays the same episodes of generated ALFWorld games for every template, eight
rollouts of each task. Columns, per rollout:

=================  =================================================================================
prompts            Tokens of all prompts: what an engine without a prefix cache reads.
longest            Tokens of the longest prompt, the mean over rollouts.
engine             Prompt tokens that an engine with a prefix cache reads. Blocks of 16 tokens stay
                   in the cache for the whole iteration, as in vLLM.
rows               Tokens of all training rows: what learners without shared prefixes compute.
learner            Tokens that learners with shared prefixes compute, in the mini-batches and
                   micro-batches of an update.
one pass           The same if all rows were in one mini-batch.
=================  =================================================================================
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.learner.passes import token_batch
from trca.algorithms.learner.rows import Rows, scored_rows
from trca.common.markdown import markdown_table
from trca.envs import make
from trca.envs.demonstrations import random_action
from trca.envs.responses import write_action
from trca.policies.model_names import resolve_model
from trca.policies.models import load_tokenizer
from trca.policies.prompts import Conversation, Prompter

Ids = NDArray[np.int32]
BLOCK: Final = 16
PROMPTS: Final[dict[str, dict[str, Any]]] = {
    "paper": {"template": "paper", "history_length": 2},
    "paper, 10 steps of history": {"template": "paper", "history_length": 10},
    "compact, memory": {"template": "compact", "history_length": 0, "memory": True},
    "chat": {"template": "chat", "history_length": 100},
    "chat, windows of 10": {"template": "chat", "history_length": 10},
}


def main() -> None:
    """Prints a table with one line per template."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="shrunk:Qwen/Qwen2.5-1.5B-Instruct")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--thought", type=int, default=30, help="words of a thought")
    parser.add_argument("--minibatch", type=int, default=256)
    parser.add_argument("--micro-batch-tokens", type=int, default=32_768)
    asked = parser.parse_args()
    tokenizer = load_tokenizer(resolve_model(asked.model, env_id=""))
    lines = []
    for name, settings in PROMPTS.items():
        rollouts = [
            play(tokenizer, settings, asked, task, number)
            for task in range(asked.tasks)
            for number in range(asked.rollouts)
        ]
        steps = [step for rollout in rollouts for step in rollout]
        rows = scored_rows([prompt for prompt, _ in steps], [answer for _, answer in steps])
        longest = [max(len(prompt) for prompt, _ in rollout) for rollout in rollouts]
        size, budget = asked.minibatch, asked.micro_batch_tokens
        columns = (
            int(rows.prompt_lengths.sum()),
            int(np.mean(longest)) * len(rollouts),
            cached_engine(rollouts),
            int(rows.lengths.sum()),
            sum(learner(minibatch, budget) for minibatch, _ in rows.minibatches(size, (0,))),
            learner(rows, budget),
        )
        lines.append([name, *(f"{column / len(rollouts):,.0f}" for column in columns)])
    head = ("prompt", "prompts", "longest", "engine", "rows", "learner", "one pass")
    print(f"{len(steps) / len(rollouts):.1f} steps per rollout\n")
    print(markdown_table(head, lines), end="")


def play(
    tokenizer: Any, settings: dict[str, Any], asked: argparse.Namespace, task: int, number: int
) -> list[tuple[Ids, Ids]]:
    """Plays an episode; returns prompt and response of each step.

    Args:
        tokenizer: The tokenizer.
        settings: Arguments of the prompter.
        asked: Arguments of the command line.
        task: Number of the task.
        number: Number of the rollout, the seed of thoughts and random actions.
    """
    prompter = Prompter(tokenizer, max_prompt_tokens=32_000, **settings)
    env = make("trca/ALFWorld-v0", games="medium", max_steps=asked.steps)
    inner, draw, talk = env.unwrapped, random.Random(number), Conversation()
    observation, info = env.reset(seed=0, options={"task": inner.task_ids[task]})
    steps: list[tuple[Ids, Ids]] = []
    history: list[tuple[str, str]] = []
    over = False
    while not over:
        admissible = info["admissible_actions"]
        prompt = prompter.encode(
            instruction=info["task"],
            step=len(steps),
            max_steps=asked.steps,
            history=history,
            observation=observation,
            admissible=admissible,
            idle=inner.idle_actions,
            memory=info["memory"],
            conversation=talk,
        )
        action = inner.demonstrator_action()
        if draw.random() < 0.5:
            action = random_action(inner, admissible, (), draw)
        thought = " ".join(draw.choices(("the", "mug", "may", "be", "on", "a"), k=asked.thought))
        text = write_action(thought, action)
        ids = np.array(tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int32)
        talk.add(ids)
        steps.append((prompt, ids))
        history.append((observation, action))
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    env.close()
    return steps


def cached_engine(rollouts: Sequence[Sequence[tuple[Ids, Ids]]]) -> int:
    """Prompt tokens outside of the prefix cache; all rollouts play at the same time."""
    cache: set[bytes] = set()
    count = 0
    for turn in range(max(map(len, rollouts))):
        for rollout in rollouts:
            if turn >= len(rollout):
                continue
            prompt, response = rollout[turn]
            blocks = beginnings(prompt[:-1])  # the last token is always computed
            kept = next((k for k, block in enumerate(blocks) if block not in cache), len(blocks))
            count += len(prompt) - BLOCK * kept
            cache.update(beginnings(np.concatenate([prompt, response])))
    return count


def beginnings(ids: Ids) -> list[bytes]:
    """The beginnings of the ids that end with a complete block."""
    return [ids[:end].tobytes() for end in range(BLOCK, len(ids) + 1, BLOCK)]


def learner(rows: Rows, budget: int) -> int:
    """Tokens that learners with shared prefixes compute."""
    count = 0
    for _, micro in rows.microbatches(budget):
        batch = token_batch(micro, micro.action_mask, "cpu", share=True)
        count += int(micro.lengths.sum()) if batch.shared is None else len(batch.shared.owner)
    return count


if __name__ == "__main__":
    main()
