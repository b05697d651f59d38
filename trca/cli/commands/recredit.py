"""``trca recredit``: the credit of recorded rollouts by another rule, or another library."""

from __future__ import annotations

from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trca.cli.run.new_settings import EndpointOption, RunsOption
from trca.cli.show.console import console, percent, refusing, use_one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trca.algorithms.settings.parameters import TextParameters
    from trca.analysis.recredit import Change
    from trca.analysis.rejudge import Rejudge

_MOST_FAILURES: Final = 20
"""Failures in a row after which no question is sent."""


def recredit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, or its name.")],
    credit: Annotated[
        str | None,
        typer.Option(help="A credit rule, or file.py:function. [default: the run's own]"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the rule; repeatable."),
    ] = None,
    iteration: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Only this iteration; repeatable. [default: all recorded]"),
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(help="A library that judges the rollouts: a name, or a file."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A model at --base-url answers the library's questions."),
    ] = None,
    base_url: EndpointOption = None,
    output: Annotated[Path | None, typer.Option(help="File for the comparison, as JSON.")] = None,
    storage_path: RunsOption = "outputs",
) -> None:
    """Credit the rollouts of a run again, by another rule, lambda or rubric library.

    Compares the advantages of the run with the advantages under the named rule, step by step:
    signs, ranks, groups without a signal, and the change for each rubric operator. Each role of a
    team is credited separately.

    A library judges the recorded facts. If its operators have questions (`judge:` in the place of
    a condition), the model answers them. The run keeps the answers in `judgments.jsonl`, so a
    second call asks nothing again. A rollout without all its answers is left out.

    - `trca recredit outputs/quickstart --credit gigpo`
    - `trca recredit outputs/quickstart --set lambda_=0.5`
    - `trca recredit outputs/quickstart --credit my_rule.py:mine --set credit_config.decay=0.5`
    - `trca recredit outputs/quickstart --credit grpo --iteration 1 --output change.json`
    - `trca recredit outputs/quickstart --library my_library.yaml`
    - `trca recredit outputs/quickstart --library mine.yaml --judge NAME --base-url https://HOST/v1`
    """
    use_one_thread()
    from dataclasses import asdict

    from trca.algorithms.credit import bind_credit
    from trca.algorithms.settings.parameters import TextParameters
    from trca.analysis.recredit import change
    from trca.analysis.recredit import recredit as credit_again
    from trca.analysis.rejudge import Rejudge
    from trca.common.chat_endpoint import EndpointError
    from trca.common.files import write_json
    from trca.envs.annotate import Operators
    from trca.envs.registration import env_class
    from trca.envs.text_env import DEFAULT_AGENT
    from trca.rubric import RubricLibrary
    from trca.runs.folder import RunFolder
    from trca.runs.rollout_files import agent_operators, judged, recorded
    from trca.tune_configs.files import assignments

    with refusing(EndpointError, ValueError, OSError):
        if not (credit or set_ or library):
            raise ValueError(
                "name another rule, a parameter of the run's rule, or a library: --credit gigpo,"
                " --set KEY=VALUE, or --library FILE"
            )
        if bool(judge) != bool(base_url) or (judge and not library):
            raise ValueError("--library FILE, --judge NAME and --base-url URL go together")
        folder = RunFolder.open_run(run, storage_path)
        config, source = folder.read_config(), f"{folder.name}/config.yaml"
        given = assignments(set_ or [])
        was = TextParameters.resolve(config, source, need_data=False)
        now = _settings(config, credit, given)
        paths = recorded(folder, iterations=iteration)
        rule = bind_credit(now.credit, now)
        read = {*rule.parameters, "credit_config", "gold_in_training"}
        if unread := [key for key in given if key.split(".")[0] not in read]:
            raise ValueError(
                f"{rule.name} does not read {unread[0]}: name a rule by --credit; --set takes"
                f" {', '.join(rule.parameters) or 'nothing'} here"
            )
        changes = {}
        operators = agent_operators(was.env, was.env_config)
        rejudge, questions = None, None
        if library:
            if list(operators) != [DEFAULT_AGENT]:
                raise ValueError(
                    f"--library judges a single agent again, not {' and '.join(operators)}: leave"
                    " it out"
                )
            if judge and base_url:
                questions = _Questions(judge, base_url, folder.path / "judgments.jsonl")
            rejudge = Rejudge(RubricLibrary.load(library), env_class(was.env), questions)
        for agent, judges in operators.items():  # reads again: one role's rollouts fit in memory
            played = (agents[agent] for _, agents in judged(paths, operators) if agent in agents)
            if rejudge:
                played = (again for rollouts in played if (again := rejudge(rollouts)))
                judges = Operators(rejudge.library.ids, rejudge.library.categories)
            if (first := next(played, None)) is None:
                continue  # a role that never acted
            credited, count = credit_again(chain([first], played), rule, judges.categories)
            changes[agent] = change(credited, count, judges.ids)
        if not changes and questions:
            failure = questions.error or "the replies are neither yes nor no"
            raise ValueError(f"no rollout has all its judgments: {failure}")
        if not changes:
            raise ValueError("no rollout with a step is recorded")
        compared = rejudge.agreement() if rejudge else {}
    about = {
        "run": str(folder.path),
        "iterations": list(paths),
        "credit": [was.credit, now.credit],
        "set": dict(given),
    }
    if rejudge:
        about["library"] = rejudge.library.source
        about["judged"] = compared
    single = changes.get(DEFAULT_AGENT)
    for agent, of_agent in changes.items():
        _print(of_agent, about, "" if single else f", {agent}")
    if rejudge:
        _print_judged(rejudge, compared, questions)
    if output:
        roles = {"roles": {agent: asdict(of_agent) for agent, of_agent in changes.items()}}
        with refusing(OSError):
            write_json(output, {**about, **(asdict(single) if single else roles)})
        console.print(f"Written to {output}", markup=False)


def _settings(config: dict[str, Any], credit: str | None, given: dict[str, Any]) -> TextParameters:
    """The settings that bind the named rule.

    A registered rule has the defaults of its algorithm. Settings that both algorithms have keep the
    values of the run.
    """
    from trca.algorithms.settings.parameters import TextParameters, parameter_models, switch
    from trca.common.registry import own_file
    from trca.tune_configs.files import assign

    if credit and not own_file(credit):
        models = parameter_models().items()
        owners = [algorithm for algorithm, model in models if model.own_rule() == credit]
        if owners:
            config = switch({k: v for k, v in config.items() if k != "credit"}, owners[0])
    source = " and ".join(["--credit"] * bool(credit) + ["--set"] * bool(given))
    if credit:  # a record has no gold: a rule that reads gold is refused below
        given = {"credit": credit, "gold_in_training": True, **given}
    return TextParameters.resolve(assign(config, given), source, need_data=False)


def _print(change: Change, about: dict[str, Any], whose: str) -> None:
    from rich.text import Text

    from trca.analysis.recredit import SIGNS
    from trca.runs.success_tables import terminal_table

    was, now = about["credit"]
    changed = "".join(f" {key}={value}" for key, value in about["set"].items())
    changed += f", judged by {about['library']}" if "library" in about else ""
    console.print(
        Text(
            f"{about['run']}{whose}: {change.steps:,} steps of {change.rollouts:,} rollouts in"
            f" {change.groups:,} groups,"
            f" iteration{'s' * (len(about['iterations']) > 1)} {_ranges(about['iterations'])}",
            style="bold",
        )
    )
    console.print(f"before: {was}, as in training; after: {now}{changed}", markup=False)
    sides = terminal_table("", "before", "after")
    for words, name, shown in (
        ("steps with an advantage", "steps", percent),
        ("groups with one", "groups", percent),
        ("positive", "positive", percent),
        ("positive, in failed rollouts", "positive_in_lost", percent),
        ("negative, in successful rollouts", "negative_in_won", percent),
        ("mean |A|", "magnitude", "{:z.3f}".format),
        ("standard deviation in a group", "spread", "{:z.3f}".format),
    ):
        both = change.before, change.after
        sides.add_row(words, *(shown(getattr(side, name)) for side in both))
    console.print(sides, soft_wrap=False)
    if change.rank_correlation == change.rank_correlation:
        console.print(
            f"Rank correlation {change.rank_correlation:.2f}; within groups"
            f" {change.rank_correlation_in_groups:.2f} on average"
        )
    else:
        console.print("No rank correlation: one side has the same advantage everywhere")
    signs = terminal_table("share of steps", *(f"after {sign}" for sign in SIGNS))
    for sign, row in zip(SIGNS, change.signs, strict=True):
        signs.add_row(f"before {sign}", *map(percent, row))
    console.print(signs, soft_wrap=False)
    fired = [each for each in change.operators if each.steps]
    if not fired:
        return
    operators = terminal_table("operator fired", "steps", "mean before", "mean after", "other sign")
    for each in sorted(fired, key=lambda each: -abs(each.after - each.before)):
        means = f"{each.before:+z.3f}", f"{each.after:+z.3f}"
        operators.add_row(each.operator, f"{each.steps:,}", *means, percent(each.flipped))
    console.print(operators, soft_wrap=False)
    if silent := [each.operator for each in change.operators if not each.steps]:
        console.print(f"Never fired: {', '.join(silent)}", markup=False)


class _Questions:
    """Asks a model for judgments, and keeps them in a file.

    Attributes:
        usage: Requests and tokens.
        asked: Number of questions, with those that the file answers.
        error: The last failure of the endpoint.
    """

    def __init__(self, model: str, url: str, kept: Path) -> None:
        from trca.common.chat_endpoint import ChatEndpoint

        self._endpoint, self._kept = ChatEndpoint(url, model), kept
        self.usage = self._endpoint.usage
        self.asked = self._failed_in_a_row = 0
        self.error = ""

    def __call__(self, prompts: Sequence[str]) -> NDArray[np.int64]:
        from trca.analysis.llm_labels import ANSWERS, label_transitions
        from trca.common.progress import progress_bar

        self.asked += len(prompts)
        with progress_bar() as report:
            return label_transitions(
                prompts,
                self._ask,
                self._kept,
                self._endpoint.model,
                lambda done: report("answered", done, len(prompts)),
                "answer",
                ANSWERS,
            )

    def _ask(self, prompt: str) -> str:
        """Returns the reply; empty after a failure, and for all questions after many failures."""
        from trca.analysis.llm_labels import ANSWERS, request
        from trca.common.chat_endpoint import EndpointError

        if self._failed_in_a_row >= _MOST_FAILURES:
            return ""
        try:
            reply = self._endpoint.ask(prompt, **request("answer", ANSWERS)).after_thought
        except EndpointError as error:
            self.error = str(error)
            self._failed_in_a_row += 1
            return ""
        self._failed_in_a_row = 0
        return reply


def _print_judged(
    rejudge: Rejudge, compared: Mapping[str, Mapping[str, float]], questions: _Questions | None
) -> None:
    """Prints the operators with other judgments than in the run, and the questions."""
    from trca.runs.success_tables import terminal_table

    table = terminal_table("operator", "fired before", "now", "equal", "kappa", "missing")
    for name, each in compared.items():
        if each["equal"] != 1 or name in rejudge.library.questions:
            shares = map(percent, (each["before"], each["now"], each["equal"]))
            kappa = "-" if each["kappa"] != each["kappa"] else f"{each['kappa']:.2f}"
            table.add_row(name, *shares, kappa, f"{each['missing']:,}")
    if table.row_count:
        console.print(table, soft_wrap=False)
    else:
        console.print("The library gives the recorded judgments")
    if questions:
        sent = questions.usage.requests + questions.usage.failures
        console.print(
            f"{questions.asked:,} questions, {sent:,} of them sent: {questions.usage.words()}",
            markup=False,
        )
    if rejudge.left_out:
        failure = f" ({questions.error})" if questions and questions.error else ""
        console.print(
            f"! {rejudge.left_out:,} rollouts with a missing judgment are left out{failure}; a"
            " second call asks again",
            markup=False,
            style="red",
        )


def _ranges(numbers: list[int]) -> str:
    """Numbers as ``1-5, 8``."""
    runs = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ends = ([number for _, number in run] for _, run in runs)
    return ", ".join(f"{run[0]}-{run[-1]}" if run[1:] else f"{run[0]}" for run in ends)
