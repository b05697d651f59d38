"""Prints the steps of an episode for ``trca play`` and ``trca inspect``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trca.cli.show.console import console, print_folded

if TYPE_CHECKING:
    from trca.rubric import Clause, RubricLibrary


def print_observation(observation: str) -> None:
    """Prints an observation line by line, folded to the width of the console."""
    for line in observation.splitlines():
        if line.strip():
            print_folded(line, indent=len(line) - len(line.lstrip()), style="bold")
        else:
            console.print()


def print_action(action: str, response: str = "") -> None:
    """Prints the action of the agent, or its response if the response has no readable action."""
    from trca.envs.tool_calls import shown_calls

    console.print()
    if action:
        print_folded(f"> {shown_calls(action)}", indent=0, style="cyan", hanging=2)
        return
    console.print("> (no action could be read)", markup=False, style="red")
    print_folded(f"response: {response!r}", indent=2, style="dim", hanging=2)


def print_judgments(
    fired: Sequence[str], foundational: float, breakthrough: float, advantage: float | None = None
) -> None:
    """Prints the operators that fired on a step, its rubric rewards, and its advantage A."""
    names = ", ".join(fired) or "no operator"
    rewards = f"r^F {foundational:+z.3f}   r^B {breakthrough:+z.3f}"
    if advantage is not None:
        rewards += f"   A {advantage:+z.3f}"
    if len(line := f"  {names}   {rewards}") <= console.width:
        console.print(line, markup=False, style="magenta")
        return
    print_folded(names, indent=2, style="magenta", hanging=2)
    console.print(f"  {rewards}", markup=False, style="magenta")


def print_reasons(reasons: Mapping[str, Sequence[Clause]], library: RubricLibrary) -> None:
    """Prints the meaning of each fired operator, and its true clauses with their values."""
    meanings = {operator.id: operator.description for operator in library.operators}
    for name, clauses in reasons.items():
        print_folded(f"{name}: {meanings[name]}", indent=4, style="magenta")
        for clause in clauses:
            values = shown_values(clause)
            text = f"{clause.text}  ({values})" if values else clause.text
            print_folded(text, indent=6, style="cyan", hanging=4)


def print_end(won: bool, steps: int, reward: float) -> None:
    """Prints how an episode ended."""
    verdict = "[bold green]success[/]" if won else "[bold red]not done[/]"
    console.print(f"\n{verdict} after {steps} steps, reward {reward:g}")


def shown_values(clause: Clause) -> str:
    """The values that a clause read, as ``name = value``; empty if the clause contains them."""
    for name, value in clause.values.items():
        if clause.text in (name, f"!{name}", f"{name} == {_shown(value)}"):
            return ""
    return ", ".join(
        f"{name.partition('.')[2]} = {_shown(value)}" for name, value in clause.values.items()
    )


def _shown(value: Any) -> str:
    """A value as a condition writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)
