"""The ``trca`` command. Each of its commands is a file of `trca.cli.commands`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from trca import __version__
from trca.cli.commands.audit import audit
from trca.cli.commands.compare import compare
from trca.cli.commands.data import app as data
from trca.cli.commands.diagnose import diagnose
from trca.cli.commands.evaluate import evaluate
from trca.cli.commands.export import export
from trca.cli.commands.inspect import inspect
from trca.cli.commands.new_env import new_env
from trca.cli.commands.plan import plan
from trca.cli.commands.play import play
from trca.cli.commands.recredit import recredit
from trca.cli.commands.report import report
from trca.cli.commands.rubric import app as rubric
from trca.cli.commands.serve_retriever import serve_retriever
from trca.cli.commands.submit import jobs, submit
from trca.cli.commands.sweep import sweep
from trca.cli.commands.train import train
from trca.cli.commands.view import view
from trca.cli.show.console import fail
from trca.common import extras
from trca.common.extras import install, missing_training

app = typer.Typer(
    name="trca",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"trca {__version__}")
        raise typer.Exit


@app.callback()
def trca(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Train language-model agents on long text tasks with transition-wise rubric credit.

    A first quarter of an hour:

    - `trca play` lets you play a household task and shows the judgments of the rubric
    - `trca train` trains a small policy on this machine, with no download, in minutes
    - `trca evaluate outputs/quickstart` plays the policy on tasks outside its training
    - `trca inspect outputs/quickstart` shows a rollout and why its operators fired
    - `trca train quickstart --algorithm GRPO --set lr=2e-4 --name grpo` trains GRPO on them

    `trca COMMAND --help` shows examples of a command.
    """
    extras.postponed = True


def _need_training() -> None:
    """Ends the command if the packages for training are missing."""
    if lack := missing_training():
        fail(lack, code=2)


def _training(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command that first checks the packages for training."""

    @wraps(command)
    def checked(*args: Any, **kwargs: Any) -> None:
        _need_training()
        command(*args, **kwargs)

    return checked


for command in (
    train,
    plan,
    evaluate,
    compare,
    inspect,
    view,
    diagnose,
    recredit,
    audit,
    report,
    export,
    sweep,
    submit,
):
    app.command()(_training(command))
for light in (play, new_env, serve_retriever):
    app.command()(light)
app.add_typer(jobs, name="jobs", callback=_need_training)
app.add_typer(rubric, name="rubric")
app.add_typer(data, name="data")

plugins = entry_points(group="trca.commands")
for plugin in plugins:
    app.command(plugin.name)(_training(plugin.load()))
if "import-dump" not in plugins.names:

    @app.command(hidden=True, context_settings={"ignore_unknown_options": True})
    def import_dump(_: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        """Name the plug-in that has the command."""
        plugin = install(folder="./plugins/interop")
        fail(f"import-dump is a command of a plug-in: {plugin}", code=2)
