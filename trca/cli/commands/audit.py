"""``trca audit``: which credit rules agree with advantages by execution."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trca.cli.run.new_settings import SetOption
from trca.cli.show.console import (
    console,
    fail,
    log_words,
    make_writable,
    noise_to,
    refusing,
    tracing_to,
    use_one_thread,
    warn,
)
from trca.common.errors import words

if TYPE_CHECKING:
    from trca.algorithms.base.audit import Agreement, Audit
    from trca.cli.run.checkpoints import Policy

_SETTLED: Final = 0.3
"""A lower ceiling means that noise hides the order of the rules."""


def audit(
    run_or_model: Annotated[
        str, typer.Argument(metavar="RUN[@best|@last] | MODEL", help="The policy, as in evaluate.")
    ],
    tasks: Annotated[int, typer.Option(min=1, help="Training tasks, one group each.")] = 12,
    rollouts: Annotated[
        int, typer.Option(min=1, help="Rollouts whose steps are measured, of all groups.")
    ] = 24,
    playouts: Annotated[int, typer.Option(min=2, help="Playouts from each state.")] = 32,
    seed: Annotated[int, typer.Option(help="Seed of tasks, rollouts and playouts.")] = 0,
    config: Annotated[
        str | None,
        typer.Option(help="Config of a model without a run. [default: quickstart]"),
    ] = None,
    set_: SetOption = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for audit_*.{json,png}. [default: the run's]")
    ] = None,
) -> None:
    """Measure what each action was worth, and compare the credit of every rule with it.

    The policy plays groups of training tasks. From every state of some rollouts the policy then
    plays to the end many times: the mean score is the value of the state, and the change of the
    value is the advantage by execution of the action. All credit rules credit the same rollouts.
    The table shows for each rule the rank correlation with the advantages by execution (over all
    steps, and of the steps of one rollout with each other), the share of right signs where the sign
    is sure, and the share of the steps with credit. No rule of the run's training is changed.

    The rule of an algorithm with a critic is compared on a run of this algorithm. The environment
    must depend on nothing but the task and the actions; the command checks this.

    - `trca audit outputs/quickstart`
    - `trca audit outputs/quickstart@best --rollouts 48 --playouts 64 --output audits`
    - `trca audit my-policy --config webshop --set temperature=1`
    """
    use_one_thread()
    from trca.cli.run.checkpoints import policy
    from trca.tune_configs.files import ConfigError, assignments

    with refusing(ConfigError, ValueError, OSError):
        subject = policy(run_or_model, config, assignments(set_ or []))
        folder = output or subject.folder
        make_writable(folder)
        from trca.algorithms.base.audit import rules_of  # imports PyTorch

        checkpoint = subject.checkpoint if subject.settings.critic_kind else None
        rules, skipped = rules_of(subject.settings, checkpoint)
    log = folder / "logs" / "audit.log"
    try:
        found = _measure(subject, checkpoint, rules, tasks, rollouts, playouts, seed, log)
    except Exception as error:
        fail(f"{words(error)}.{log_words(log)}")
    unsorted = [(name, found.agreement(name)) for name in found.credit]
    # rules without a correlation are at the end
    unsorted.sort(key=lambda rule: -rule[1].correlation if rule[1].defined else 2.0)
    agreements = dict(unsorted)
    _print(found, agreements, {**skipped, **found.skipped})
    about = {"policy": subject.name, "tasks": tasks, "rollouts": rollouts, "playouts": playouts}
    _write(folder / f"audit_{subject.label}", found, agreements, {**about, "seed": seed})


def _measure(
    subject: Policy,
    checkpoint: Path | None,
    rules: dict[str, Any],
    tasks: int,
    rollouts: int,
    playouts: int,
    seed: int,
    log: Path,
) -> Audit:
    with (
        noise_to(log) as terminal,
        tracing_to(log),
        terminal.status("loading the model") as status,
    ):
        from trca.algorithms.base.audit import BranchRunner, audit, learners_of, sample
        from trca.algorithms.base.evaluation import local_runner

        config = subject.algorithm_config()
        runner: Any = local_runner(config, BranchRunner)
        if checkpoint:  # of the model that the run started from
            config = subject.settings.algorithm_config()
        learners = learners_of(runner, config, checkpoint)
        size = subject.settings.group_size
        _ = runner.loop  # loads the model, before the clock starts
        status.update(f"playing {tasks} groups of {size} rollouts")
        start = time.monotonic()
        played = sample(runner, tasks, size, seed)
        per_rollout = (time.monotonic() - start) / len(played)
        steps = sum(len(each.steps) for each in played) / len(played)
        states = min(rollouts, len(played)) * steps
        minutes = per_rollout * states * playouts / 2 / 60  # a playout begins in the middle
        terminal.print(
            f"{subject.name}: {sum(each.won for each in played)} of {len(played)} rollouts won."
            f" About {states:,.0f} states, {states * playouts:,.0f} playouts, {minutes:.0f} minutes"
        )
        found = audit(
            runner,
            played,
            rules,
            learners,
            branched=rollouts,
            playouts=playouts,
            seed=seed,
            progress=lambda done, of: status.update(f"{done} of {of} states"),
        )
        runner.stop()
    return found


def _print(found: Audit, agreements: dict[str, Agreement], skipped: dict[str, str]) -> None:
    from trca.runs.success_tables import terminal_table

    table = terminal_table()
    table.add_column("rule", no_wrap=True)
    for heading in ("correlation", "95% interval", "in rollouts", "signs", "credited"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, each in agreements.items():
        table.add_row(
            name,
            _number(each.correlation),
            f"{_number(each.low)} to {_number(each.high)}",
            _number(each.in_rollouts),
            _share(each.signs),
            _share(each.credited),
        )
    console.print(
        f"{len(found.executed):,} steps, {found.playouts:,} playouts. The advantage by execution"
        f" has a sure sign at {found.sure.sum():,} steps. A rule without error would have a rank"
        f" correlation of about {found.ceiling():.2f}."
    )
    console.print(table, soft_wrap=False)
    if found.lost:
        missing = sum(each.rollouts for each in found.lost)
        warn(
            f"playouts without a score: {missing}. Their rollouts are left out. The first:"
            f" {found.lost[0].reason}"
        )
    for name, reason in skipped.items():
        console.print(f"{name} is left out: {reason}", markup=False, style="dim")
    if found.ceiling() < _SETTLED:
        warn(
            "noise hides most of the order. Give more --playouts and --rollouts, or a policy that"
            " wins between 20% and 80% of the tasks"
        )


def _write(
    path: Path, found: Audit, agreements: dict[str, Agreement], about: dict[str, Any]
) -> None:
    from trca.cli.show.figures import draw_audit
    from trca.common.files import write_json

    data = {
        **about,
        "steps": len(found.executed),
        "played": found.playouts,
        "ceiling": found.ceiling(),
        "rules": {name: asdict(each) for name, each in agreements.items()},
        "executed": found.executed.round(6).tolist(),
        "error": found.error.round(6).tolist(),
        "credit": {name: credit.round(6).tolist() for name, credit in found.credit.items()},
    }
    with refusing(OSError):
        write_json(path.with_name(f"{path.name}.json"), data)
        title = f"Credit against execution: {about['policy']}"
        draw_audit(agreements, found.ceiling(), path.with_name(f"{path.name}.png"), title)
    console.print(f"Written to {path}.{{json,png}}", markup=False)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:z.2f}"


def _share(value: float) -> str:
    return "-" if value != value else f"{value:.0%}"
