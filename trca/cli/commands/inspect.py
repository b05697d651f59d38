"""``trca inspect``: a recorded rollout of a run, step by step, and why operators fired."""

from __future__ import annotations

import json
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trca.cli.run.new_settings import RolloutsArgument, RunsOption
from trca.cli.show.console import console, refusing, use_one_thread
from trca.common.extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow import Table

    from trca.algorithms.settings.parameters import TextParameters
    from trca.records import Rollout


def inspect(
    run: RolloutsArgument,
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print whole rollouts as JSON lines.")
    ] = False,
    storage_path: RunsOption = "outputs",
) -> None:
    """Show a recorded rollout step by step: actions, credit, and why its operators fired.

    r^F and r^B are the rubric rewards of a step, and A is its advantage, which held-out rollouts
    do not have. `trca view` shows the parts of A too.

    - `trca inspect outputs/quickstart` lists the rollouts of the last iteration
    - `trca inspect outputs/quickstart --iteration 25 --rollout 3`
    - `trca inspect outputs/quickstart --iteration 25 --evaluation`
    - `trca inspect outputs/quickstart --rollout 3 --prompts`
    - `trca inspect outputs/quickstart --iteration 25 --json > rollouts.jsonl`
    """
    use_one_thread()
    from trca.algorithms.settings.parameters import TextParameters
    from trca.records import to_record
    from trca.runs.folder import RunFolder
    from trca.runs.rollout_files import recorded

    with refusing():
        folder, path = None, Path(run)
        if not run.endswith((".parquet", ".jsonl")):
            folder = RunFolder.open_run(run, storage_path)
            wanted = None if iteration is None else [iteration]
            paths = recorded(folder, "eval" if evaluation else "train", wanted)
            path = paths[max(paths)]
        elif lack := missing_extra("pyarrow", "reading rollouts", "train"):
            raise ValueError(lack)
        from trca.records.store import failures_of, from_table, prompts_of  # needs pyarrow

        if rollout is None and not as_json:
            _list(path)
            return
        table = _read(path, rollout)
        texts = prompts_of(table)
        if as_json:
            for each, of_each in zip(from_table(table), texts or repeat(None), strict=False):
                typer.echo(json.dumps(to_record(each, of_each), ensure_ascii=False))
            for lost in failures_of(table) if rollout is None else ():
                about = {"missing": lost.rollouts, "task_id": lost.task_id, "group": lost.group}
                typer.echo(json.dumps({**about, "reason": lost.reason}, ensure_ascii=False))
            return
        if prompts and texts is None:
            raise ValueError(f"{path} has no prompts")
        settings = None
        if folder:
            settings = TextParameters.resolve(folder.read_config(), f"{folder.name}/config.yaml")
        _show(from_table(table)[0], settings, texts[0] if prompts and texts else [])


def _read(path: Path, number: int | None) -> Table:
    """Reads all rollouts of a file, or one rollout, for which no other group is decoded."""
    from trca.records.store import read_table

    if number is None:
        return read_table(path)
    groups = read_table(path, ["group"])["group"].to_pylist()
    if number >= len(groups):
        raise ValueError(f"--rollout {number}: {path} has {len(groups)} rollouts, numbered from 0")
    place = groups[:number].count(groups[number])
    return read_table(path, group=groups[number]).slice(place, 1)


def _list(path: Path) -> None:
    from trca.envs.text_env import DEFAULT_AGENT
    from trca.records.store import summaries

    console.print(str(path), markup=False, style="bold")
    for number, each in enumerate(summaries(path)):
        agent = "" if each["agent_id"] == DEFAULT_AGENT else f"  {each['agent_id']}"
        console.print(
            f"{number:>4}  {'won ' if each['won'] else 'lost'}  {each['steps']:>3} steps"
            f"  r^F {each['foundational']:+z.3f}  r^B {each['breakthrough']:+z.3f}"
            f"{agent}  {each['task_id']}",
            markup=False,
        )


def _show(rollout: Rollout, settings: TextParameters | None, prompts: Sequence[str]) -> None:
    """Prints a rollout. If there are prompts, they replace the observations."""
    from trca.analysis.reasons import Reasons
    from trca.cli.show.steps import (
        print_action,
        print_end,
        print_judgments,
        print_observation,
        print_reasons,
    )

    console.rule(f"{rollout.task_id}  ({rollout.task_type})", style="blue")
    reasons = Reasons(settings) if settings and rollout.operators else None
    if reasons is not None and not reasons.knows(rollout):
        if not rollout.turns:  # a role that speaks has operators of messages too
            text = "The rubric library has changed since the run: no reasons are shown."
            console.print(text, style="red")
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
