"""The plan of a run: batches, tokens, memory of each GPU, seconds and panels. Runs nothing."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trca.cli.preflight.duration import GPU, Work
from trca.cli.preflight.size import (
    Shape,
    engine,
    learner,
    machine,
    policy_count,
    row_cache_bytes,
)
from trca.runs.refusals import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from trca.algorithms.settings.parameters import TextParameters
    from trca.cli.preflight.preflight import Preflight

_COMMON_GB: Final = 80.0
_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class GPUs:
    """The GPUs that a run is planned for.

    Attributes:
        count: How many there are.
        gigabytes: Memory of each, in 10^9 bytes. A card of 80 GiB has 6 GB more, for CUDA's
            contexts and fragments.
    """

    count: int
    gigabytes: float

    @classmethod
    def parse(cls, text: str) -> GPUs:
        """Reads ``4x80``: four GPUs of 80 GB.

        Raises:
            ValueError: For another form.
        """
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
    """Which processes meet on each GPU: runners start first, and Ray fills the fullest GPU.

    Ray does not place the driver, which computes on the first GPUs.

    Args:
        settings: Settings.
        gpus: Number of GPUs.

    Returns:
        ``engine`` and ``learner`` by GPU; `None` if the GPUs are too few.
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
    for k, names in enumerate(placed):
        need = _together(settings, shape, gpus, names)
        if need > gpus.gigabytes * 1e9:
            wrong.append(f"GPU {k} needs at least {_bytes(need)} and has {gpus.gigabytes:g} GB")
        if names.count("learner") > 1:
            wrong.append(
                f"GPU {k} has {names.count('learner')} learners, and NCCL allows one: give"
                " num_gpus_per_env_runner more than a half where they share GPUs"
            )
    return wrong


def mends(settings: TextParameters, shape: Shape, gpus: GPUs) -> list[str]:
    """Changes of settings with which the run fits: single changes, else several together."""
    more, fewer = [], dict[str, Any]()
    if place(settings, gpus.count) is None:
        more = [f"more GPUs: --gpus {GPUs.asked(settings).count}x{gpus.gigabytes:g}"]
        fewer = _fewer_processes(settings, gpus)
        if not fewer:
            return more
    there = _with(settings, fewer)
    if fewer and not problems(there, shape, gpus):
        return [_assignments(fewer), *more]
    alone, together = [], fewer
    for change in _changes(there, gpus):
        if not problems(_with(there, change), shape, gpus):
            alone.append(_assignments(fewer | change))
    if alone:
        return alone + more
    for change in _changes(there, gpus):
        together = together | change
        if not problems(_with(settings, together), shape, gpus):
            return [_assignments(together), *more]
    return more or [f"more or larger GPUs, beside {_assignments(together)}"]


def _fewer_processes(settings: TextParameters, gpus: GPUs) -> dict[str, Any]:
    """The most env runners and learners that have a place on the GPUs; empty without a place."""
    for most in range(gpus.count, 0, -1):
        change = {
            "num_env_runners": min(settings.num_env_runners, most),
            "num_learners": min(settings.num_learners, most),
        }
        if place(_with(settings, change), gpus.count) is not None:
            return change
    return {}


def _changes(settings: TextParameters, gpus: GPUs) -> Iterator[dict[str, Any]]:
    """Changes of settings that save memory and that the engine takes, the cheapest first."""
    from trca.policies.engines import engine_class

    longest = settings.max_prompt_tokens + settings.max_new_tokens
    shared = any({"engine", "learner"} <= set(each) for each in place(settings, gpus.count) or [])
    if shared and engine_class(settings.engine).frees_memory and not _sleeps(settings):
        yield {"engine_config": {**settings.engine_config, "sleep": True}}
    if settings.sharding == "fsdp" and not settings.sync_each_pass:
        yield {"sync_each_pass": True}
    if not settings.gradient_checkpointing:
        yield {"gradient_checkpointing": True}
    budget = settings.micro_batch_tokens // 2
    while budget >= longest:
        yield {"micro_batch_tokens": budget}
        budget //= 2
    shareable = policy_count(settings) == 1 and not getattr(settings, "critic", "")
    if settings.sharding == "none" and shareable and gpus.count > 1:
        share = settings.num_gpus_per_learner or 1
        learners = max(gpus.count if share <= 1 else 2, settings.num_learners)
        yield {"sharding": "fsdp", "num_learners": learners, "sync_each_pass": True}
    if not settings.lora_rank and engine_class(settings.engine).takes_adapters:
        for precision in ({}, {"dtype": "bfloat16"}):
            change: dict[str, Any] = {"lora_rank": 16, **precision}
            if not _refused(settings, change):
                yield change
                break
    if split_option := engine_class(settings.engine).split_option:
        for split in (2, 4, 8):
            if split <= gpus.count:
                yield {
                    "engine_config": {**settings.engine_config, split_option: split},
                    "num_gpus_per_env_runner": split,
                }


def _refused(settings: TextParameters, change: dict[str, Any]) -> bool:
    """Whether the engine refuses the run with changed settings."""
    from trca.cli.preflight.preflight import model_folder
    from trca.policies.engines import engine_class
    from trca.policies.engines.engine import EngineSpec

    parameters = _with(settings, change)
    spec = EngineSpec(
        model_folder(settings) or parameters.model,
        parameters.dtype,
        "cuda" if settings.num_gpus_per_env_runner else "cpu",
        parameters.max_prompt_tokens + parameters.max_new_tokens,
        parameters.lora_rank,
        parameters.lora_alpha,
        parameters.engine_config,
    )
    try:
        engine_class(parameters.engine).check(spec)
    except ValueError:
        return True
    except OSError:  # a model elsewhere
        return False
    return False


def _with(settings: TextParameters, change: dict[str, Any]) -> TextParameters:
    return settings.model_copy(update=change)


def _assignments(change: dict[str, Any]) -> str:
    """The changes as values of ``--set``, quoted for a shell; each value is YAML on one line."""
    values = {k: v if isinstance(v, str) else json.dumps(v) for k, v in change.items()}
    return " ".join(quoted(f"{key}={value}") for key, value in values.items())


def _together(settings: TextParameters, shape: Shape, gpus: GPUs, names: list[str]) -> float:
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
    """The plan as a table for the terminal.

    Args:
        preflight: The settings, the environments and the model's folder.
        gpus: The GPUs of the machine; by default those that the run asks for.
    """
    from rich import box
    from rich.table import Table

    settings = preflight.settings
    rollouts = settings.trajectories_per_iteration
    step_limit = preflight.environments.step_limit(settings)
    steps = rollouts * step_limit
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(style="bold", overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    groups = f"an iteration: {settings.tasks_per_iteration} groups of {settings.group_size}"
    groups += f", up to {settings.refill_groups} more" if settings.refill_groups else ""
    updates = -(-steps // settings.minibatch_size) * settings.num_epochs
    table.add_row("rollouts", f"{rollouts:,}", groups)
    table.add_row(
        "rollouts in all",
        f"{rollouts * settings.iterations:,}",
        f"{settings.iterations} iterations",
    )
    for name, most, about in (
        ("steps", steps, f"an iteration; an episode has at most {step_limit}"),
        ("updates", updates, f"an iteration, of {settings.minibatch_size} steps"),
        ("tokens read", steps * settings.max_prompt_tokens, "an iteration"),
        ("tokens written", steps * settings.max_new_tokens, "an iteration"),
    ):
        table.add_row(name, f"at most {most:,}", about)
    table.add_section()
    _add_model(table, preflight, gpus or GPUs.asked(settings))
    table.add_section()
    try:
        for name, panel in preflight.panels().items():
            tasks = f"{panel.split}, {len(panel.task_ids):,} tasks"
            table.add_row(f"panel, {name}", panel.hash, tasks)
    except FileNotFoundError:
        table.add_row("panels", "-", "data missing")
    return table


def _add_model(table: Table, preflight: Preflight, gpus: GPUs) -> None:
    from trca.policies.model_names import TINY

    settings = preflight.settings
    try:
        shape = Shape.of(settings)
    except OSError:
        table.add_row("model", "-", f"{settings.model} is not on this machine: not counted")
        return
    at_most = "at most " if settings.model == TINY and not preflight.model_folder else ""
    about = f"parameters, {shape.dtype}: {settings.model}"
    table.add_row("model", f"{at_most}{shape.parameters:,}", about)
    if settings.lora_rank:
        about = f"LoRA of rank {settings.lora_rank}"
        table.add_row("trained", f"{shape.trained(settings.lora_rank):,}", about)
    table.add_section()
    needs = learner(settings, shape)
    table.add_row(_each("learner", settings.num_learners), _bytes(needs.total), "at least")
    for parts, about in ((needs.held, ""), (needs.computing, "during a pass")):
        for part, size in parts.items():
            table.add_row(f"  {part}", _bytes(size), about)
    table.add_section()
    memory = engine(settings, shape, gpus.gigabytes * 1e9)
    total = memory.weights + memory.cache
    table.add_row(_each("engine", settings.num_env_runners), _bytes(total), "at least")
    table.add_row("  weights", _bytes(memory.weights), "")
    table.add_row("  KV cache", _bytes(memory.cache), "")
    fitting = memory.rollouts_at_once(row_cache_bytes(settings, shape))
    table.add_row("  rollouts at once", f"{fitting:,}", f"of {memory.rows:,}, at their longest")
    table.add_section()
    _add_machine(table, settings, shape)
    if gpus.count:
        table.add_section()
        _add_gpus(table, settings, shape, gpus)
        if any(placed := place(settings, gpus.count) or []):
            limit = preflight.environments.step_limit(settings)
            work = Work.of(settings, shape, gpus.gigabytes * 1e9, placed, limit)
            table.add_section()
            for name, seconds, about in work.rows():
                table.add_row(name, f"{seconds:,.0f} s", about)
            table.add_row("  assumed", "", GPU.words(settings))


def _each(name: str, count: int) -> str:
    return f"each of {count} {name}s" if count > 1 else f"the {name}"


def _add_machine(table: Table, settings: TextParameters, shape: Shape) -> None:
    """The memory besides GPUs: each part, the sum, and the memory of this machine."""
    parts = machine(settings, shape)
    total = sum(parts.values())
    table.add_row("machine", _bytes(total), "at least, all processes, besides GPUs")
    for part, size in parts.items():
        table.add_row(f"  {part}", _bytes(size), "")
    if not os.environ.get("RAY_ADDRESS"):
        present = memory_here()
        enough = "[green]enough[/]" if total <= present else "[red]too little[/]"
        table.add_row("  this machine has", _bytes(present), enough)


def memory_here() -> float:
    """Bytes of memory of this machine, or of the container that limits this process."""
    import psutil

    total = float(psutil.virtual_memory().total)
    try:
        limit = _CGROUP.read_text("ascii").strip()
    except OSError:
        return total
    return min(total, float(limit)) if limit.isdigit() else total


def _add_gpus(table: Table, settings: TextParameters, shape: Shape, gpus: GPUs) -> None:
    placed = place(settings, gpus.count)
    for first, last, names in _runs(placed or []):
        which = f"GPU {first}" if first == last else f"GPUs {first} to {last}, each"
        used = " and ".join(f"{names.count(n)} {n}" for n in dict.fromkeys(names)) or "unused"
        need = _bytes(_together(settings, shape, gpus, names))
        table.add_row(which, need, f"at least, of {gpus.gigabytes:g} GB: {used}")
    wrong = problems(settings, shape, gpus)
    if not wrong:
        table.add_row(
            "memory", "[green]fits[/]", "logits, the layer that computes and CUDA come on top"
        )
    else:
        for each in dict.fromkeys(re.sub(r"^GPU \d+ ", "a GPU ", w) for w in wrong):
            table.add_row("memory", "[red]does not fit[/]", each)
        for each in mends(settings, shape, gpus):
            table.add_row("  mend", "", each)


def _runs(placed: list[list[str]]) -> Iterator[tuple[int, int, list[str]]]:
    """Neighbouring GPUs with the same processes on them."""
    first = 0
    for k, names in enumerate(placed):
        if k + 1 == len(placed) or placed[k + 1] != names:
            yield first, k, names
            first = k + 1


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
