"""``trca play``: an episode in the terminal, by a person, by the oracle, or at random."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from trca.cli.run.new_settings import EnvSetOption, GamesOption
from trca.cli.show.console import (
    console,
    errors,
    fail,
    log_words,
    playing,
    refusing,
    tracing_to,
)
from trca.cli.show.steps import (
    print_action,
    print_end,
    print_judgments,
    print_observation,
    print_reasons,
)
from trca.common.errors import words

if TYPE_CHECKING:
    import gymnasium

    from trca.envs.text_env import RubricInfo

    Env = gymnasium.Env[str, str]

Policy = Literal["human", "oracle", "random"]
_LOG: Final = Path("outputs", "logs", "play.log")
"""File for the traceback of an environment that raises."""


def play(
    environment: Annotated[
        str, typer.Argument(help="alfworld, webshop, searchqa, or path/to/file.py:Class.")
    ] = "alfworld",
    policy: Annotated[Policy, typer.Option(help="Who plays.")] = "human",
    split: Annotated[
        str | None,
        typer.Option(help="Split the task comes from. [default: the environment's]"),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="A task id, or its number in the split. [default: drawn]")
    ] = None,
    games: GamesOption = None,
    set_: EnvSetOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the drawn task and the random agent.")] = 0,
    why: Annotated[
        bool,
        typer.Option("--why", help="Print the meaning of each fired operator and why it fired."),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Play every task with the oracle and at random; show problems."
        ),
    ] = False,
) -> None:
    """Play a task and see the judgments of the rubric on every step.

    - `trca play` lets you play: type an action or its number, or `quit`
    - `trca play --policy oracle --task 3 --why` shows the oracle, and why operators fire
    - `trca play webshop --set observation_mode=text_rich`
    - `trca play searchqa --set questions=medium`
    - `trca play --set team=alfworld_planner` lets you play all roles of a team in turns
    - `trca play --check --games medium` checks that every task can be solved and that episodes
      repeat exactly, sends hostile actions, and shows which operators fire
    """
    from trca.cli.show.slow_steps import SlowStepNotice
    from trca.common.process import log_crashes
    from trca.tune_configs.files import assignments

    with refusing(ValueError, OSError):
        arguments = assignments(set_ or [])
        arguments |= {"split": split} if split else {}
        arguments |= {"games": games} if games else {}
        env = _make(environment, arguments)
        if task is not None and task.isdecimal():
            ids = env.get_wrapper_attr("task_ids")
            if int(task) >= len(ids):
                raise ValueError(f"--task {task}: the split has {len(ids)} tasks, numbered from 0")
            task = str(ids[int(task)])
        if check and (why or policy != "human"):
            raise ValueError(
                "--check plays with the oracle and at random: leave --policy, --why out"
            )
        with playing(environment, _LOG):
            if task is not None and task not in env.get_wrapper_attr("task_ids"):
                env.reset(options={"task": task})  # the environment may have further tasks
    end_watch = log_crashes(2)
    watched = SlowStepNotice(env, lambda text: errors.print(f"warning: {text}", markup=False))
    try:
        if check:
            _check(watched, task, seed)
        else:
            _play(watched, policy, task, seed, why)
    finally:
        end_watch()
        env.close()


def _make(environment: str, given: Mapping[str, Any]) -> Env:
    from trca.envs.annotate import place
    from trca.envs.registration import arguments, default_split, env_class, make, no_argument

    names = arguments(environment)
    for argument in given:
        if argument not in names:
            raise ValueError(no_argument(environment, argument))
    try:
        with tracing_to(_LOG):
            return make(environment, **{"split": default_split(environment), **given})
    except (ValueError, OSError):
        raise
    except Exception as error:
        where = place(error, env_class(environment))
        fail(f"{environment}: {words(error)}{where}.{log_words(_LOG)}")


def _play(env: Env, policy: Policy, task: str | None, seed: int, why: bool) -> None:
    """Plays one episode; an exception of the environment ends the command in one line."""
    from trca.envs.check import play

    try:
        with tracing_to(_LOG):
            observation, info = env.reset(seed=seed, options={"task": task} if task else None)
            task = info["task_id"]
            console.rule(f"{task}  ({info['task_type']})", style="blue")
            total, over, steps, agent = 0.0, False, 0, info.get("agent")
            if agent:
                console.print(f"\n{agent}'s turn", style="blue", markup=False)
            print_observation(observation)
            for step in play(env, info, _chooser(env, policy, seed)):
                info, over = step.info, step.is_last
                total, steps = total + step.reward, steps + 1
                if "agent" in info:
                    for ended in info["closed"]:
                        console.print(f"  {ended.agent}:", style="magenta", markup=False)
                        inner: Env = env.unwrapped.inner  # type: ignore[attr-defined]
                        _print_rubric(inner, ended.rubric, ended.facts, why)
                    if not over and info["agent"] != agent:
                        console.print(f"\n{info['agent']}'s turn", style="blue", markup=False)
                    agent = info["agent"]
                print_observation(step.observation)
                if "agent" not in info:
                    _print_rubric(env, info.get("rubric"), info.get("facts"), why)
    except Exception as error:
        which = f"task {task!r}: " if task else ""
        fail(f"{which}{words(error)}.{log_words(_LOG)}")
    if over:
        print_end(bool(info["won"]), steps, total)
    else:
        console.print("\nleft the game.")


def _print_rubric(env: Env, rubric: RubricInfo | None, facts: Any, why: bool) -> None:
    """Prints the operators that fired on an action or a message, and the reasons if asked."""
    from trca.envs.teams.messages import MessageFacts, message_judge

    if rubric is None:
        return
    print_judgments(rubric["fired"], rubric["foundational"], rubric["breakthrough"])
    if not (why and rubric["fired"]):
        return
    if isinstance(facts, MessageFacts):
        judge, binding = message_judge(), None
    else:
        judge, binding = env.get_wrapper_attr("judge"), env.get_wrapper_attr("adapter").binding
    reasons = judge.explain(binding, facts)
    print_reasons(
        {name: reasons[name] for name in rubric["fired"] if name in reasons}, judge.library
    )


def _chooser(env: Env, policy: Policy, seed: int) -> Callable[[Mapping[str, Any]], str | None]:
    """The function that chooses the next action from an info."""
    if policy == "human":
        return partial(_ask, env.get_wrapper_attr("open_actions"))
    import numpy as np

    rng, oracle = np.random.default_rng(seed), policy == "oracle"

    def choose(info: Mapping[str, Any]) -> str:
        method = env.get_wrapper_attr("oracle_action" if oracle else "random_action")
        action: str = method() if oracle else method(rng)
        print_action(action)
        return action

    return choose


def _ask(open_actions: Container[str], info: Mapping[str, Any]) -> str | None:
    """Asks for an action; a number picks from the list, ``quit`` or the end of input gives None."""
    from rich.columns import Columns
    from rich.markup import escape

    from trca.envs.text_env import filled
    from trca.envs.tool_calls import read_calls, shown_calls, write_calls

    actions: list[str] = info["admissible_actions"]
    console.print()
    shown = [f"[dim]{n:>2}[/] {escape(shown_calls(action))}" for n, action in enumerate(actions)]
    console.print(Columns(shown), soft_wrap=False)
    tools = {tool["function"]["name"]: tool["function"] for tool in info.get("tools", ())}
    for name, about in () if actions else tools.items():
        fields = ", ".join(about.get("parameters", {}).get("properties", {}))
        line = f"   {name} {{{fields}}}: {about.get('description', '')}"
        console.print(line, markup=False, style="dim")
    with suppress(ImportError):  # Tab completes actions
        import readline

        readline.set_completer_delims("")
        readline.set_completer(
            lambda text, state: [*(a for a in actions if a.startswith(text)), None][state]
        )
        readline.parse_and_bind("tab: complete")
    try:
        answer = input("> ").strip()
        if answer == "quit" and answer not in actions:
            return None
        if answer.isdecimal() and int(answer) < len(actions):
            answer = actions[int(answer)]
            if answer in open_actions:
                blank = answer[answer.index("<") + 1 : answer.rindex(">")]
                answer = filled(answer, input(f"{blank}: ").strip())
            console.print(f"> {shown_calls(answer)}", markup=False, style="cyan")
        name, _, arguments = answer.partition(" ")
        if name in tools:  # show {"order": 7}
            call = f'{{"name": "{name}", "arguments": {arguments or "{}"}}}'
            if calls := read_calls(call):
                answer = write_calls(calls)
    except (EOFError, KeyboardInterrupt):
        return None
    return answer


def _check(env: Env, task: str | None, seed: int) -> None:
    from trca.envs.check import self_check
    from trca.runs.success_tables import terminal_table

    with errors.status("playing every task with the oracle and at random"):
        report = self_check(env, [task] if task else None, seed=seed)
    oracle = "no oracle_action() shows that the tasks can be solved"
    if report.oracle_steps is not None:
        oracle = (
            f"the oracle solves {report.tasks - len(report.unsolved) - report.raised} in"
            f" {report.oracle_steps:.1f} steps on average"
        )
    console.print(
        f"{report.tasks} tasks: {oracle}, a random agent solves {report.random_wins};"
        f" {report.tasks - len(report.unlike) - report.raised} repeat exactly."
    )
    if report.firing:
        table = terminal_table("operator", "fires on")
        for operator, count in report.firing.items():
            table.add_row(operator, f"{count / max(1, report.steps):.1%}")
        console.print(table, soft_wrap=False)
    for problem in report.problems:
        console.print(f"problem: {problem}", markup=False, style="bold red")
    if not report.ok:
        raise typer.Exit(1)
    console.print("[green]ok[/]")
