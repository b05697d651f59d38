"""``trca inspect``: a recorded rollout of a run, step by step, and why operators fired."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trca.cli.show.console import console, refusing, use_one_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trca.algorithms.settings.parameters import TextParameters
    from trca.records import Rollout


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
    prompts: Annotated[
        bool,
        typer.Option("--prompts", help="Show prompts instead of observations."),
    ] = False,
    storage_path: Annotated[str, typer.Option(help="Folder or URI that holds the runs.")] = (
        "outputs"
    ),
) -> None:
    """Show a recorded rollout step by step: actions, credit, and why its operators fired.

    r^F and r^B are the rubric rewards of a step, and A is its advantage, which held-out rollouts
    do not have. `trca view` shows the parts of A too.

    - `trca inspect outputs/quickstart` lists the rollouts of the last iteration
    - `trca inspect outputs/quickstart --iteration 25 --rollout 3`
    - `trca inspect outputs/quickstart --iteration 25 --evaluation`
    - `trca inspect outputs/quickstart --rollout 3 --prompts`
    """
    use_one_thread()
    from itertools import islice

    from trca.algorithms.settings.parameters import TextParameters
    from trca.records import read_rollouts
    from trca.runs.folder import RunFolder
    from trca.runs.rollout_files import read_prompts, recorded
    from trca.tune_configs.files import ConfigError

    with refusing(ConfigError, ValueError, OSError):
        folder = RunFolder.open_run(run, storage_path)
        name = "eval.jsonl" if evaluation else "train.jsonl"
        paths = recorded(folder, name, None if iteration is None else [iteration])
        path = paths[max(paths)]
        if rollout is None:
            _list(read_rollouts(path), path)
            return
        chosen = next(islice(read_rollouts(path), rollout, None), None)
        if chosen is None:
            count = sum(1 for _ in read_rollouts(path))
            raise ConfigError(f"--rollout {rollout}: {path} has {count} rollouts, numbered from 0")
        settings = TextParameters.resolve(folder.read_config(), f"{folder.name}/config.yaml")
        _show(chosen, settings, read_prompts(path, rollout) if prompts else [])


def _list(rollouts: Iterator[Rollout], path: Path) -> None:
    console.print(str(path), markup=False, style="bold")
    for number, rollout in enumerate(rollouts):
        foundational = sum(step.foundational for step in rollout.steps)
        breakthrough = sum(step.breakthrough for step in rollout.steps)
        console.print(
            f"{number:>4}  {'won ' if rollout.won else 'lost'}  {len(rollout.steps):>3} steps"
            f"  r^F {foundational:+z.2f}  r^B {breakthrough:+z.2f}"
            f"{f'  {rollout.agent_id}' if rollout.turns else ''}  {rollout.task_id}",
            markup=False,
        )


def _show(rollout: Rollout, settings: TextParameters, prompts: Sequence[str]) -> None:
    """Prints a rollout. If there are prompts, they replace the observations."""
    from trca.analysis.reasons import Reasons
    from trca.cli.show.steps import (
        print_action,
        print_end,
        print_judgments,
        print_observation,
        print_reasons,
        print_task,
    )

    print_task(rollout.task_id, rollout.task_type)
    reasons = Reasons(settings) if rollout.operators else None
    if rollout.turns and reasons is not None and not reasons.knows(rollout):
        reasons = None  # a role that speaks has operators of messages too
    elif reasons is not None and not reasons.knows(rollout):
        console.print(
            "The rubric library has changed since the run: no reasons are shown.", style="red"
        )
        reasons = None
    reasons_of_steps = reasons.of(rollout) if reasons else []
    before = prompts or [step.observation for step in rollout.steps]
    after = [*before, rollout.last_observation]
    print_observation(after.pop(0))
    for number, (step, observation) in enumerate(zip(rollout.steps, after, strict=True)):
        print_action(step.action, step.response)
        print_observation(observation)
        advantage = None if rollout.advantages is None else float(rollout.advantages[number])
        if not rollout.operators:
            if advantage is not None:
                console.print(f"  A {advantage:+z.3f}", style="magenta")
            continue
        fired = [rollout.operators[place] for place in step.judgments.nonzero()[0]]
        print_judgments(fired, step.foundational, step.breakthrough, advantage)
        if reasons is not None:
            print_reasons(reasons_of_steps[number], reasons.library)
    print_end(rollout.won, len(rollout.steps), sum(step.reward for step in rollout.steps))
