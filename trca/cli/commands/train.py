"""``trca train``: one run, from a config to a curve and the commands that come next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from trca.cli.run.new_settings import (
    AlgorithmOption,
    AutoResumeOption,
    ConfigArgument,
    EnvOption,
    GamesOption,
    ModelOption,
    NameOption,
    SetOption,
    StorageOption,
    given_settings,
    new_settings,
)
from trca.cli.show.console import (
    console,
    fail,
    noise_to,
    note,
    refusing,
    tracing_to,
    use_one_thread,
    warn,
    what_next,
)
from trca.common.errors import short_line, words
from trca.common.registry import short_name

if TYPE_CHECKING:
    from rich.table import Table

    from trca.algorithms.settings.parameters import TextParameters
    from trca.cli.preflight.preflight import Preflight
    from trca.runs.folder import RunFolder

_DEFAULT: Final = "quickstart"
_GRPO: Final = "GRPO"
_TINY_GRPO: Final = " --set lr=2e-4"
"""GRPO with the tiny policy needs a lower learning rate than the quickstart, tuned on panel 31
(docs/results_settings.md)."""
_PRETRAINED: Final = " --set lr=2e-5"
"""The learning rate of imitation is too high for rewards on all weights (docs/models.md)."""
_GROUP: Final = 8
_EPISODES: Final = 64
"""Episodes that show how good a new start policy is."""


def train(
    config: ConfigArgument = _DEFAULT,
    algorithm: AlgorithmOption = None,
    model: ModelOption = None,
    env: EnvOption = None,
    games: GamesOption = None,
    set_: SetOption = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Training iterations.")] = None,
    name: NameOption = None,
    storage_path: StorageOption = "outputs",
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Resume this run from its last checkpoint."),
    ] = None,
    auto_resume: AutoResumeOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and all settings; run nothing.")
    ] = False,
) -> None:
    """Train a policy. The run folder holds its curve, checkpoints, metrics and rollouts.

    Start here:

    - `trca train` trains a tiny policy on two CPU cores in minutes, with no download
    - `trca train --dry-run` shows the plan and every setting, and runs nothing

    Change something; `--set` takes any setting that the dry run shows:

    - `trca train quickstart --algorithm GRPO --set lr=2e-4 --name grpo`
    - `trca train quickstart --set lr=2e-4 --set budgets.execution=1`

    Bring your own; the run keeps a copy of each file:

    - `trca train quickstart --set credit=my_rule.py:mine` for a credit rule
    - `trca train quickstart --set env_config.library=my_rubric.yaml` for a rubric library
    - `trca train quickstart --env my_env.py:MyEnv` for an environment
    - `trca train my_config.yaml` for settings

    Ctrl-C stops after the iteration under way and saves a checkpoint; a second Ctrl-C stops at
    once. Resume after a stop, a crash or a kill, or train a finished run longer:

    - `trca train --resume outputs/quickstart`
    - `trca train --resume outputs/quickstart --iterations 50`

    A resumed run keeps all other settings. To change a setting, export the policy and start a new
    run from it:

    - `trca export outputs/quickstart --to my-policy`
    - `trca train outputs/quickstart/config.yaml --model my-policy --set lr=2e-4 --name second`

    A second run without `--name` becomes `outputs/quickstart-2`.

    Keep runs where other machines reach them:

    - `trca train quickstart --storage-path s3://bucket/runs`
    """
    use_one_thread()
    from trca.cli.preflight.preflight import Preflight
    from trca.runs.folder import RunFolder, run_name
    from trca.tune_configs.files import ConfigError

    with refusing(ConfigError):
        given = given_settings(
            set_,
            algorithm=algorithm,
            model=model,
            env=env,
            games=games,
            seed=seed,
            iterations=iterations,
        )
        named, run = name or run_name(config), None
        if resume is not None:
            _check_resume(config, name, auto_resume, given)
            run = RunFolder.open(resume, storage_path)
        elif auto_resume and RunFolder.exists(named, storage_path):
            run = RunFolder.open(named, storage_path)
            given = _longer(run, new_settings(config, given))
            if not given and run.status().get("state") == "finished":
                console.print(f"{run.address} is finished: give more --iterations to train longer")
                return
        if run:
            base, source = _resumed(run, given), f"{run.name}/config.yaml"
        else:
            base, source = new_settings(config, given), run_name(config)
            if not dry_run:
                RunFolder.check_name(storage_path, named, numbered=name is None)
        with Preflight(base, source, here=not dry_run) as preflight:
            settings = preflight.settings
            if run:
                _check_iterations(run, settings, given)
            preflight.check()
            if dry_run:
                _show_plan(preflight)
                return
            for each in preflight.notes():
                note(each)
        run = run or RunFolder.create(storage_path, named, numbered=name is None)
        with run.locked():
            try:
                run.write_settings(settings.flat())
                run.push()
            except OSError as error:
                raise ConfigError(
                    f"cannot write to {run.path}: {words(error)}. Nothing is saved"
                ) from None
            if run.own_files():  # the run uses its copies
                settings = type(settings).resolve(run.read_config(), f"{run.name}/config.yaml")
            _run(settings, run)


def _check_resume(config: str, name: str | None, auto_resume: bool, given: dict[str, Any]) -> None:
    """Refuses all that ``--resume`` would not read."""
    from trca.tune_configs.files import ConfigError

    options = {config: config != _DEFAULT, "--name": name, "--auto-resume": auto_resume}
    others = [option for option, value in options.items() if value]
    if others := [*others, *sorted(given.keys() - {"iterations"})]:
        raise ConfigError(
            f"{', '.join(others)} with --resume: a resumed run keeps its settings and its name;"
            " only --iterations can change, to train longer"
        )


def _resumed(run: RunFolder, given: dict[str, Any]) -> dict[str, Any]:
    """The flat settings of a run that continues. Refuses a sweep."""
    from trca.runs import TRIALS
    from trca.tune_configs.files import ConfigError

    if (run.path / TRIALS).exists():
        raise ConfigError(f"{run.path} is a sweep: resume it by trca sweep --resume {run.path}")
    return {**run.read_config(), **given}


def _longer(run: RunFolder, asked: dict[str, Any]) -> dict[str, Any]:
    """The iterations of a run that exists, if a job asks for more; refuses other settings."""
    from trca.algorithms.base.recorder import ANY_MACHINE
    from trca.algorithms.settings.parameters import TextParameters
    from trca.tune_configs.files import ConfigError

    has = _resumed(run, {})
    now = TextParameters.resolve(asked, "config", need_data=False).flat()
    if words := run.differing(now, ANY_MACHINE):
        raise ConfigError(f"{run.address} exists with {words}: name another run")
    more = now["iterations"] > has["iterations"]
    return {"iterations": now["iterations"]} if more else {}


def _check_iterations(run: RunFolder, settings: TextParameters, given: dict[str, Any]) -> None:
    """Refuses to continue a run that has all its iterations."""
    from trca.tune_configs.files import ConfigError

    last, iterations = run.last_iteration(), settings.iterations
    # A run that was killed after its last checkpoint continues to its end: report and status.
    ended = run.status().get("state") == "finished" or given.get("iterations") == last
    if last > iterations or (last == iterations and ended):
        raise ConfigError(
            f"{run.address} has its {last} iterations: give more --iterations to train longer"
        )


def _run(settings: TextParameters, run: RunFolder) -> None:
    from trca.cli.run.training import train
    from trca.cli.show.progress import Progress
    from trca.cli.show.slow_steps import slow_steps_shown
    from trca.runs.folder import quoted
    from trca.tune_configs.files import ConfigError
    from trca.tune_configs.run_parameters import method_name

    log = run.path / "logs" / "output.log"

    def ended(state: Literal["interrupted", "failed"], message: str = "") -> str:
        with suppress(OSError, ConfigError):  # the storage must not hide the error itself
            run.set_status(state, run.last_iteration(), message)
        saved = "Nothing is saved yet."
        if run.has_checkpoint():
            saved = f"Iteration {run.last_iteration()} is saved."
        return f"{saved} Resume: trca train --resume {quoted(run.address)}"

    try:
        method = method_name(settings.flat())
        console.print(f"[bold]{run.address}[/]: {method} on {short_name(settings.env)}")
        build_start(settings, log)
        with (
            noise_to(log) as terminal,
            tracing_to(log),
            Progress(terminal, run.name, settings.iterations) as progress,
            slow_steps_shown(log, progress.warn),
        ):
            interrupted = train(settings, run, progress)
    except KeyboardInterrupt:
        interrupted = True
    except Exception as error:
        fail(f"{words(error)}. Log: {log}\n{ended('failed', words(error))}")
    if interrupted:
        console.print(f"stopped; {ended('interrupted')}")
        raise typer.Exit(130)
    run.set_status("finished", settings.iterations)
    show_results(run, settings)


def _show_plan(preflight: Preflight) -> None:
    import yaml

    from trca.cli.preflight.plan import plan

    console.print(plan(preflight), soft_wrap=False)
    for each in [*preflight.notes(), *preflight.lacks()]:
        note(each)
    console.print("\n[bold]settings[/]")
    console.print(yaml.safe_dump(preflight.settings.flat(), sort_keys=False).rstrip(), markup=False)


def build_start(settings: TextParameters, log: Path) -> None:
    """Builds or fetches the start policy; evaluates a tiny policy that was built just now."""
    from trca.cli.preflight.preflight import model_folder
    from trca.policies.model_names import TINY

    built = settings.model == TINY and not model_folder(settings)
    settings.algorithm_config().resolved_model()
    if built:
        for line in start_lines(_evaluate(settings, log)):
            console.print(line, markup=False)


def start_lines(metrics: Mapping[str, Any]) -> list[str]:
    """Returns sentences about a start policy from the summary of its evaluation."""
    episodes = metrics["n"]
    lines = [
        f"Start policy after imitation: {metrics['success_rate']:.1%} of {episodes} training"
        f" episodes succeed, {metrics['parsed_ratio']:.1%} of the responses are readable,"
        f" {metrics['valid_action_ratio']:.1%} of the actions are carried out."
    ]
    if not metrics["success_rate"]:
        lines.append(
            f"warning: the start policy wins none of {episodes} episodes. Algorithms that read only"
            " the outcome, such as GRPO, have nothing to learn from; choose easier tasks, a better"
            ' demonstrator_action(), more updates in tiny_policy["stages"], or a rubric and TRCA.'
        )
    return lines


def _evaluate(settings: TextParameters, log: Path) -> Mapping[str, Any]:
    """The summary of `_EPISODES` episodes on the training tasks."""
    from trca.algorithms.base.evaluation import evaluate_panel, local_runner
    from trca.cli.preflight.preflight import panel

    with (
        noise_to(log) as terminal,
        tracing_to(log),
        terminal.status(f"playing {_EPISODES} episodes with the start policy"),
    ):
        tasks = panel(settings, settings.train_split).head(_EPISODES)
        runner = local_runner(settings.algorithm_config())
        try:
            evaluation = evaluate_panel(
                runner,
                tasks,
                rollouts=-(-_EPISODES // len(tasks.task_ids)),
                seed=settings.seed,
                temperature=settings.temperature,
            )
        finally:
            runner.stop()
    return evaluation.summary()


def show_results(run: RunFolder, settings: TextParameters) -> None:
    """Prints the results of a finished run, and commands that come next."""
    from trca.analysis.diagnosis import held_out_gap
    from trca.cli.show.warnings import training_warnings
    from trca.common.json_lines import read_lines
    from trca.runs.reports import read_table

    console.print()
    metrics = run.metrics()
    for warning in [*training_warnings(metrics).values(), *held_out_gap(metrics)]:
        warn(warning)
    console.print(read_table(run.path / "evaluation"), soft_wrap=False)
    if failed := read_lines(run.failures):
        console.print(failure_table(failed))
    console.print(f"Curve:       {run.path / 'curve.png'}", markup=False)
    what_next(next_steps(run, settings))


def next_steps(run: RunFolder, settings: TextParameters) -> list[tuple[str, str]]:
    """Commands for a finished run, each with its purpose."""
    from trca.envs.registration import lacks_rubric
    from trca.policies.model_names import TINY
    from trca.runs.folder import quoted

    address, config = run.address, quoted(run.path / "config.yaml")
    judged = not lacks_rubric(settings.env, settings.env_config.get("library"))
    imitated = settings.credit == "imitation"
    other = "GiGPO" if settings.algorithm == _GRPO else _GRPO
    if imitated:
        other = "TRCA" if judged else _GRPO
    tiny = settings.model == TINY
    changes = _TINY_GRPO if other == _GRPO and tiny else ""
    if imitated and not (tiny or settings.lora_rank):
        changes = _PRETRAINED
    if settings.group_size == 1:  # imitation; the other algorithm compares rollouts
        changes += f" --set group_size={_GROUP}"
    start = " --model my-policy" if imitated else ""
    train = f"trca train {config} --algorithm {other}{start}{changes} --name {other.lower()}"
    export = f"trca export {quoted(address)} --to my-policy"
    last = [
        (train, "another algorithm on the same tasks"),
        (export, "a folder that from_pretrained opens"),
    ]
    if imitated:
        last = [(export, last[1][1]), (train, "the exported policy learns from its own rollouts")]
    commands = [
        (f"trca inspect {quoted(address)}", "the rollouts of the last iteration, step by step"),
        (f"trca view {quoted(address)}", "the rollouts in a browser"),
        (
            f"trca evaluate {quoted(f'{address}@last')} --seeds 3",
            "the last checkpoint on held-out tasks, 3 times, fresh random streams",
        ),
        *last,
    ]
    if judged:
        why = "what failed rollouts contain, and what looks wrong"
        commands.insert(0, (f"trca diagnose {quoted(address)}", why))
    if "tensorboard" in settings.tracking:
        commands.append((f"tensorboard --logdir {quoted(run.path)}", "every metric over time"))
    return commands


def failure_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a table of failures by kind and action: their number and the last reason."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    by_kind: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        by_kind.setdefault((line["kind"], line["action"]), []).append(line["reason"])
    table = Table(box=box.SIMPLE_HEAD, title="Failures", title_justify="left")
    table.add_column("kind")
    table.add_column("number", justify="right")
    table.add_column("action")
    table.add_column("last reason", overflow="fold")
    for (kind, action), reasons in sorted(by_kind.items()):
        table.add_row(kind, str(len(reasons)), Text(action), Text(short_line(reasons[-1])))
    return table
