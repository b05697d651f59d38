"""``trca rubric``: shows and checks rubric libraries."""

from __future__ import annotations

from typing import Annotated

import typer

from trca.cli.console import console, refusing

app = typer.Typer(no_args_is_help=True, help="Show and check rubric libraries.")

Library = Annotated[str, typer.Argument(help="Name of a library, or the path of a YAML file.")]


@app.command()
def show(library: Library = "alfworld") -> None:
    """Show a library's operators: what they detect, and the condition that decides.

    - `trca rubric show`
    - `trca rubric show my_library.yaml`
    """
    from rich import box
    from rich.table import Table

    from trca.rubric import RubricError, RubricLibrary

    with refusing(RubricError):
        loaded = RubricLibrary.load(library)
    table = Table(
        title=f"{loaded.source}: {len(loaded.operators)} operators for {loaded.environment}",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
    )
    for name in ("category", "id"):
        table.add_column(name, no_wrap=True)
    table.add_column("detects")
    table.add_column("condition", style="cyan")
    category = ""
    for operator in loaded.operators:
        if category and operator.category != category:
            table.add_section()
        table.add_row(
            operator.category if operator.category != category else "",
            operator.id,
            " ".join(operator.description.split()),
            " ".join(operator.condition.split()),
        )
        category = operator.category
    console.print(table, soft_wrap=False)


@app.command()
def check(library: Library = "alfworld") -> None:
    """Check a library against its world: schema, names, types and conditions.

    - `trca rubric check my_library.yaml`
    """
    from trca.envs.registration import check_library
    from trca.rubric import RubricError

    with refusing(RubricError):
        loaded = check_library(library)
    counts = ", ".join(
        f"{sum(o.category == category for o in loaded.operators)} {category}"
        for category in dict.fromkeys(o.category for o in loaded.operators)
    )
    console.print(f"[green]ok[/]: {loaded.source}: {loaded.environment}, {counts}")
