"""``trca inspect``: a recorded rollout of a run, step by step, and why operators fired."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trca.cli.console import console, refusing, use_one_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trca.algorithms.records import Rollout, Step
    from trca.rubric import Judge
    from trca.tune_configs.settings import RunSettings


def inspect(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, or its name.")],
    iteration: Annotated[
        int | None, typer.Option(min=1, help="The iteration. [default: the last recorded]")
    ] = None,
    rollout: Annotated[
        int | None, typer.Option(min=0, help="Number of the rollout. [default: list them all]")
    ] = None,
    evaluation: Annotated[
        bool, typer.Option("--evaluation", help="Rollouts of the held-out evaluation.")
    ] = False,
    storage_path: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path(
        "outputs"
    ),
) -> None:
    """Show a recorded rollout as `trca play` would, and why its operators fired.

    - `trca inspect outputs/quickstart` lists the rollouts of the last iteration
    - `trca inspect outputs/quickstart --iteration 25 --rollout 3`
    - `trca inspect outputs/quickstart --iteration 25 --evaluation`
    """
    use_one_thread()
    from itertools import islice

    from trca.algorithms.records import read_rollouts
    from trca.cli.rollout_files import recorded
    from trca.cli.run_folder import RunFolder
    from trca.tune_configs.files import ConfigError
    from trca.tune_configs.settings import RunSettings

    with refusing(ConfigError, ValueError, OSError):
        folder = RunFolder.open(run, storage_path)
        name = "eval.jsonl" if evaluation else "train.jsonl"
        paths = recorded(folder, name, None if iteration is None else [iteration])
        path = paths[max(paths)]
        if rollout is None:
            _list(read_rollouts(path), path)
            return
        found = next(islice(read_rollouts(path), rollout, None), None)
        if found is None:
            count = sum(1 for _ in read_rollouts(path))
            raise ConfigError(f"--rollout {rollout}: {path} has {count} rollouts, from 0 on")
        settings = RunSettings.resolve(folder.read_config(), f"{folder.name}/config.yaml")
        _show(found, settings)


def _list(rollouts: Iterator[Rollout], path: Path) -> None:
    console.print(str(path), markup=False, style="bold")
    for number, rollout in enumerate(rollouts):
        foundational = sum(step.foundational for step in rollout.steps)
        breakthrough = sum(step.breakthrough for step in rollout.steps)
        console.print(
            f"{number:>4}  {'won ' if rollout.won else 'lost'}  {len(rollout.steps):>3} steps"
            f"  r^F {foundational:+.2f}  r^B {breakthrough:+.2f}  {rollout.task_id}",
            markup=False,
        )


def _show(rollout: Rollout, settings: RunSettings) -> None:
    from trca.cli.steps import (
        print_action,
        print_end,
        print_judgments,
        print_observation,
        print_reasons,
        print_task,
    )

    print_task(rollout.task_id, rollout.task_type)
    judge, adapter_class = _judge(settings) if rollout.operators else (None, None)
    if judge is not None and judge.library.ids != rollout.operators:
        console.print("The rubric library has changed since: no reasons are given.", style="red")
        judge = None
    after = [*(step.observation for step in rollout.steps), rollout.last_observation]
    print_observation(after.pop(0))
    for step, observation in zip(rollout.steps, after, strict=True):
        print_action(step.action, step.response)
        print_observation(observation)
        if not rollout.operators:
            continue
        fired = [rollout.operators[number] for number in step.judgments.nonzero()[0]]
        print_judgments(fired, step.foundational, step.breakthrough)
        if judge is not None:
            facts = _facts(adapter_class, step)
            reasons = judge.explain(_binding(adapter_class, rollout), facts)
            print_reasons({k: v for k, v in reasons.items() if k in fired}, judge.library)
    print_end(rollout.won, len(rollout.steps), sum(step.reward for step in rollout.steps))


def _judge(settings: RunSettings) -> tuple[Judge, Any]:
    """The judge of a run, and the adapter class of its environment."""
    from trca.cli.rollout_files import library_of
    from trca.envs.annotate import load_judge
    from trca.envs.registration import env_class

    adapter_class = env_class(settings.run.env).adapter_class
    library = library_of(settings)
    assert library is not None, "rollouts were judged"
    return load_judge(library, adapter_class), adapter_class


def _binding(adapter_class: Any, rollout: Rollout) -> Any:
    adapter = adapter_class()
    adapter.reset(rollout.instruction, rollout.steps[0].observation, ())
    return adapter.binding


def _facts(adapter_class: Any, step: Step) -> Any:
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in step.facts.items()}
    return adapter_class.facts_type(**values)
