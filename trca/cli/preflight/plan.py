"""The plan of a run: batches, tokens, memory of each process and GPU, and panels. Runs nothing."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trca.cli.preflight.size import Shape, engine, learner, machine, row_cache_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from trca.algorithms.settings.parameters import TextParameters
    from trca.cli.preflight.preflight import Preflight

    _Rows = list[tuple[str, str, str]]

_COMMON_GB: Final = 80.0
_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class GPUs:
    """The GPUs that a run is planned for, each with a memory in 10^9 bytes.

    A card of 80 GiB has 6 GB more, for CUDA's contexts and fragments.
    """

    count: int
    gigabytes: float

    @classmethod
    def parse(cls, text: str) -> GPUs:
        """Reads ``4x80``: four GPUs of 80 GB; raises a `ValueError` for another form."""
        match = re.fullmatch(r"([1-9]\d*)x(\d+(?:\.\d+)?)", text)
        if match is None or not float(match[2]):
            raise ValueError(f"--gpus is {text!r}: give number x gigabytes, such as 4x80")
        return cls(int(match[1]), float(match[2]))

    @classmethod
    def asked(cls, settings: TextParameters) -> GPUs:
        """The GPUs that the run requests, each of the size of this machine's GPU, else 80 GB."""
        import torch

        size = _COMMON_GB
        if torch.cuda.is_available() and not os.environ.get("RAY_ADDRESS"):
            size = torch.cuda.get_device_properties(0).total_memory / 1e9
        return cls(next(n for n in count() if place(settings, n) is not None), size)


def place(settings: TextParameters, gpus: int) -> list[list[str]] | None:
    """The processes on each GPU, ``engine`` or ``learner``; `None` if the GPUs are too few.

    Env runners start first, and Ray fills the fullest GPU. Ray does not place the driver, which
    computes on the first GPUs.
    """
    free = [1.0] * gpus
    placed: list[list[str]] = [[] for _ in free]
    asked = [("engine", settings.num_gpus_per_env_runner)] * settings.num_env_runners
    asked += [("learner", settings.num_gpus_per_learner)] * settings.num_learners
    for name, share in asked:
        for part in [1.0] * int(share) if share >= 1 else [share] * (share > 0):
            fitting = [k for k in range(gpus) if free[k] >= part - 1e-9]
            if not fitting:
                return None
            best = min(fitting, key=lambda k: (free[k], k))
            free[best] -= part
            placed[best].append(name)
    for name, share in settings.driver_gpus().items():
        if share > gpus:
            return None
        for k in range(math.ceil(share)):
            placed[k].append(name)
    return placed


def problems(settings: TextParameters, shape: Shape, gpus: GPUs) -> list[str]:
    """The parts of the run that do not fit, one sentence each."""
    placed = place(settings, gpus.count)
    if placed is None:
        asked = settings.resources()[1]
        return [f"the run asks for {asked:g} GPUs in its shares, and the machine has {gpus.count}"]
    wrong = []
    memory = engine(settings, shape, gpus.gigabytes * 1e9)
    if memory.rollouts_at_once(row_cache_bytes(settings, shape)) < 1:
        wrong.append("an engine has no room for the keys and values of one rollout")
    for names in placed:
        if (need := _together(settings, shape, gpus, names)) > gpus.gigabytes * 1e9:
            wrong.append(f"a GPU needs at least {_bytes(need)} and has {gpus.gigabytes:g} GB")
        if names.count("learner") > 1:
            wrong.append(
                f"a GPU has {names.count('learner')} learners, and NCCL allows one: give"
                " num_gpus_per_env_runner more than a half where they share GPUs"
            )
    return list(dict.fromkeys(wrong))


def smaller(settings: TextParameters, gpus: GPUs) -> list[str]:
    """Settings that need less memory than those of the run, for ``--set``."""
    from trca.policies.engines import engine_class

    kind = engine_class(settings.engine)
    placed = place(settings, gpus.count)
    if placed is None:
        return ["num_env_runners", "num_learners", "num_gpus_per_env_runner, num_gpus_per_learner"]
    longest = settings.max_prompt_tokens + settings.max_new_tokens
    names = {
        "engine_config.sleep=true": kind.frees_memory
        and not _sleeps(settings)
        and any({"engine", "learner"} <= set(each) for each in placed),
        "gradient_checkpointing=true": not settings.gradient_checkpointing,
        "sync_each_pass=true": settings.sharding == "fsdp" and not settings.sync_each_pass,
        "sharding=fsdp and more num_learners": settings.sharding == "none" and gpus.count > 1,
        f"micro_batch_tokens, from {longest}": settings.micro_batch_tokens > longest,
        "lora_rank=16": kind.takes_adapters and not settings.lora_rank,
        "dtype=bfloat16": settings.dtype == "float32",
        f"engine_config.{kind.split_option}": bool(kind.split_option) and gpus.count > 1,
        "max_prompt_tokens, max_new_tokens": True,
    }
    return [name for name, applies in names.items() if applies]


def _together(settings: TextParameters, shape: Shape, gpus: GPUs, names: list[str]) -> float:
    """Bytes of the processes on one GPU."""
    memory, needs = engine(settings, shape, gpus.gigabytes * 1e9), learner(settings, shape)
    engines = names.count("engine") * (memory.weights + memory.cache)
    held = names.count("learner") * sum(needs.held.values())
    computing = names.count("learner") * sum(needs.computing.values())
    if _sleeps(settings):  # the engine holds nothing while a learner computes
        return held + max(engines, computing)
    return engines + held + computing


def _sleeps(settings: TextParameters) -> bool:
    from trca.policies.engines import engine_class

    frees = engine_class(settings.engine).frees_memory
    return frees and bool(settings.engine_config.get("sleep"))


def plan(preflight: Preflight, gpus: GPUs | None = None) -> Table:
    """The plan as a table for the terminal; by default for the GPUs that the run asks for."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(style="bold", overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    gpus = gpus or GPUs.asked(preflight.settings)
    for rows in (_batches(preflight), *_memory(preflight, gpus), _panels(preflight)):
        for row in rows:
            table.add_row(*row)
        table.add_section()
    return table


def _batches(preflight: Preflight) -> _Rows:
    settings = preflight.settings
    rollouts = settings.trajectories_per_iteration
    step_limit = preflight.step_limit()
    steps = rollouts * step_limit
    updates = -(-steps // settings.minibatch_size) * settings.num_epochs
    refill = f", up to {settings.refill_groups} more" if settings.refill_groups else ""
    groups = f"an iteration: {settings.tasks_per_iteration} groups of {settings.group_size}"
    whole = f"{rollouts * settings.iterations:,}", f"{settings.iterations} iterations"
    return [
        ("rollouts", f"{rollouts:,}", groups + refill),
        ("rollouts in all", *whole),
        ("steps", f"at most {steps:,}", f"an iteration; an episode has at most {step_limit}"),
        ("updates", f"at most {updates:,}", f"an iteration, of {settings.minibatch_size} steps"),
        ("tokens read", f"at most {steps * settings.max_prompt_tokens:,}", "an iteration"),
        ("tokens written", f"at most {steps * settings.max_new_tokens:,}", "an iteration"),
    ]


def _panels(preflight: Preflight) -> _Rows:
    try:
        panels = preflight.panels()
    except FileNotFoundError:
        return [("panels", "-", "data missing")]
    return [
        (f"panel, {name}", panel.hash, f"{panel.split}, {len(panel.task_ids):,} tasks")
        for name, panel in panels.items()
    ]


def _memory(preflight: Preflight, gpus: GPUs) -> Iterator[_Rows]:
    """The model, and the memory of a learner, an engine, the machine and the GPUs."""
    from trca.policies.model_names import TINY

    settings = preflight.settings
    try:
        shape = Shape.of(settings)
    except OSError:
        yield [("model", "-", f"{settings.model} is not on this machine: not counted")]
        return
    at_most = "at most " if settings.model == TINY and not preflight.model_folder else ""
    about = f"parameters, {shape.dtype}: {settings.model}"
    rows = [("model", f"{at_most}{shape.parameters:,}", about)]
    if rank := settings.lora_rank:
        rows += [("trained", f"{shape.trained(rank):,}", f"LoRA of rank {rank}")]
    yield rows
    needs = learner(settings, shape)
    yield [
        (_each("learner", settings.num_learners), _bytes(needs.total), "at least"),
        *((f"  {part}", _bytes(size), "") for part, size in needs.held.items()),
        *((f"  {part}", _bytes(size), "during a pass") for part, size in needs.computing.items()),
    ]
    memory = engine(settings, shape, gpus.gigabytes * 1e9)
    at_once = memory.rollouts_at_once(row_cache_bytes(settings, shape))
    total = _bytes(memory.weights + memory.cache)
    yield [
        (_each("engine", settings.num_env_runners), total, "at least"),
        ("  weights", _bytes(memory.weights), ""),
        ("  KV cache", _bytes(memory.cache), ""),
        ("  rollouts at once", f"{at_once:,}", f"of {memory.rows:,}, at their longest"),
    ]
    parts = machine(settings, shape)
    need = sum(parts.values())
    rows = [("machine", _bytes(need), "at least, all processes, besides GPUs")]
    rows += [(f"  {part}", _bytes(size), "") for part, size in parts.items()]
    if not os.environ.get("RAY_ADDRESS"):
        enough = "[green]enough[/]" if need <= memory_here() else "[red]too little[/]"
        rows += [("  this machine has", _bytes(memory_here()), enough)]
    yield rows
    if gpus.count:
        yield _gpus(settings, shape, gpus)


def _gpus(settings: TextParameters, shape: Shape, gpus: GPUs) -> _Rows:
    """The memory of each GPU, one row for neighbours with the same processes, and the verdict."""
    rows, first = [], 0
    for names, equal in groupby(place(settings, gpus.count) or []):
        last = first + len(list(equal)) - 1
        which = f"GPU {first}" if first == last else f"GPUs {first} to {last}, each"
        used = " and ".join(f"{names.count(n)} {n}" for n in dict.fromkeys(names)) or "unused"
        need = _bytes(_together(settings, shape, gpus, names))
        rows.append((which, need, f"at least, of {gpus.gigabytes:g} GB: {used}"))
        first = last + 1
    wrong = problems(settings, shape, gpus)
    if not wrong:
        about = "logits, the layer that computes and CUDA come on top"
        return [*rows, ("memory", "[green]fits[/]", about)]
    rows += [("memory", "[red]does not fit[/]", each) for each in wrong]
    return [*rows, ("  smaller with", "", "; ".join(smaller(settings, gpus)))]


def memory_here() -> float:
    """Bytes of memory of this machine, or of the container that limits this process."""
    import psutil

    total = float(psutil.virtual_memory().total)
    try:
        limit = _CGROUP.read_text("ascii").strip()
    except OSError:
        return total
    return min(total, float(limit)) if limit.isdigit() else total


def _each(name: str, count: int) -> str:
    return f"each of {count} {name}s" if count > 1 else f"the {name}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
