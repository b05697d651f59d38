"""Time and memory of an update, against a bare PyTorch loop with the same loss on the same rows.

    OMP_NUM_THREADS=1 python benchmarks/learner.py [--rounds 7]
    OMP_NUM_THREADS=1 python benchmarks/learner.py --device cpu
    python benchmarks/learner.py --device cuda

The bare loop is a typical script: rows sorted by length and padded, one forward pass per
micro-batch, the head only at tokens of the loss, AdamW. It imports only the rows from the learner.
If TRL is installed, its GRPOTrainer also learns from the rows. Times are CPU seconds, the median of
rounds in which all implementations alternate in one process. Peak memory is measured in separate
processes. A second table shows variants of the learner.

With ``--device cuda``: Qwen2.5-1.5B's shape with random weights in bfloat16 and rows of 2,048 + 512
tokens; prints tokens/s, MFU, memory, and the seconds of a push to an engine. ``--device cpu`` uses
a small shape.
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
import trl_trainer
from measuring import resident_mib
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from trca.algorithms import GRPOConfig
from trca.algorithms.learner.rows import Rows
from trca.common.markdown import markdown_table
from trca.envs.text_space import AnyText
from trca.policies.engines import ENGINES
from trca.policies.engines.engine import EngineSpec
from trca.policies.models import load_model, quiet
from trca.policies.shrunk import ARCHITECTURES

PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
"""Dense bfloat16 operations per second, by a part of the GPU's name."""
SMALL = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "head_dim": 32} | {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
SETTINGS = {"lr": 1e-5, "minibatch_size": 32, "micro_batch_tokens": 8192, "kl_coeff": 0.012}


@dataclass(frozen=True)
class Case:
    """The shape of a measured update.

    Attributes:
        vocabulary: Number of tokens in the vocabulary.
        prompt: Tokens of a prompt.
        response: Tokens of a response. The second half is the action.
        rows: Number of rows.
        common: Number of first tokens that each 8 rows share, like a rollout group.
    """

    vocabulary: int
    prompt: int
    response: int
    rows: int
    common: int = 0

    def make_rows(self) -> Rows:
        """Returns random rows, with old log-probabilities close to a random model's."""
        draw = np.random.default_rng(0)
        tokens = draw.integers(0, self.vocabulary, self.rows * (self.prompt + self.response))
        by_row = tokens.reshape(self.rows, -1)
        by_row[:, : self.common] = np.repeat(by_row[::8, : self.common], 8, axis=0)[: self.rows]
        action = np.tile(np.arange(self.response) >= self.response // 2, self.rows)
        logprobs = np.full(len(action), -np.log(self.vocabulary), np.float32)
        return Rows(
            number=np.arange(self.rows),
            total=self.rows,
            tokens=tokens.astype(np.int32),
            prompt_lengths=np.full(self.rows, self.prompt),
            response_lengths=np.full(self.rows, self.response),
            action_mask=action,
            old_logprobs=logprobs,
            advantages=draw.normal(size=self.rows).astype(np.float32),
            weights=np.full(self.rows, 1.0 / self.rows),
            replayed=np.zeros(self.rows, bool),
        )


CASES = (
    Case(520, 64, 16, 128),
    Case(520, 512, 64, 64),
    Case(520, 64, 16, 128, common=48),
    Case(520, 512, 64, 64, common=448),
    Case(152_064, 64, 16, 128),
    Case(152_064, 512, 64, 64),
)


VARIED = Case(152_064, 64, 16, 32)
SEVERAL_PASSES = {"micro_batch_tokens": 1024}
VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "gradient checkpointing": {"gradient_checkpointing": True},
    "LoRA of rank 16": {"lora_rank": 16},
    "2 learners, each whole": {"num_learners": 2},
    "2 learners, fsdp": {"num_learners": 2, "sharding": "fsdp"},
    "2 learners, fsdp, sync_each_pass": {
        "num_learners": 2,
        "sharding": "fsdp",
        "sync_each_pass": True,
    },
}


def main() -> int:
    """Prints one row per case, and one row per variant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", choices=["cpu", "cuda"])
    asked = parser.parse_args()
    if asked.device:
        return on_device(asked.device)
    torch.set_num_threads(1)
    lack = trl_trainer.missing_trl()
    lines = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            save_model(Path(folder), case.vocabulary, {"model_type": "qwen3", **SMALL})
            peaks = [peak_of(kind, case, folder)[0] for kind in ("learner", "bare")]
            learner, bare, trl = in_turns(case, folder, asked.rounds, with_trl=not lack)
        times = (learner, bare, learner / bare, trl, learner / trl)
        lines.append(
            [
                f"{case.vocabulary:,}",
                f"{case.rows} x {case.prompt} + {case.response}",
                case.common,
                *(f"{value:.2f}" for value in times),
                *(f"{peak:,.0f}" for peak in peaks),
            ]
        )
        print(*lines[-1], file=sys.stderr, flush=True)
    head = ("vocabulary", "rows", "in common", "learner s", "bare s", "ratio", "TRL s", "ratio")
    print(markdown_table([*head, "learner MiB", "bare MiB"], lines, text_columns=0))
    if lack:
        print(f"{lack}\n")
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), VARIED.vocabulary, {"model_type": "qwen3", **SMALL})
        for name, settings in VARIANTS.items():
            peak, seconds = peak_of("learner", VARIED, folder, settings | SEVERAL_PASSES)
            lines.append([name, f"{peak:,.0f}", f"{seconds:.1f}"])
            print(*lines[-1], file=sys.stderr, flush=True)
    print(markdown_table(["variant", "MiB of a learner", "CPU s of all"], lines), end="")
    return 0


def in_turns(case: Case, folder: str, rounds: int, with_trl: bool) -> tuple[float, float, float]:
    """Returns median CPU seconds of an update of the learner, the bare loop and TRL.

    The first update does not count. Without TRL its seconds are NaN.
    """
    acts = [learner_update(case, folder), bare_update(case, folder)]
    seconds: list[list[float]] = [[], []]

    def turn() -> None:
        for act, taken in zip(acts, seconds, strict=True):
            started = time.process_time()
            act()
            taken.append(time.process_time() - started)

    of_trl = [float("nan")] * 2
    if with_trl:
        of_trl = trl_trainer.iterations(case, folder, SETTINGS, rounds + 1, turn)
    else:
        for _ in range(rounds + 1):
            turn()
    learner, bare, trl = (statistics.median(taken[1:]) for taken in (*seconds, of_trl))
    return learner, bare, trl


def peak_of(
    kind: str, case: Case, folder: str, settings: dict[str, Any] | None = None
) -> tuple[float, float]:
    """Measures memory and time of two updates, with one separate process per learner.

    Returns:
        Largest additional memory of a process in MiB, and CPU seconds of the second update, summed
        over all processes.
    """
    context = multiprocessing.get_context("fork")
    count = (settings or {}).get("num_learners", 1)
    pipes, processes = [context.Pipe(duplex=False) for _ in range(count)], []
    with tempfile.TemporaryDirectory() as meeting:
        for rank, (_, sender) in enumerate(pipes):
            arguments = (kind, case, folder, settings or {}, rank, meeting, sender)
            processes.append(context.Process(target=_measure_peak, args=arguments))
            processes[-1].start()
        results = [receiver.recv() for receiver, _ in pipes]
        for process in processes:
            process.join()
    return max(peak for peak, _ in results), sum(seconds for _, seconds in results)


def _measure_peak(
    kind: str,
    case: Case,
    folder: str,
    settings: dict[str, Any],
    rank: int,
    meeting: str,
    sender: Any,
) -> None:
    torch.set_num_threads(1)
    if count := settings.get("num_learners"):
        where = f"file://{meeting}/meeting"
        torch.distributed.init_process_group("gloo", where, rank=rank, world_size=count)
    before = resident_mib()
    if kind == "bare":
        act = bare_update(case, folder)
    else:
        act = learner_update(case, folder, settings, rank)
    act()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    started = time.process_time()
    act()
    seconds = time.process_time() - started
    # A child would inherit ru_maxrss from a larger parent.
    status = Path("/proc/self/status").read_text()
    sender.send((int(status.split("VmHWM:")[1].split()[0]) / 2**10 - before, seconds))


def make_learner(folder: str, **settings: Any) -> Any:
    """Builds a learner in this process."""
    config: Any = GRPOConfig().environment("trca/ALFWorld-v0")
    config.learners(
        num_learners=settings.pop("num_learners", 0),
        num_gpus_per_learner=settings.pop("num_gpus", 0),
    )
    config.training(model=folder, **SETTINGS | settings)
    return config.build_learner(spaces={DEFAULT_MODULE_ID: (AnyText(), AnyText())})


def learner_update(
    case: Case, folder: str, settings: dict[str, Any] | None = None, rank: int = 0
) -> Callable[[], Any]:
    """Returns an update of `TextLearner`, including the reference's scores."""
    learner = make_learner(folder, **settings or {})
    rows = case.make_rows().shards((settings or {}).get("num_learners", 1))[rank]
    learner.updaters[DEFAULT_MODULE_ID].compared = True  # the log-probabilities are made up
    return lambda: learner.update(training_data=TrainingData(batch=rows), shuffle_key=(0,))


def bare_update(case: Case, folder: str) -> Callable[[], Any]:
    """Returns the same update by a plain loop."""
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
    """Saves a random model and a byte-level tokenizer with this number of tokens."""
    tokenizer = make_tokenizer(vocabulary)
    config = AutoConfig.for_model(**architecture | {"vocab_size": vocabulary})
    torch.manual_seed(0)
    with quiet():
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def make_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """Returns a tokenizer of all bytes, and of pairs and triples of bytes up to the size."""
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


def on_device(device: str) -> int:
    """Measures a device; returns 2 if the device is missing."""
    if device == "cuda" and not torch.cuda.is_available():
        print("--device cuda needs a GPU, and PyTorch finds no GPU", file=sys.stderr)
        return 2
    if device == "cuda":
        name = torch.cuda.get_device_name()
        model, case = ARCHITECTURES["Qwen/Qwen2.5-1.5B-Instruct"], Case(151_936, 2048, 512, 64)
    else:
        name, model, case = "CPU", {"model_type": "qwen3", **SMALL}, Case(520, 16, 8, 16)
    metrics = measure(model, case, device)
    peak = next((flops for part, flops in PEAK_FLOPS.items() if part in name), None)
    mfu = metrics["operations_per_second"] / peak if peak else None
    print(json.dumps({"device": name, **metrics, "mfu": mfu}, indent=1))
    return 0


def measure(
    architecture: dict[str, Any], case: Case, device: str, rounds: int = 3
) -> dict[str, float]:
    """Measures an update in bfloat16 with gradient checkpointing, and a push."""
    gpus = int(device == "cuda")
    rows = case.make_rows()

    def update() -> None:
        learner.update(training_data=TrainingData(batch=rows), shuffle_key=(0,))

    def push() -> dict[str, Any]:
        weights: dict[str, Any] = module.get_state(inference_only=True)
        engine.load_weights(weights, 1)
        return weights

    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), case.vocabulary, architecture)
        learner = make_learner(
            folder,
            num_gpus=gpus,
            dtype="bfloat16",
            gradient_checkpointing=True,
            micro_batch_tokens=4 * (case.prompt + case.response),
        )
        learner.updaters[DEFAULT_MODULE_ID].compared = True  # the log-probabilities are made up
        updating = median_seconds(update, rounds, device)
        peak = torch.cuda.max_memory_allocated() if gpus else 0
        module = learner.module[DEFAULT_MODULE_ID]
        spec = EngineSpec(model=folder, dtype="bfloat16", device=device)
        engine = ENGINES.get("transformers").open(spec)
        pushing = median_seconds(push, rounds, device)
    operations = sum(useful_operations(module.model, case))
    tokens = case.rows * (case.prompt + case.response)
    return {
        "tokens_per_second": tokens / updating,
        "operations_per_second": operations / updating,
        "update_seconds": updating,
        "peak_gib": peak / 2**30,
        "push_seconds": pushing,
        "push_gib": sum(array.nbytes for array in push().values()) / 2**30,
    }


def median_seconds(act: Callable[[], Any], rounds: int, device: str) -> float:
    """Returns the median wall-clock seconds of a call, after a warm-up call."""
    seconds = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        act()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def useful_operations(model: Any, case: Case) -> tuple[float, float]:
    """Returns the floating-point operations of an update for MFU, of the layers and of the head.

    Counts the policy's forward and backward passes and the reference's forward pass: 8 operations
    per weight and token, the head only at scored tokens, and causal attention. The second forward
    pass of gradient checkpointing does not count.
    """
    config = model.config
    head = model.get_output_embeddings().weight.numel()
    outside = model.get_input_embeddings().weight.numel()
    layers = sum(p.numel() for p in model.base_model.parameters()) - outside
    length = case.prompt + case.response
    width = config.num_attention_heads * getattr(
        config, "head_dim", config.hidden_size // config.num_attention_heads
    )
    attention = 2 * length * width * config.num_hidden_layers
    tokens, scored = case.rows * length, case.rows * (case.response - case.response // 2)
    return 4 * tokens * (2 * layers + attention), 4 * scored * 2 * head


if __name__ == "__main__":
    sys.exit(main())
