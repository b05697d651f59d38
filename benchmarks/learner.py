"""Time and memory of an update, against a bare PyTorch loop with the same loss on the same rows.

    OMP_NUM_THREADS=1 python benchmarks/learner.py [--rounds 7]
    python benchmarks/learner.py --gpu

The bare loop is what one would write in a script: rows sorted by length and padded, one forward
pass a micro-batch, the head at the counted tokens alone, AdamW. It imports nothing of the learner
but the rows. Both take turns in one process for their time (CPU seconds, the median of the rounds);
the peak of the memory comes from processes of their own.

With ``--gpu``: Qwen2.5-1.5B's shape at random weights in bfloat16, rows of 2,048 + 512 tokens.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import resident_mib
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from trca.algorithms import GRPOConfig
from trca.algorithms.rows import Rows
from trca.envs.text_space import AnyText
from trca.policies.models import load_model, quiet
from trca.policies.shrunk import ARCHITECTURES

PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
"""Dense bfloat16 operations a second, by a part of the GPU's name."""
SMALL = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "head_dim": 32} | {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
SETTINGS = {"lr": 1e-5, "minibatch_size": 32, "micro_batch_tokens": 8192, "kl_coeff": 0.012}


@dataclass(frozen=True)
class Case:
    """What is measured.

    Attributes:
        vocabulary: Number of tokens.
        prompt: Tokens of a prompt.
        response: Tokens of a response; the second half of them is the action.
        rows: Number of rows.
    """

    vocabulary: int
    prompt: int
    response: int
    rows: int

    def make_rows(self) -> Rows:
        """Random rows whose old log-probabilities are about those of the random model."""
        draw = np.random.default_rng(0)
        tokens = draw.integers(0, self.vocabulary, self.rows * (self.prompt + self.response))
        action = np.tile(np.arange(self.response) >= self.response // 2, self.rows)
        logprobs = np.full(len(action), -np.log(self.vocabulary), np.float32)
        return Rows(
            number=np.arange(self.rows),
            total=self.rows,
            tokens=tokens.astype(np.int32),
            prompt_lengths=np.full(self.rows, self.prompt),
            response_lengths=np.full(self.rows, self.response),
            action=action,
            old_logprobs=logprobs,
            reference=np.zeros_like(logprobs),
            advantages=draw.normal(size=self.rows).astype(np.float32),
            weights=np.full(self.rows, 1.0 / self.rows),
        )


CASES = (
    Case(520, 64, 16, 128),
    Case(520, 512, 64, 64),
    Case(152_064, 64, 16, 128),
    Case(152_064, 512, 64, 64),
)


def main() -> int:
    """Prints one row a case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gpu", action="store_true")
    asked = parser.parse_args()
    if asked.gpu:
        return gpu()
    torch.set_num_threads(1)
    print(
        "| vocabulary | rows | learner s | bare s | ratio | learner MiB | bare MiB |\n"
        "|---:|---|---:|---:|---:|---:|---:|"
    )
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            save_model(Path(folder), case.vocabulary, {"model_type": "qwen3", **SMALL})
            learner, bare = in_turns(case, folder, asked.rounds)
            peaks = [peak_of(kind, case, folder) for kind in ("learner", "bare")]
        print(
            f"| {case.vocabulary:,} | {case.rows} x {case.prompt} + {case.response}"
            f" | {learner:.2f} | {bare:.2f} | {learner / bare:.2f}"
            f" | {peaks[0]:,.0f} | {peaks[1]:,.0f} |",
            flush=True,
        )
    return 0


def in_turns(case: Case, folder: str, rounds: int) -> tuple[float, float]:
    """Median CPU seconds of an update of the learner, and of the bare loop, after a first one."""
    acts = [learner_update(case, folder), bare_update(case, folder)]
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds + 1):
        for act, taken in zip(acts, seconds, strict=True):
            started = time.process_time()
            act()
            taken.append(time.process_time() - started)
    learner, bare = (statistics.median(taken[1:]) for taken in seconds)
    return learner, bare


def peak_of(kind: str, case: Case, folder: str) -> float:
    """MiB that two updates add at most to a process with model and optimizer not yet made."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure_peak, args=(kind, case, folder, sender))
    process.start()
    peak: float = receiver.recv()
    process.join()
    return peak


def _measure_peak(kind: str, case: Case, folder: str, sender: Any) -> None:
    torch.set_num_threads(1)
    before = resident_mib()
    act = {"learner": learner_update, "bare": bare_update}[kind](case, folder)
    act()
    act()
    # Not ru_maxrss, which a child inherits from a larger parent.
    status = Path("/proc/self/status").read_text()
    sender.send(int(status.split("VmHWM:")[1].split()[0]) / 2**10 - before)


def make_learner(folder: str, **settings: Any) -> Any:
    """A learner in this process."""
    config: Any = GRPOConfig().environment("trca/ALFWorld-v0")
    gpus = int(settings.pop("gpus", 0))
    config.training(model=folder, **SETTINGS | settings).learners(num_gpus_per_learner=gpus)
    return config.build_learner(spaces={DEFAULT_MODULE_ID: (AnyText(), AnyText())})


def learner_update(case: Case, folder: str) -> Callable[[], Any]:
    """An update of `TextLearner`, the reference's scores included."""
    learner, rows = make_learner(folder), case.make_rows()
    learner._compared = True  # the log-probabilities are made up
    return lambda: learner.update(training_data=TrainingData(batch=rows), shuffle_key=(0,))


def bare_update(case: Case, folder: str) -> Callable[[], Any]:
    """The same by a plain loop."""
    model, reference = load_model(folder, "float32"), load_model(folder, "float32")
    reference.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=SETTINGS["lr"], weight_decay=0.0)
    rows = case.make_rows()
    length = case.prompt + case.response
    tokens = torch.from_numpy(rows.tokens.reshape(case.rows, length)).long()
    at = torch.arange(case.prompt + case.response // 2, length)
    old = torch.from_numpy(rows.old_logprobs.reshape(case.rows, -1))[:, case.response // 2 :]
    advantages, size = torch.from_numpy(rows.advantages), int(SETTINGS["minibatch_size"])
    fit = int(SETTINGS["micro_batch_tokens"]) // length

    def scored(network: Any, numbers: Any) -> tuple[Any, Any]:
        ids = tokens[numbers]
        hidden = network.base_model(input_ids=ids, use_cache=False).last_hidden_state
        logits = network.lm_head(hidden[:, at - 1]).float()
        logprobs = logits.log_softmax(-1)
        entropy = -(logprobs.exp() * logprobs).sum(-1)
        return logprobs.gather(-1, ids[:, at, None])[..., 0], entropy

    def update() -> None:
        with torch.no_grad():
            parts = [scored(reference, n)[0] for n in torch.arange(case.rows).split(fit)]
            of_reference = torch.cat(parts)
        order = torch.from_numpy(np.random.default_rng((0, 0)).permutation(case.rows))
        for minibatch in order.split(size):
            optimizer.zero_grad(set_to_none=True)
            for numbers in minibatch.split(fit):
                logprobs, entropy = scored(model, numbers)
                ratio = (logprobs - old[numbers]).sum(-1).clamp(-20, 20).exp()
                advantage = advantages[numbers]
                policy = torch.maximum(-ratio * advantage, -ratio.clamp(0.8, 1.28) * advantage)
                apart = (logprobs - of_reference[numbers]).clamp(-20, 20)
                kl = (torch.expm1(-apart) + apart).mean(-1)
                loss = policy + SETTINGS["kl_coeff"] * kl - 0.001 * entropy.mean(-1)
                (loss.sum() / len(minibatch)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return update


def save_model(folder: Path, vocabulary: int, architecture: dict[str, Any]) -> None:
    """A random model and a byte-level tokenizer of so many tokens."""
    tokenizer = make_tokenizer(vocabulary)
    config = AutoConfig.for_model(**architecture | {"vocab_size": vocabulary})
    torch.manual_seed(0)
    with quiet():
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def make_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """The bytes, and pairs and triples of them up to the size."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())

    def merges() -> Iterator[tuple[str, str]]:
        for first in alphabet:
            for second in alphabet:
                yield first, second
        for first in alphabet:
            for second in alphabet:
                for third in alphabet:
                    yield first + second, third

    pairs = [pair for pair, _ in zip(merges(), range(vocabulary - len(alphabet) - 1), strict=False)]
    tokens = [*alphabet, *("".join(pair) for pair in pairs), "<|end|>"]
    backend = Tokenizer(models.BPE({t: n for n, t in enumerate(tokens)}, pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|end|>", pad_token="<|end|>"
    )


def gpu() -> int:
    """Measures one GPU; 2 where there is none."""
    if not torch.cuda.is_available():
        print("--gpu needs a GPU, and PyTorch sees none here", file=sys.stderr)
        return 2
    name = torch.cuda.get_device_name()
    found = measure(
        ARCHITECTURES["Qwen/Qwen2.5-1.5B-Instruct"], Case(151_936, 2048, 512, 64), gpus=1
    )
    peak = next((flops for part, flops in PEAK_FLOPS.items() if part in name), None)
    found["mfu"] = found.pop("flops_per_second") / peak if peak else "unknown GPU"
    print(json.dumps({"gpu": name, **found}, indent=1))
    return 0


def measure(architecture: dict[str, Any], case: Case, gpus: int, rounds: int = 3) -> dict[str, Any]:
    """Tokens and useful operations a second of an update in bfloat16, memory, seconds of a push.

    Useful are the policy's forward and backward passes and the reference's forward pass: 8
    operations a weight and token, the head's at the scored tokens alone, and causal attention. The
    second forward pass of gradient checkpointing is not.
    """
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), case.vocabulary, architecture)
        learner = make_learner(
            folder,
            gpus=gpus,
            dtype="bfloat16",
            gradient_checkpointing=True,
            micro_batch_tokens=4 * (case.prompt + case.response),
        )
    learner._compared = True
    rows = case.make_rows()
    seconds = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        learner.update(training_data=TrainingData(batch=rows), shuffle_key=(0,))
        if gpus:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    taken = statistics.median(seconds[1:])
    module = learner.module[DEFAULT_MODULE_ID]
    started = time.perf_counter()
    weights = module.get_state(inference_only=True)
    push = time.perf_counter() - started
    config = module.model.config
    embedding = module.model.get_input_embeddings().weight.numel()
    layers = sum(p.numel() for p in module.model.base_model.parameters()) - embedding
    length = case.prompt + case.response
    tokens, scored = case.rows * length, case.rows * (case.response - case.response // 2)
    attention = 2 * length * config.hidden_size * config.num_hidden_layers
    flops = 4 * (tokens * (2 * layers + attention) + scored * 2 * embedding)
    return {
        "tokens_per_second": tokens / taken,
        "flops_per_second": flops / taken,
        "seconds": taken,
        "peak_gib": (torch.cuda.max_memory_allocated() if gpus else 0) / 2**30,
        "push_seconds": push,
        "push_gib": sum(array.nbytes for array in weights.values()) / 2**30,
    }


if __name__ == "__main__":
    sys.exit(main())
