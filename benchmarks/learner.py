"""Time and memory of an update, against a bare PyTorch loop with the same loss on the same rows.

    OMP_NUM_THREADS=1 python benchmarks/learner.py [--rounds 7]
    OMP_NUM_THREADS=1 python benchmarks/learner.py --device cpu
    python benchmarks/learner.py --device cuda

The bare loop is what one would write in a script: rows sorted by length and padded, one forward
pass a micro-batch, the head at the counted tokens alone, AdamW. It imports nothing of the learner
but the rows. Where TRL is installed, its GRPOTrainer learns from the rows too. All take turns in
one process for their time (CPU seconds, the median of the rounds); the peak of the memory comes
from processes of their own. A second table has the learner's variants.

With ``--device cuda``: Qwen2.5-1.5B's shape at random weights in bfloat16, rows of 2,048 + 512
tokens: tokens/s, MFU, memory, and the seconds of a push to an engine. With ``--device cpu`` the
same with a small shape.
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
from trca.envs.text_space import AnyText
from trca.policies.engines import ENGINES
from trca.policies.engines.engine import EngineSpec
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
        common: First tokens of a prompt that each 8 rows have in common, as a rollout group has.
    """

    vocabulary: int
    prompt: int
    response: int
    rows: int
    common: int = 0

    def make_rows(self) -> Rows:
        """Random rows whose old log-probabilities are about those of the random model."""
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
            action=action,
            old_logprobs=logprobs,
            reference=np.zeros_like(logprobs),
            advantages=draw.normal(size=self.rows).astype(np.float32),
            weights=np.full(self.rows, 1.0 / self.rows),
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
    """Prints one row a case, and one a variant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", choices=["cpu", "cuda"])
    asked = parser.parse_args()
    if asked.device:
        return on_device(asked.device)
    torch.set_num_threads(1)
    lack = trl_trainer.missing_trl()
    print(
        "| vocabulary | rows | in common | learner s | bare s | ratio | TRL s | ratio |"
        " learner MiB | bare MiB |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            save_model(Path(folder), case.vocabulary, {"model_type": "qwen3", **SMALL})
            peaks = [peak_of(kind, case, folder)[0] for kind in ("learner", "bare")]
            learner, bare, trl = in_turns(case, folder, asked.rounds, with_trl=not lack)
        print(
            f"| {case.vocabulary:,} | {case.rows} x {case.prompt} + {case.response}"
            f" | {case.common} | {learner:.2f} | {bare:.2f} | {learner / bare:.2f} | {trl:.2f} |"
            f" {learner / trl:.2f} | {peaks[0]:,.0f} | {peaks[1]:,.0f} |",
            flush=True,
        )
    if lack:
        print(f"\n{lack}")
    print("\n| variant | MiB of a learner | CPU s of all |\n|---|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), VARIED.vocabulary, {"model_type": "qwen3", **SMALL})
        for name, settings in VARIANTS.items():
            peak, seconds = peak_of("learner", VARIED, folder, settings | SEVERAL_PASSES)
            print(f"| {name} | {peak:,.0f} | {seconds:.1f} |", flush=True)
    return 0


def in_turns(case: Case, folder: str, rounds: int, with_trl: bool) -> tuple[float, float, float]:
    """Median CPU seconds of an update of the learner, the bare loop and TRL, after a first one.

    Those of TRL are NaN without it.
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
    """Memory and time of two updates in processes of their own, one a learner.

    Returns:
        The most MiB that an update and all it needs add to a process, and the CPU seconds of the
        second update, over all processes.
    """
    context = multiprocessing.get_context("fork")
    count = (settings or {}).get("num_learners", 1)
    pipes, processes = [context.Pipe(duplex=False) for _ in range(count)], []
    with tempfile.TemporaryDirectory() as meeting:
        for rank, (_, sender) in enumerate(pipes):
            given = (kind, case, folder, settings or {}, rank, meeting, sender)
            processes.append(context.Process(target=_measure_peak, args=given))
            processes[-1].start()
        found = [receiver.recv() for receiver, _ in pipes]
        for process in processes:
            process.join()
    return max(peak for peak, _ in found), sum(seconds for _, seconds in found)


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
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making it
    started = time.process_time()
    act()
    seconds = time.process_time() - started
    # Not ru_maxrss, which a child inherits from a larger parent.
    status = Path("/proc/self/status").read_text()
    sender.send((int(status.split("VmHWM:")[1].split()[0]) / 2**10 - before, seconds))


def make_learner(folder: str, **settings: Any) -> Any:
    """A learner in this process."""
    config: Any = GRPOConfig().environment("trca/ALFWorld-v0")
    own = {name: settings.pop(name) for name in ("num_learners", "num_gpus") if name in settings}
    config.learners(
        num_learners=own.get("num_learners", 0), num_gpus_per_learner=own.get("num_gpus", 0)
    )
    config.training(model=folder, **SETTINGS | settings)
    return config.build_learner(spaces={DEFAULT_MODULE_ID: (AnyText(), AnyText())})


def learner_update(
    case: Case, folder: str, settings: dict[str, Any] | None = None, rank: int = 0
) -> Callable[[], Any]:
    """An update of `TextLearner`, the reference's scores included."""
    learner = make_learner(folder, **settings or {})
    rows = case.make_rows().shards((settings or {}).get("num_learners", 1))[rank]
    learner.updaters[DEFAULT_MODULE_ID].compared = True  # the log-probabilities are made up
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


def on_device(device: str) -> int:
    """Measures one device; 2 where it is not there."""
    if device == "cuda" and not torch.cuda.is_available():
        print("--device cuda needs a GPU, and PyTorch sees none here", file=sys.stderr)
        return 2
    if device == "cuda":
        name = torch.cuda.get_device_name()
        model, case = ARCHITECTURES["Qwen/Qwen2.5-1.5B-Instruct"], Case(151_936, 2048, 512, 64)
    else:
        name, model, case = "CPU", {"model_type": "qwen3", **SMALL}, Case(520, 16, 8, 16)
    found = measure(model, case, device)
    peak = next((flops for part, flops in PEAK_FLOPS.items() if part in name), None)
    mfu = found["operations_per_second"] / peak if peak else None
    print(json.dumps({"device": name, **found, "mfu": mfu}, indent=1))
    return 0


def measure(
    architecture: dict[str, Any], case: Case, device: str, rounds: int = 3
) -> dict[str, float]:
    """Speed and memory of an update in bfloat16 with gradient checkpointing, and of a push."""
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
    """Median wall-clock seconds of an act, after a first one."""
    seconds = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        act()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def useful_operations(model: Any, case: Case) -> tuple[float, float]:
    """Floating-point operations of an update that MFU counts: of the layers, and of the head.

    They are the policy's forward and backward passes and the reference's forward pass: 8 a weight
    and token, the head's at the scored tokens alone, and causal attention. The second forward pass
    of gradient checkpointing is not counted.
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
