"""``trca play``: a world in the terminal, played by a person, by its oracle, or at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trca.cli.console import console, errors, refusing

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[str, str]


class Policy(StrEnum):
    """Who plays."""

    HUMAN = "human"
    ORACLE = "oracle"
    RANDOM = "random"


def play(
    world: Annotated[str, typer.Argument(help="alfworld, webshop or searchqa.")] = "alfworld",
    policy: Annotated[Policy, typer.Option(help="Who plays.")] = Policy.HUMAN,
    split: Annotated[
        str | None,
        typer.Option(help="Split the task comes from. [default: valid_seen or test]"),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="A task id, or its number in the split. [default: drawn]")
    ] = None,
    games: Annotated[
        str | None,
        typer.Option(help="alfworld: small, medium, large, official, or a folder or archive."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any argument of the world; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the drawing and of the random player.")] = 0,
    check: Annotated[
        bool, typer.Option("--check", help="Play every task by oracle and at random, and judge.")
    ] = False,
) -> None:
    """Play a world and see what the rubric makes of every step.

    - `trca play` plays a task yourself: type a command or its number
    - `trca play --policy oracle --task 3` watches the oracle solve one
    - `trca play webshop --set observation_mode=text_rich` goes shopping
    - `trca play searchqa --set questions=medium` looks answers up
    - `trca play --check --games medium` proves that every task can be solved, that episodes repeat
      exactly, and shows which operators fire
    """
    from trca.tune_configs.files import assignments

    with refusing(ValueError, OSError):
        arguments = assignments(set_ or [])
        arguments |= {"split": split} if split else {}
        arguments |= {"games": games} if games else {}
        env = _make(world, arguments)
        if check:
            _check(env, _task_id(env, task))
            return
        _episode(env, policy, _task_id(env, task), seed)


def _make(environment: str, given: Mapping[str, Any]) -> Env:
    from trca.common.names import nearest
    from trca.envs.registration import arguments, default_split, make

    known = arguments(environment)
    for argument in given:
        if argument not in known:
            raise ValueError(
                f"{environment} has no argument {argument!r}: {nearest(argument, known)}"
            )
    return make(environment, **{"split": default_split(environment), **given})


def _task_id(env: Env, task: str | None) -> str | None:
    if task is None or not task.isdecimal():
        return task
    tasks = env.get_wrapper_attr("task_ids")
    if int(task) >= len(tasks):
        raise ValueError(f"--task {task}: the split has {len(tasks)} tasks, from 0 on")
    return str(tasks[int(task)])


def _episode(env: Env, policy: Policy, task: str | None, seed: int) -> None:
    observation, info = env.reset(seed=seed, options={"task": task} if task else None)
    console.rule(f"{info['task_id']}  ({info['task_type']})", style="blue")
    console.print(observation, markup=False, style="bold")
    choose = _chooser(env, policy, seed)
    total, over, steps = 0.0, False, 0
    while not over:
        command = choose(info)
        if command is None:
            console.print("\nleft the game.")
            return
        if policy is not Policy.HUMAN:
            console.print(f"\n> {command}", markup=False, style="cyan")
        observation, reward, terminated, truncated, info = env.step(command)
        total, over, steps = total + float(reward), terminated or truncated, steps + 1
        console.print(observation, markup=False, style="bold")
        _judgments(info)
    verdict = "[bold green]success[/]" if info["won"] else "[bold red]not done[/]"
    console.print(f"\n{verdict} after {steps} steps, reward {total:g}")


def _judgments(info: Mapping[str, Any]) -> None:
    rubric = info["rubric"]
    fired = ", ".join(rubric["fired"]) or "no operator"
    console.print(
        f"  {fired}   r^F {rubric['foundational']:+.3f}   r^B {rubric['breakthrough']:+.3f}",
        style="magenta",
    )


def _chooser(env: Env, policy: Policy, seed: int) -> Callable[[Mapping[str, Any]], str | None]:
    if policy is Policy.HUMAN:
        return _ask
    if policy is Policy.ORACLE:
        oracle: Callable[[], str] = env.get_wrapper_attr("oracle_action")
        return lambda info: oracle()
    import numpy as np

    rng = np.random.default_rng(seed)
    choose: Callable[[np.random.Generator], str] = env.get_wrapper_attr("random_action")
    return lambda info: choose(rng)


def _ask(info: Mapping[str, Any]) -> str | None:
    """Asks for a command; a number stands for the command in the list; None at the end of input."""
    from rich.columns import Columns
    from rich.markup import escape

    from trca.envs.text_env import BLANK

    commands: list[str] = info["admissible_actions"]
    console.print()
    console.print(
        Columns([f"[dim]{n:>2}[/] {escape(command)}" for n, command in enumerate(commands)]),
        soft_wrap=False,
    )
    _complete(commands)
    try:
        answer = input("> ").strip()
        if answer.isdecimal() and int(answer) < len(commands):
            answer = commands[int(answer)]
            blank = BLANK.search(answer)
            if blank:
                answer = answer.replace(blank[0], input(f"{blank[0][1:-1]}: ").strip())
            console.print(f"> {answer}", markup=False, style="cyan")
    except (EOFError, KeyboardInterrupt):
        return None
    return answer


def _complete(commands: list[str]) -> None:
    """Completes commands on Tab, where the terminal can."""
    with suppress(ImportError):
        import readline

        readline.set_completer_delims("")
        readline.set_completer(
            lambda text, state: [*(c for c in commands if c.startswith(text)), None][state]
        )
        readline.parse_and_bind("tab: complete")


def _check(env: Env, task: str | None) -> None:
    from rich import box
    from rich.table import Table

    from trca.envs.check import self_check

    with errors.status("playing every task by the oracle and at random"):
        report = self_check(env, [task] if task else None)
    console.print(
        f"{report.tasks} tasks: the oracle solves {report.tasks - len(report.unsolved)} in "
        f"{report.oracle_steps:.1f} steps on average, a random player {report.random_wins}; "
        f"{report.tasks - len(report.unlike)} repeat exactly."
    )
    if report.firing:
        table = Table("operator", box=box.SIMPLE_HEAD)
        table.add_column("fires on", justify="right")
        for operator, count in report.firing.items():
            table.add_row(operator, f"{count / max(1, report.steps):.1%}")
        console.print(table, soft_wrap=False)
    for problem in report.problems:
        console.print(f"problem: {problem}", markup=False, style="bold red")
    if not report.ok:
        raise typer.Exit(1)
    console.print("[green]ok[/]")
