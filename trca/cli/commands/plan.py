"""``trca plan``: the needs of a run, before the run starts."""

from __future__ import annotations

from typing import Annotated

import typer

from trca.cli.run.new_settings import (
    AlgorithmOption,
    ConfigArgument,
    EnvOption,
    GamesOption,
    ModelOption,
    SetOption,
    given_settings,
    new_settings,
)
from trca.cli.show.console import console, refusing, use_one_thread


def plan(
    config: ConfigArgument = "quickstart",
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="NxGB",
            help="GPUs, such as 4x80. [default: as the run asks]",
        ),
    ] = None,
    algorithm: AlgorithmOption = None,
    model: ModelOption = None,
    env: EnvOption = None,
    games: GamesOption = None,
    set_: SetOption = None,
) -> None:
    """Show the needs of a run: batches, and the memory of each GPU. Runs nothing.

    If the memory is too small, the plan names settings that need less.

    - `trca plan paper/alfworld_qwen2.5_7b --gpus 4x80`
    - `trca plan paper/alfworld_qwen2.5_7b --gpus 1x80 --set lora_rank=16`
    - `trca plan paper/alfworld_qwen2.5_1.5b --algorithm GRPO --model Qwen/Qwen2.5-7B-Instruct`
    """
    use_one_thread()
    from trca.cli.preflight.plan import GPUs
    from trca.cli.preflight.plan import plan as table_of
    from trca.cli.preflight.preflight import Preflight
    from trca.runs.folder import run_name

    with refusing():
        present = None if gpus is None else GPUs.parse(gpus)
        given = given_settings(set_, algorithm=algorithm, model=model, env=env, games=games)
        settings = new_settings(config, given)
        with Preflight(settings, run_name(config), here=False) as preflight:
            preflight.check()
            console.print(table_of(preflight, present), soft_wrap=False)
            if not preflight.settings.resources()[1]:
                console.print("The run asks for no GPU: all processes compute on CPUs.")
