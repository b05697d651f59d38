"""``trca evaluate``: a policy on a frozen panel, every task, nothing dropped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import trca
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
from trca.cli.show.warnings import why_unreadable
from trca.common.errors import words

if TYPE_CHECKING:
    from trca.algorithms.base.evaluation import Evaluation
    from trca.cli.run.checkpoints import Policy
    from trca.common.chat_endpoint import Usage
    from trca.envs.panel import Panel
    from trca.policies.agents import Agent
    from trca.runs.episode_folder import EpisodeFolder

_ZERO_SHOT: Final = "zero-shot"
_NAMED: Final = frozenset({"evaluation_split", "evaluation_temperature", "evaluation_tasks"})
"""Settings that are part of the name of every report."""


def evaluate(
    run_or_model: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN[@best|@last] | MODEL]",
            help="A run folder, or a model: a folder, a GGUF file, smollm2, or a hub name.",
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split. [default: the run's]")] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Only the head of the panel. [default: all of it]")
    ] = None,
    panel_name: Annotated[
        str | None,
        typer.Option(
            "--panel",
            metavar="NAME",
            help="A canonical panel in place of --split and --tasks, such as official-134 or"
            " embedded-alfworld-132.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Times the panel is played.")] = 1,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="0 is greedy. [default: the run's]")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="Config with the environment and the prompt for a model without a run. [default:"
            " quickstart]"
        ),
    ] = None,
    set_: SetOption = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the report. [default: the run, or outputs]")
    ] = None,
    transcripts: Annotated[
        bool, typer.Option("--transcripts", help="Keep every rollout too, for trca inspect.")
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Prompting of a model that was not trained here: zero-shot, react, reflexion or"
            " file.py:AGENT. [default: the prompt of --config or of the run; without both,"
            " zero-shot for a model with a chat template and at an endpoint]"
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="A model's name at --base-url.")
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="An OpenAI-compatible endpoint; its key is OPENAI_API_KEY of the environment.",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1, help="The most trials of a task, for an agent that reflects. [default: 3]"
        ),
    ] = None,
    prices: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="IN OUT",
            help="Price of a million prompt tokens and of a million completion tokens at the"
            " endpoint.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue an interrupted evaluation at an endpoint: play the missing episodes.",
        ),
    ] = False,
) -> None:
    """Evaluate a run or a model: success by task type, with n and 95% intervals.

    Every task of the panel is played with every seed. A rollout that is missing for a technical
    reason is counted and named; it is never a zero. Each policy, panel, number of seeds,
    temperature and choice of settings gets a separate report with the SHA-256 of the weights of the
    model and the versions of packages.

    RUN is the run's last checkpoint. RUN@best has the highest success of the evaluations during
    training; its report leaves out the tasks of these evaluations, since success on them is likely
    too high. The rollouts have other random seeds than the run's own evaluations. The report names
    the metric and the panel that chose the checkpoint.

    At an endpoint each episode is kept when it ends. After an interruption, or with missing
    episodes, the same command with `--resume` plays the remaining episodes.

    - `trca evaluate outputs/quickstart` plays the last checkpoint on the run's held-out split
    - `trca evaluate outputs/quickstart@best --split valid_seen --seeds 3`
    - `trca evaluate outputs/quickstart --panel embedded-alfworld-132` plays a canonical panel
    - `trca evaluate outputs/quickstart --temperature 0 --transcripts` keeps responses and actions
    - `trca evaluate my-policy --config outputs/quickstart/config.yaml` evaluates an exported folder
    - `trca evaluate Qwen/Qwen2.5-1.5B-Instruct --config paper/alfworld_qwen2.5_1.5b --tasks 16`
    - `trca evaluate --agent react --model NAME --base-url https://HOST/v1 --prices 2.5 10`
    - `trca evaluate --agent reflexion --trials 5 Qwen/Qwen2.5-1.5B-Instruct`
    """
    use_one_thread()
    from trca.cli.preflight.preflight import panel as whole_panel
    from trca.cli.run.checkpoints import endpoint_policy, is_model_name, policy
    from trca.envs.panel import canonical_panel
    from trca.policies.agents import AGENTS
    from trca.policies.model_names import missing_on_hub
    from trca.policies.weight_files import weights_hash
    from trca.runs.episode_folder import EpisodeFolder
    from trca.runs.own_files import by_content
    from trca.runs.provenance import versions
    from trca.runs.reports import Report
    from trca.tune_configs.files import absolute, assignments

    with refusing():
        given = assignments(set_ or [])
        if "evaluation_rollouts" in given:
            raise ValueError("evaluation_rollouts is a setting of training: give --seeds here")
        tasks = tasks or given.get("evaluation_tasks")
        if resume and not base_url:
            raise ValueError("--resume is for a model at an endpoint: --model NAME --base-url URL")
        if prices and not all(price >= 0 for price in prices):
            raise ValueError(f"--prices is {prices[0]:g} {prices[1]:g}: give prices from 0 on")
        hub = run_or_model or ""
        if not base_url and is_model_name(hub) and (lack := missing_on_hub(hub)):
            raise ValueError(lack)
        if panel_name and (split or tasks):
            raise ValueError("--panel names split and tasks: leave --split and --tasks out")
        canonical = canonical_panel(panel_name) if panel_name else None
        if split is not None:
            given["evaluation_split"] = split
        if agent is None and (base_url or (config is None and _chats(run_or_model))):
            agent = _ZERO_SHOT
        prompting = AGENTS.get(agent) if agent else None
        reflection = prompting.reflection if prompting else None
        if trials and not reflection:
            raise ValueError("--trials is for an agent that reflects: --agent reflexion")
        settings = {**(prompting.settings if prompting else {}), **given}
        if base_url and model and not run_or_model:
            subject = endpoint_policy(model, base_url, config, settings)
        elif run_or_model and not (base_url or model or prices):
            subject = policy(run_or_model, config, settings)
        else:
            raise ValueError(
                "name the policy to evaluate: RUN or MODEL on this machine; or --model NAME"
                " --base-url URL, with --prices if you like, at an endpoint"
            )
        if canonical:
            subject = subject.on(canonical, given)
        selection = subject.selection
        panel = whole_panel(subject.settings, str(subject.settings.evaluation_split))
        if canonical:
            panel = canonical.draw(panel)
        else:
            panel = (selection.others(panel) if selection else panel).head(tasks)
        folder = output or subject.folder
        make_writable(folder)
    if temperature is None:
        temperature = subject.settings.evaluation_temperature
    console.print(
        f"{subject.name} on {panel.split}: tasks {len(panel.task_ids)}, seeds {seeds}, temperature"
        f" {temperature:g}",
        markup=False,
    )
    about: dict[str, Any] = {"policy": subject.name, "seeds": seeds, "temperature": temperature}
    record: dict[str, Any] = {"settings": subject.settings.flat(), "versions": versions()}
    label, trials = subject.label, trials or 3
    if selection:
        about["checkpoint"] = selection.words_for(panel)
        record["selection"] = selection.record(panel)
        console.print(f"Checkpoint: {about['checkpoint']}", markup=False)
    if agent:
        label += f"_{Path(agent).name.replace(':', '-')}" + (f"-{trials}" if reflection else "")
        console.print(f"Prompt: {agent}", markup=False)
    changed = {k: v for k, v in given.items() if k not in _NAMED}
    more = {"panel_name": panel_name, "agent": agent, "trials": trials if reflection else 0}
    about |= {name: value for name, value in {**more, "set": changed}.items() if value}
    text = json.dumps(identity(subject, folder, changed), sort_keys=True, default=str)
    suffix = f"_{hashlib.sha256(text.encode()).hexdigest()[:8]}" if text != "{}" else ""
    path = folder / (
        f"evaluation_{label}_{panel.split}-{len(panel.task_ids)}-{panel.hash[:8]}"
        f"_seeds-{seeds}_t-{temperature:g}{suffix}"
    )
    log = folder / "logs" / "evaluate.log"
    episodes = None
    if base_url:
        same = {"trca": trca.__version__, **subject.settings.flat(), **more, "panel": panel.hash}
        same |= {"seeds": seeds, "temperature": temperature}
        episodes = EpisodeFolder(path, by_content(absolute(same)))
        with refusing():
            episodes.check(resume)
    try:
        if not base_url:
            record["weights"] = weights_hash(subject.algorithm_config().resolved_model())
        with episodes.opened() if episodes is not None else nullcontext():
            if episodes:
                about["resumed_after"] = f"{len(episodes)} episodes"
                console.print(f"Continues after {about['resumed_after']}", markup=False)
            play = partial(_play, subject, panel, seeds, temperature, log, prompting, trials)
            played, tokenizer, usage = play(episodes)
        report = Report.of(panel, played)
        if usage:
            about["endpoint"] = asdict(usage)
            if prices:
                about["endpoint"] |= {"prices": prices, "cost": round(usage.cost(*prices), 6)}
        rollouts = [rollout for each in played.values() for rollout in each.rollouts]
        finished = any(outcome.won is not None for outcome in report.outcomes)
        if finished:
            report.write(path, record, **about)
            if transcripts:
                from trca.records import write_rollouts

                prompts = [tokenizer.decode(s.prompt_ids) for each in rollouts for s in each.steps]
                failures = [failure for each in played.values() for failure in each.failures]
                to = path.with_name(f"{path.name}.parquet")
                write_rollouts(to, rollouts, prompts, failures)
            if episodes and not report.failures():
                episodes.remove()
    except KeyboardInterrupt:
        fail(f"stopped.{_kept(episodes)}", code=130)
    except Exception as error:
        fail(f"{words(error)}.{_kept(episodes)}{log_words(log)}")
    console.print(report.table(), soft_wrap=False)
    chat = bool(getattr(tokenizer, "chat_template", None))
    if unreadable := why_unreadable(rollouts, subject.settings, chat):
        warn(unreadable)
    for reason, missing in report.failures().items():
        console.print(f"{missing} missing: {reason}", markup=False, style="bold red")
    if usage:
        console.print(f"Endpoint: {usage.words(prices)}", markup=False)
    if not finished:
        fail(f"no episode was finished, nothing is written.{log_words(log)}")
    if report.failures() and episodes:
        console.print(_kept(episodes).strip(), markup=False)
    kinds = "md,json,parquet" if transcripts else "md,json"
    console.print(f"Written to {path.parent}:\n  {path.name}.{{{kinds}}}", markup=False)


def _play(
    subject: Policy,
    panel: Panel,
    seeds: int,
    temperature: float,
    log: Path,
    agent: Agent | None,
    trials: int,
    episodes: EpisodeFolder | None,
) -> tuple[dict[int, Evaluation], Any, Usage | None]:
    """Returns the evaluations by seed, the tokenizer, and the usage of an endpoint."""
    from trca.cli.show.slow_steps import slow_steps_shown

    with (
        noise_to(log) as terminal,
        tracing_to(log),
        terminal.status("loading the model") as status,
        slow_steps_shown(log, terminal.print),
    ):
        from trca.algorithms.base.evaluation import evaluate_panel, local_runner
        from trca.algorithms.rollouts.attempts import AttemptsRunner
        from trca.algorithms.rollouts.env_runner import TextEnvRunner

        maker: Any = TextEnvRunner
        if agent and agent.reflection:
            maker = partial(AttemptsRunner, attempts=trials, reflection=agent.reflection)
        runner = local_runner(subject.algorithm_config(), maker)
        tokenizer = runner.loop.tokenizer
        usage: Any = getattr(runner.loop.engine, "usage", None)
        played = {}
        for seed in range(seeds):
            status.update(f"playing {len(panel.task_ids)} tasks with seed {seed}")
            keeping: dict[str, Any] = {}
            if episodes is not None:
                keeping["played"] = episodes.read(seed)
                keeping["finished"] = partial(episodes.add, seed, usage=usage)
            options = {"seed": seed, "temperature": temperature, **keeping}
            played[seed] = evaluate_panel(runner, panel, **options)
        runner.stop()
    if usage and episodes is not None:
        usage = episodes.count(usage)
    return played, tokenizer, usage


def _kept(episodes: EpisodeFolder | None) -> str:
    """Says how to play the missing episodes; empty without a finished episode."""
    if not episodes:
        return ""
    return f" {len(episodes)} episodes are kept: the same command with --resume plays the others."


def identity(subject: Policy, folder: Path, changed: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties that distinguish a report from a report with the same file name.

    In the folder of the run these are the changed settings. Elsewhere these are the policy and its
    settings, since a label is only the last part of a name.
    """
    if subject.selection:
        is_inside = folder.resolve() in Path(subject.model).resolve().parents
        return changed if is_inside else {**changed, "policy": subject.name}
    kept = {k: v for k, v in subject.settings.flat().items() if k not in _NAMED}
    return {**kept, "model": subject.model}


def _chats(name: str | None) -> bool:
    """Whether the name is a model (not a run) with a chat template."""
    from trca.cli.run.checkpoints import is_model_name
    from trca.policies.model_names import resolve_model

    if name is None or name == "tiny" or not is_model_name(name):
        return False
    from trca.policies.models import load_tokenizer  # imports PyTorch

    tokenizer = load_tokenizer(resolve_model(name, env_id=""))
    return bool(getattr(tokenizer, "chat_template", None))
