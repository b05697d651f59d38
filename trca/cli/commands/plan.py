"""``trca plan``: what a run needs, before it runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trca.cli.show.console import console, refusing, use_one_thread


def plan(
    config: Annotated[
        str, typer.Argument(help="A config that comes with the package, or a YAML file.")
    ] = "quickstart",
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="NxGB",
            help="GPUs there are, such as 4x80. [default: as many as the run asks for]",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
    ] = None,
) -> None:
    """Show what a run needs: batches, memory of every GPU, seconds. Runs nothing.

    Where the memory does not suffice, it says so and names settings with which it does.

    - `trca plan paper/alfworld_qwen2.5_7b --gpus 4x80`
    - `trca plan paper/alfworld_qwen2.5_7b --gpus 1x80 --set lora_rank=16`
    """
    use_one_thread()
    from trca.cli.preflight.checks import settings_of
    from trca.cli.preflight.plan import GPUs
    from trca.cli.preflight.plan import plan as table_of
    from trca.tune_configs.files import ConfigError

    with refusing(ConfigError, ValueError):
        there = None if gpus is None else GPUs.parse(gpus)
        settings = settings_of(config, set_)
    console.print(table_of(settings, there), soft_wrap=False)
    if not settings.run.resources()[1]:
        console.print(escape("No GPU is asked for: all processes compute on CPUs."))
