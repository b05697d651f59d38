"""Speed of the transformers engine and plain ``generate``, and samples in different batches.

OMP_NUM_THREADS=1 python benchmarks/engine.py [--rows 8 64] [--minutes 0.5]
python benchmarks/engine.py --device cuda --model FOLDER --lora-rank 16 --prompts 99 300
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
from trca.policies.lora import add_lora
from trca.policies.models import load_model, load_tokenizer
from trca.policies.tiny import new_model
from trca.policies.warmstart import TinySpec


def main() -> None:
    """Prints one line per result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--minutes", type=float, default=0.5, help="time for the batches")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", help="default: a tiny model")
    parser.add_argument("--lora-rank", type=int, default=0, help="rank of an adapter; 0: none")
    parser.add_argument("--prompts", type=int, nargs=2, default=[40, 75], help="tokens, least most")
    parser.add_argument("--new", type=int, default=10, help="new tokens of a response")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.model:
        model, tokenizer = load_model(asked.model, "float32"), load_tokenizer(asked.model)
    else:
        model, tokenizer = tiny_model()
    if asked.lora_rank:
        add_lora(model, asked.lora_rank, 2.0 * asked.lora_rank)
    model.to(asked.device)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {asked.threads} thread(s)")
    for rows in asked.rows:
        speed(model, tokenizer, rows, tuple(asked.prompts), asked.new)
    if asked.device == "cpu":
        compositions(model, tokenizer, asked.minutes * 60)


def tiny_model() -> tuple[Any, Any]:
    """Returns a tiny model with random weights, and its tokenizer."""
    tokenizer = train_tokenizer(["put a mug on shelf 1"] * 9, [], 60, 60)
    torch.manual_seed(0)
    model = new_model(tokenizer, TinySpec())
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5)
    return model, tokenizer


def speed(model: Any, tokenizer: Any, rows: int, prompts: tuple[int, int], new: int) -> None:
    """Prints tokens/s for prompts of random lengths and responses of ``new`` tokens."""
    asked = requests(tokenizer, rows, *prompts)
    width = max(len(r.prompt_ids) for r in asked)
    ids = torch.zeros(rows, width, dtype=torch.long, device=model.device)
    mask = torch.zeros_like(ids)
    for line, request in enumerate(asked):
        prompt = torch.from_numpy(request.prompt_ids)
        ids[line, width - len(prompt) :] = prompt
        mask[line, width - len(prompt) :] = 1
    engine = TransformersEngine(model, tokenizer)

    def sample() -> None:
        engine.generate(asked, SamplingParams(1.0, new, stop=()))

    seconds = {"engine": best(sample)}
    seconds["generate"] = best(
        lambda: model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            max_new_tokens=new,
            min_new_tokens=new,
            output_scores=True,
            return_dict_in_generate=True,
        )
    )
    texts = [
        f"{name} {rows * new / each:.0f} tokens/s ({each * 1e3:.0f} ms)"
        for name, each in seconds.items()
    ]
    print(f"{rows} rows: {', '.join(texts)}")


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
