"""Speed of the transformers engine and plain ``generate``, and samples in different batches.

Run: ``OMP_NUM_THREADS=1 python benchmarks/engine.py [--rows 8 64] [--minutes 0.5]``
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from trca.policies.bpe import train_tokenizer
from trca.policies.engines.engine import Completion, Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.tiny import TinySpec, new_model


def main() -> None:
    """Prints one line per result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--minutes", type=float, default=0.5, help="time for the batches")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    tokenizer = train_tokenizer(["put a mug on shelf 1"] * 9, [], 60, 60)
    torch.manual_seed(0)
    model = new_model(tokenizer, TinySpec())
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {asked.threads} thread(s)")
    for rows in asked.rows:
        speed(model, tokenizer, rows)
    compositions(model, tokenizer, asked.minutes * 60)


def speed(model: Any, tokenizer: Any, rows: int) -> None:
    """Prints tokens/s for prompts of 40 to 75 tokens and 10 new tokens."""
    asked = requests(tokenizer, rows, 40, 75)
    engine = TransformersEngine(model, tokenizer)
    width = max(len(r.prompt_ids) for r in asked)
    ids = torch.zeros(rows, width, dtype=torch.long)
    mask = torch.zeros(rows, width, dtype=torch.long)
    for line, request in enumerate(asked):
        ids[line, width - len(request.prompt_ids) :] = torch.from_numpy(request.prompt_ids)
        mask[line, width - len(request.prompt_ids) :] = 1
    ours = best(lambda: engine.generate(asked, SamplingParams(1.0, 10, stop=())))
    plain = best(
        lambda: model.generate(
            ids,
            attention_mask=mask,
            do_sample=True,
            max_new_tokens=10,
            min_new_tokens=10,
            output_scores=True,
            return_dict_in_generate=True,
        )
    )
    print(
        f"{rows} rows: engine {rows * 10 / ours:.0f} tokens/s ({ours * 1e3:.0f} ms),"
        f" generate {rows * 10 / plain:.0f} tokens/s ({plain * 1e3:.0f} ms)"
    )


def compositions(model: Any, tokenizer: Any, seconds: float) -> None:
    """Counts completions in random batches that differ in any bit from single requests."""
    asked = requests(tokenizer, 300, 1, 140)
    engine = TransformersEngine(model, tokenizer)
    sampling = SamplingParams(1.0, 12)
    single = [bits(engine.generate([request], sampling)[0]) for request in asked]
    draw = np.random.default_rng(1)
    rows = different = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        picked = draw.integers(0, len(asked), draw.integers(1, 200))
        together = engine.generate([asked[k] for k in picked], sampling)
        different += sum(bits(c) != single[k] for k, c in zip(picked, together, strict=True))
        rows += len(picked)
    print(f"{rows} rows in random batches: {different} differ from the single request")


def requests(tokenizer: Any, count: int, shortest: int, longest: int) -> list[Request]:
    """Returns requests with random prompts."""
    draw = np.random.default_rng(0)
    return [
        Request(
            draw.integers(0, len(tokenizer), draw.integers(shortest, longest)).astype(np.int32),
            int(draw.integers(2**63)),
        )
        for _ in range(count)
    ]


def bits(completion: Completion) -> tuple[bytes, bytes]:
    """Returns ids and log-probabilities of a completion as bytes."""
    return completion.ids.tobytes(), completion.logprobs.tobytes()


def best(run: Callable[[], Any], times: int = 7) -> float:
    """Returns the minimal seconds of several runs after a warm-up run."""
    run()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
