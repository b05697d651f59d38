"""``trca rubric``: shows, checks, measures and builds libraries, and lists the facts they read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from trca import __version__
from trca.cli.run.new_settings import EnvSetOption
from trca.cli.show.console import (
    console,
    errors,
    fail,
    note,
    playing,
    print_folded,
    refusing,
)
from trca.common.files import write_text

app = typer.Typer(no_args_is_help=True, help="Show, check, measure and build rubric libraries.")

Library = Annotated[str, typer.Argument(help="Name of a library, or the path of a YAML file.")]

_LOG: Final = Path("outputs", "logs", "rubric.log")
"""File for the traceback of an environment that raises."""
_EXAMPLES: Final = 3
"""Largest number of blind spots that are shown."""
_PATIENCE_S: Final = 600.0
"""Seconds that a large model may need for a library."""


@app.command()
def show(library: Library = "alfworld") -> None:
    """Show the operators of a library, with their meanings and conditions.

    - `trca rubric show`
    - `trca rubric show my_library.yaml`
    """
    from trca.rubric import RubricLibrary

    with refusing():
        loaded = RubricLibrary.load(library)
    title = f"{loaded.source}: {len(loaded.operators)} operators for {loaded.environment}"
    console.print(title, markup=False, style="bold")
    for operator in loaded.operators:
        console.print(f"\n{operator.id}", markup=False, style="bold", end="")
        console.print(f"  ({operator.category})", markup=False, style="dim")
        print_folded(operator.description)
        asked = f"asks a model: {operator.judge}"
        print_folded(operator.condition or asked, style="cyan")


@app.command()
def facts(
    environment: Annotated[
        str, typer.Argument(help="alfworld, webshop, searchqa, or path/to/file.py:Class.")
    ] = "alfworld",
) -> None:
    """List the facts that conditions of an environment can read: types, values and meanings.

    - `trca rubric facts webshop`
    """
    from trca.envs.registration import env_class
    from trca.rubric.conditions import field_meanings, field_terms

    with refusing():
        adapter_class = getattr(env_class(environment), "adapter_class", None)
        if adapter_class is None:
            raise ValueError(f"{environment} declares no adapter_class, so it has no facts")
        records = {"facts": adapter_class.facts_type, "task": adapter_class.binding_type}
        terms = {prefix: field_terms(prefix, record) for prefix, record in records.items()}
    headings = ("facts of a transition", "the task binding, read from the instruction")
    for (prefix, record), what in zip(records.items(), headings, strict=True):
        console.print(f"{prefix}.*: {what}", markup=False, style="bold")
        summary = " ".join((record.__doc__ or "").partition("Attributes:")[0].split())
        print_folded(_plain(summary, records))
        meanings = field_meanings(record)
        for name, term in terms[prefix].items():
            console.print(f"\n{name}", markup=False, style="cyan", end="")
            console.print(f"  {term.kind}", markup=False, style="dim")
            if term.allowed is not None:
                print_folded("one of " + ", ".join(map(repr, term.allowed)), style="cyan")
            print_folded(_plain(meanings.get(name.partition(".")[2], ""), records))
        console.print()


@app.command()
def check(
    library: Library = "alfworld",
    env: Annotated[
        str | None,
        typer.Option(help="Measure it on this environment: an id, or path/to/file.py:Class."),
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="With --env: tasks an agent plays.")] = 40,
    set_: EnvSetOption = None,
) -> None:
    """Check a library: schema, names, types and conditions; with --env, measure it.

    Oracle, demonstrator and a random agent play the first tasks. The table shows the share of steps
    on which each operator fires, and the coverage: the share of the positive operators that fire in
    an episode. A good library covers episodes of the oracle and few episodes of the random agent.
    Blind spots are steps shortly before success on which no operator fires.

    - `trca rubric check my_library.yaml`
    - `trca rubric check my_library.yaml --env my_env.py:MyEnv`
    - `trca rubric check alfworld --env alfworld --set games=small`
    """
    from trca.envs.library_report import LAST_STEPS, measure
    from trca.envs.registration import check_library, make
    from trca.runs.success_tables import terminal_table
    from trca.tune_configs.files import assignments

    with refusing():
        loaded = check_library(library, env)
    counts = ", ".join(
        f"{sum(o.category == category for o in loaded.operators)} {category}"
        for category in dict.fromkeys(o.category for o in loaded.operators)
    )
    console.print(f"[green]ok[/]: {escape(loaded.source)}: {loaded.environment}, {counts}")
    if env is None:
        if set_:
            fail("--set without --env: nothing is measured; name the environment")
        return
    with refusing(), errors.status("playing"), playing(env, _LOG):
        made: Any = make(env, **{"split": "train", **assignments(set_ or []), "library": library})
        report = measure(made, made.unwrapped.task_ids[:tasks])
    table = terminal_table("operator", *report.agents)
    numbered = enumerate(report.library.operators)
    for _, category in groupby(numbered, lambda pair: pair[1].category):
        for number, operator in category:
            shares = [f"{each.firing[number]:.1%}" for each in report.agents.values()]
            table.add_row(operator.id, *shares)
        table.add_section()
    for name in ("coverage", "success"):
        table.add_row(name, *(f"{getattr(a, name):.0%}" for a in report.agents.values()))
    table.add_row("episodes", *(str(each.episodes) for each in report.agents.values()))
    console.print(table, soft_wrap=False)
    for text in report.lacking:
        console.print(f"not played: {text}", markup=False)
    for problem in report.problems:
        note(problem)
    if report.searched:
        console.print(
            f"blind spots: no operator fires on {len(report.blind_spots):,} of {report.searched:,}"
            f" steps among the last {LAST_STEPS} before success",
            markup=False,
        )
    for agent, task_id, left, action in report.blind_spots[:_EXAMPLES]:
        print_folded(f"{action!r} of the {agent}, {left} steps before the last, task {task_id}")


@app.command()
def build(
    environment: Annotated[
        str, typer.Argument(help="An id, or path/to/file.py:Class; it declares an adapter_class.")
    ],
    to: Annotated[Path, typer.Option("--to", dir_okay=False, help="The YAML file to write.")],
    base_url: Annotated[
        str, typer.Option(help="Base URL of an OpenAI-compatible endpoint, mostly ending in /v1.")
    ],
    model: Annotated[str, typer.Option(help="Name of the model there.")],
    temperature: Annotated[float, typer.Option(min=0.0, help="Of sampling.")] = 0.7,
    set_: EnvSetOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the prompt and ask nobody.")
    ] = False,
) -> None:
    """Let a model write a library from the observable interface of an environment.

    One call, before training. The prompt contains the interface, the facts, the language of
    conditions, and the answers of the environment to a few random actions. It contains no
    trajectory of a policy, no outcome, no right answer and no result. The model has four replies; a
    reply that breaks a rule is sent back with its first 20 errors. The file keeps the model, the
    date and the prompt. The key is `OPENAI_API_KEY`.

    - `trca rubric build my_env.py:MyEnv --to my.yaml --base-url https://host/v1 --model NAME`
    - `trca rubric check my.yaml --env my_env.py:MyEnv` then measures it
    """
    from trca.common.chat_endpoint import ChatEndpoint, EndpointError
    from trca.envs.library_report import interface
    from trca.rubric.generation import ATTEMPTS, as_yaml, generate
    from trca.rubric.library import Provenance
    from trca.tune_configs.files import assignments

    with refusing(EndpointError, ValueError, OSError):
        with playing(environment, _LOG):
            shown = interface(environment, **assignments(set_ or []))
        if dry_run:
            console.print(shown.prompt, markup=False)
            return
        if to.exists():
            raise ValueError(f"{to} exists: name a new file")
        if not to.absolute().parent.is_dir():
            raise ValueError(f"{to.absolute().parent} is not a folder: make it first")
        with ChatEndpoint(base_url, model, timeout=_PATIENCE_S) as endpoint:

            def ask(prompt: str, schema: dict[str, object]) -> str:
                form = {"name": "library", "strict": True, "schema": schema}
                answer = endpoint.ask(
                    prompt,
                    temperature=temperature,
                    response_format={"type": "json_schema", "json_schema": form},
                )
                return answer.after_thought

            def tell(number: int, error: str) -> None:
                errors.print(f"reply {number} of {ATTEMPTS} is refused: {error}", markup=False)

            written = generate(shown, ask, tell=tell)
        provenance = Provenance(
            model=model,
            endpoint=base_url,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            trca=__version__,
            temperature=temperature,
            replies=len(written.refused) + 1,
            refused=written.refused,
            prompt_sha256=sha256(written.prompt.encode()).hexdigest(),
            prompt=written.prompt,
        )
        write_text(to, as_yaml(written.library, provenance))
    replies = f"{provenance.replies} replies of {escape(model)}"
    console.print(f"[green]ok[/]: {escape(str(to))}, after {replies}")
    console.print(f"Measure it: trca rubric check {to} --env {environment}", markup=False)


def _plain(text: str, records: Mapping[str, type]) -> str:
    """A docstring without its markup; a field of a record by the name conditions give it."""
    for prefix, record in records.items():
        text = text.replace(f"`{record.__name__}.", f"`{prefix}.")
    return re.sub(r"`([^`]+)`", r"\1", re.sub(r"``([^`]+)``", r"'\1'", text))
