"""``trca import-dump``: rollouts of another trainer as a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trca.cli.show.console import console, refusing, use_one_thread


def import_dump(
    dump: Annotated[
        Path, typer.Argument(metavar="DUMP", help="A .jsonl file, or the folder of the files.")
    ],
    config: Annotated[
        str, typer.Option(help="Config of the environment and of the credit rule.")
    ] = "quickstart",
    name: Annotated[
        str | None, typer.Option(help="Name of the run folder. [default: imported]")
    ] = None,
    storage_path: Annotated[str, typer.Option(help="Folder that receives the run.")] = "outputs",
) -> None:
    """Import rollouts that verl, verl-agent or SkyRL dumped, for recredit, diagnose and view.

    The run has one iteration per file. The config's credit rule computes the advantages.
    docs/interop_credit.md explains how to dump from each trainer.

    - `trca import-dump rollout_data --config quickstart --name verl`
    - then `trca recredit outputs/verl --credit gigpo` and `trca view outputs/verl`
    """
    use_one_thread()
    from dataclasses import replace

    from trca.algorithms.credit import bind_credit
    from trca.algorithms.settings.parameters import TextParameters
    from trca.envs.text_env import DEFAULT_AGENT
    from trca.records import StepBatch, assign_advantages, write_rollouts
    from trca.runs.folder import RunFolder
    from trca.runs.rollout_files import agent_operators, rollout_file
    from trca.tune_configs.files import ConfigError, read
    from trca_interop.dumps import dump_files, read_dump

    with refusing(ConfigError, ValueError, OSError):
        files = dump_files(dump)
        chosen = read(config)
        settings = TextParameters.resolve(chosen, config, need_data=False)
        operators = agent_operators(settings.env, settings.env_config)
        if DEFAULT_AGENT not in operators:
            raise ConfigError(f"{config} has a team: import-dump reads rollouts of one agent")
        judges = operators[DEFAULT_AGENT]
        rule = bind_credit(settings.credit, settings)
        if rule.reads:
            raise ConfigError(f"{rule.name} reads {', '.join(rule.reads)}: name another config")
        iterations = {step: read_dump(path, judges.ids) for step, path in files.items()}
        for rollouts, _ in iterations.values():
            batch = StepBatch.from_rollouts(rollouts, judges.categories)
            rewards = batch.rubric_rewards(settings.budgets)
            assign_advantages(rollouts, rule(batch))
            r_f, r_b = (iter(column.tolist()) for column in rewards)
            for rollout in rollouts:
                rollout.steps = [
                    replace(each, foundational=next(r_f), breakthrough=next(r_b))
                    for each in rollout.steps
                ]
        folder = RunFolder.create(storage_path, name or "imported", numbered=name is None)
        folder.write_settings(settings.flat())
        for step, (rollouts, prompts) in iterations.items():
            write_rollouts(rollout_file(folder, "train", step), rollouts, prompts)
        folder.set_status("finished", max(iterations))
    steps = sum(len(r.steps) for rollouts, _ in iterations.values() for r in rollouts)
    count = sum(len(rollouts) for rollouts, _ in iterations.values())
    console.print(f"{folder.path}: {count:,} rollouts with {steps:,} steps", markup=False)
