"""Scaling of sampling with env runners, and cost of an iteration for the driver.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py runners --counts 1 4 16 64
    OMP_NUM_THREADS=1 python benchmarks/scaling.py driver
    OMP_NUM_THREADS=1 python benchmarks/scaling.py latencies --engine vllm --model FOLDER

`latencies` measures the latency of completions for 64 concurrent rollouts, a push of all weights,
and, with ``--device cuda``, sleep and wake of an engine that can sleep. `runners` plays real
rollouts on real env runners with a simulated engine, whose completions arrive after a random
latency. The runners mostly sleep, so that two cores can hold many runners. Every runner gets the
same number of groups. Efficiency is the time with the fewest runners divided by the time. `driver`
creates the records of a large iteration and measures all work of a driver: fetching, credit,
metrics, rows, the learners' shards, and the object store.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar, cast

import numpy as np
import torch

from trca.common.markdown import markdown_table
from trca.policies.engines.engine import Completion, Engine, EngineSpec, Request, SamplingParams

T = TypeVar("T")
LATENCY_S: Final = (1.000, 1.140, 1.270, 1.358, 1.428, 1.532, 1.631, 1.751, 1.954, 2.260)
"""Deciles of the seconds of a completion, 5% to 95%, measured by `latencies` for vLLM on two cores
with other work."""
MODEL: Final = "shrunk:Qwen/Qwen2.5-1.5B-Instruct"


class StandIn(Engine):
    """An engine without a model: each completion arrives after a random latency."""

    def __init__(self, spec: EngineSpec) -> None:
        from trca.policies.models import load_tokenizer

        text = "<think>x</think><action>look</action>"
        self._ids = np.array(load_tokenizer(spec.model)(text)["input_ids"], dtype=np.int32)
        self._due: list[tuple[float, int, Future[Completion]]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._open = True
        threading.Thread(target=self._deliver, daemon=True).start()

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Starts a completion."""
        draw = np.random.default_rng(request.seed).random() * (len(LATENCY_S) - 1)
        latency = float(np.interp(draw, range(len(LATENCY_S)), LATENCY_S))
        future: Future[Completion] = Future()
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + latency, next(self._count), future))
            self._changed.notify()
        return future

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Stores the version."""
        self.version = version

    def close(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._open = False
            self._changed.notify()

    def _deliver(self) -> None:
        while self._open:
            with self._changed:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                    continue
                future = heapq.heappop(self._due)[2]
            logprobs = np.full(len(self._ids), -0.1, np.float32)
            future.set_result(Completion(self._ids, logprobs, "stop", self.version))


def latencies(engine: str, model: str, device: str, dtype: str, count: int, steps: int) -> None:
    """Prints seconds of completions in a sampling phase, of a push, and of sleep and wake."""
    from trca.algorithms.rollouts.batch import GroupRequest
    from trca.algorithms.rollouts.play import RolloutLoop
    from trca.common.threads import run_to_end
    from trca.envs import make
    from trca.policies.engines import ENGINES
    from trca.policies.models import load_model, load_tokenizer
    from trca.policies.prompts import Prompter
    from trca.policies.weights import export_weights

    kind = ENGINES.get(engine)
    sleeps = device == "cuda" and kind.frees_memory
    options = {"sleep": True, "gpu_memory_utilization": 0.4} if sleeps else {}
    started = time.monotonic()
    opened = kind.open(EngineSpec(model, dtype, device, max_tokens=512, options=options))
    print(f"{engine} starts in {time.monotonic() - started:.1f} s")
    seconds: list[float] = []
    sampled: list[int] = []

    class Timed:
        """Records the seconds of each completion."""

        def __getattr__(self, name: str) -> Any:
            return getattr(opened, name)

        def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
            start = time.monotonic()
            future = opened.submit(request, sampling)
            future.add_done_callback(lambda _: seconds.append(time.monotonic() - start))
            future.add_done_callback(lambda done: sampled.append(len(done.result().ids)))
            return future

    tokenizer = load_tokenizer(model)
    loop = RolloutLoop(
        lambda split: make("alfworld", games="small", max_steps=steps, split=split),
        cast(Engine, Timed()),
        Prompter(tokenizer, "compact", 0, 256, memory=True),
        tokenizer,
    )
    tasks: Any = make("alfworld", games="small").unwrapped
    groups = [
        GroupRequest(k, tasks.task_ids[k], "train", 8, ("latencies", k)) for k in range(count // 8)
    ]
    for _ in range(2):  # the first run is a warm-up
        seconds.clear()
        sampled.clear()
        phase = seconds_of(loop.run, groups, SamplingParams(1.0, 24))
    deciles = np.quantile(seconds, np.linspace(0.05, 0.95, 10))
    print(f"{engine}: {len(seconds)} completions, mean {np.mean(seconds):.3f} s, 5% to 95%:")
    print(", ".join(f"{second:.3f}" for second in deciles))
    print("over the median:", ", ".join(f"{s / np.median(seconds):.2f}" for s in deciles))
    print(f"the phase: {phase:.1f} s, {sum(sampled) / phase:.0f} tokens per second")
    run_to_end(loop.pool.close())
    weights = export_weights(load_model(model, dtype))
    gib = sum(array.nbytes for array in weights.values()) / 2**30
    for version in (1, 2, 3):
        print(f"push of {gib:.2f} GiB: {seconds_of(opened.load_weights, weights, version):.2f} s")
    if sleeps:
        ids = np.array(tokenizer("look")["input_ids"], dtype=np.int32)
        for _ in range(2):
            awake = torch.cuda.mem_get_info()[0]
            asleep = seconds_of(opened.sleep)
            freed = (torch.cuda.mem_get_info()[0] - awake) / 2**30
            woken = seconds_of(
                lambda: opened.submit(Request(ids, 0), SamplingParams(1.0, 1)).result()
            )
            print(
                f"sleep: {asleep:.2f} s, frees {freed:.1f} GiB; wake with one token: {woken:.2f} s"
            )
    opened.close()


def seconds_of(call: Callable[..., Any], *arguments: Any) -> float:
    """Returns the seconds of a call."""
    started = time.monotonic()
    call(*arguments)
    return time.monotonic() - started


def runners(counts: list[int], groups: int, steps: int) -> None:
    """Prints the seconds of a sampling phase for each number of runners."""
    import ray

    config = _config(steps).env_runners(num_cpus_per_env_runner=0.01)
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        lines, fewest = [], 0.0
        for count in counts:
            algorithm = config.copy().env_runners(num_env_runners=count).build_algo()
            tasks = algorithm.panel("train").task_ids
            group = algorithm.env_runner_group
            _sample(group, _requests(tasks, count, "warm"))  # engines are made on first use
            batch, seconds, cpu = _sample(group, _requests(tasks, count * groups, "measured"))
            done = sum(r.env_steps() for r in batch.rollouts)
            fewest = fewest or seconds
            times = (f"{seconds:.2f}", f"{done / seconds:.0f}", f"{fewest / seconds:.2f}")
            lines.append([count, len(batch.rollouts), *times, f"{cpu:.2f}"])
            algorithm.stop()
        ray.shutdown()
    head = ("runners", "rollouts", "seconds", "steps/s", "efficiency", "driver's CPU s")
    print(markdown_table(head, lines, text_columns=0), end="")


def _sample(group: Any, requests: list[Any]) -> tuple[Any, float, float]:
    """Returns the rollouts, the seconds, and the driver's seconds of processor time."""
    from trca.algorithms.rollouts.sampling import sample_groups

    start, cpu = time.perf_counter(), time.process_time()
    batch, _ = sample_groups(group, requests, SamplingParams(1.0, 64), 3600.0)
    if batch.failures:
        raise RuntimeError(batch.failures[0].reason)
    return batch, time.perf_counter() - start, time.process_time() - cpu


def _requests(tasks: Any, number: int, key: str) -> list[Any]:
    from trca.algorithms.rollouts.batch import GroupRequest

    return [
        GroupRequest(k, tasks[k % len(tasks)], "train", 2, (key, k), None) for k in range(number)
    ]


def _config(steps: int) -> Any:
    from trca.algorithms import ALGORITHMS

    config: Any = ALGORITHMS["TRCA"].get_default_config()
    return config.environment(
        "trca/ALFWorld-v0", env_config={"games": "small", "max_steps": steps}
    ).training(
        model=MODEL,
        engine=f"{os.path.abspath(__file__)}:StandIn",
        template="compact",
        max_prompt_tokens=512,
        max_new_tokens=64,
    )


def driver(count: int, steps: int, prompt: int, response: int, learners: int) -> None:
    """Prints seconds and bytes of the driver in an iteration."""
    import ray

    from trca.algorithms.base.metrics import credit_metrics, rollout_metrics
    from trca.algorithms.learner.rows import make_rows
    from trca.algorithms.rollouts.batch import RolloutBatch
    from trca.algorithms.rules.trca import TRCAParameters, trca
    from trca.records import StepBatch, assign_advantages
    from trca.rubric import Budgets

    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=folder,
            object_store_memory=8 << 30,
        )
        table: list[tuple[str, float, float, int]] = []

        def measured(name: str, act: Callable[[], T], size: Callable[[T], int] = lambda _: 0) -> T:
            start, cpu = time.perf_counter(), time.process_time()
            result = act()
            spent = (time.perf_counter() - start, time.process_time() - cpu)
            table.append((name, *spent, size(result)))
            return result

        made = [RolloutBatch(_rollouts(k, count // 64, steps, prompt, response)) for k in range(64)]
        parts = [ray.put(part) for part in made]
        del made
        rollouts = measured(
            "fetch the rollouts",
            lambda: [r for part in parts for r in ray.get(part).rollouts],
            lambda rollouts: sum(_record_bytes(r) for r in rollouts),
        )
        categories = np.repeat(np.arange(3, dtype=np.int8), 5)
        batch = measured("columns", lambda: StepBatch.from_rollouts(rollouts, categories))
        parameters = TRCAParameters()
        measured("credit", lambda: assign_advantages(rollouts, trca(batch, parameters)))
        names = [f"o{k}" for k in range(15)]
        measured(
            "metrics",
            lambda: (rollout_metrics(rollouts), credit_metrics(rollouts, batch, Budgets(), names)),
        )
        rows = measured("rows", lambda: make_rows(rollouts, parameters), _rows_bytes)
        shards = measured(
            f"shares of {learners} learners",
            lambda: rows.shards(learners),
            lambda shards: sum(map(_rows_bytes, shards)),
        )
        measured(
            "put them",
            lambda: [ray.put(shard) for shard in shards],
            lambda refs: sum(map(_rows_bytes, shards)),
        )
        ray.shutdown()
    print(f"{count:,} rollouts of {steps} steps, {prompt} + {response} tokens per step\n")
    lines = [
        [name, f"{seconds:.2f}", f"{cpu:.2f}", f"{size / 1e6:,.0f}"]
        for name, seconds, cpu, size in table
    ]
    walls, cpus = sum(line[1] for line in table), sum(line[2] for line in table)
    lines.append(["together", f"{walls:.2f}", f"{cpus:.2f}", ""])
    print(markdown_table(["driver", "seconds", "CPU seconds", "MB"], lines), end="")


def _rollouts(part: int, count: int, steps: int, prompt: int, response: int) -> list[Any]:
    """Returns records of rollouts with random tokens."""
    from trca.records import Rollout, Step

    rng = np.random.default_rng(part)
    judgments = (rng.random((count, steps, 15)) < 0.1).astype(np.uint8)
    lengths = rng.integers(response // 2, response * 3 // 2 + 1, size=(count, steps))
    prompts = rng.integers(0, 150_000, size=(count, steps, prompt), dtype=np.int32)
    rollouts = []
    for i in range(count):
        made = []
        for t in range(steps):
            ids = rng.integers(0, 150_000, size=lengths[i, t], dtype=np.int32)
            mask = np.zeros(len(ids), dtype=bool)
            mask[-10:] = True
            made.append(
                Step(
                    prompt_ids=prompts[i, t],
                    response_ids=ids,
                    action_mask=mask,
                    old_logprobs=rng.random(len(ids), dtype=np.float32),
                    observation=f"You see drawer {t} and a shelf. " * 8,
                    response="<think>" + "word " * len(ids) + "</think>",
                    action=f"go to drawer {t % 7}",
                    context=f"drawer {t % 9}",
                    next_context=f"drawer {(t + 1) % 9}",
                    reward=0.0,
                    judgments=judgments[i, t],
                    parsed=True,
                    accepted=t % 5 > 0,
                )
            )
        group = part * (count // 8) + i // 8
        rollouts.append(Rollout("task", "train", "Pick", group, i % 8, 1, steps=made))
    return rollouts


def _record_bytes(rollout: Any) -> int:
    return sum(
        step.prompt_ids.nbytes
        + step.response_ids.nbytes
        + step.action_mask.nbytes
        + step.old_logprobs.nbytes
        + step.judgments.nbytes
        + len(step.observation)
        + len(step.response)
        for step in rollout.steps
    )


def _rows_bytes(rows: Any) -> int:
    return sum(column.nbytes for column in vars(rows).values() if isinstance(column, np.ndarray))


def main() -> None:
    """Runs one part of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["runners", "driver", "latencies"])
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--groups", type=int, default=1, help="rollout groups per runner")
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--rollouts", type=int, default=64 * 128)
    parser.add_argument("--prompt", type=int, default=400)
    parser.add_argument("--response", type=int, default=40)
    parser.add_argument("--learners", type=int, default=64)
    parser.add_argument("--engine", default="transformers", help="of latencies")
    parser.add_argument("--model", help="of latencies: folder of a model")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of latencies")
    parser.add_argument("--dtype", default="float32", help="of latencies: precision")
    asked = parser.parse_args()
    if asked.part == "latencies":
        latencies(asked.engine, asked.model, asked.device, asked.dtype, 64, asked.steps or 16)
    elif asked.part == "runners":
        runners(asked.counts, asked.groups, asked.steps or 10)
    else:
        steps = asked.steps or 50
        driver(asked.rollouts, steps, asked.prompt, asked.response, asked.learners)


if __name__ == "__main__":
    main()
