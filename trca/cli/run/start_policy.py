"""The success of a tiny policy that has just learned by imitation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trca.cli.preflight.preflight import model_folder, panel
from trca.cli.show.console import console, noise_to, tracing_to
from trca.policies.model_names import TINY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trca.algorithms.settings.parameters import TextParameters

EPISODES: Final = 64
"""Episodes that show how good the policy is."""


def build_start(settings: TextParameters, log: Path) -> None:
    """Builds or fetches the start policy; evaluates a tiny policy that was built just now.

    Args:
        settings: The run's settings.
        log: The log of the run.
    """
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
    """The summary of `EPISODES` episodes on the training tasks."""
    from trca.algorithms.base.evaluation import evaluate_panel, local_runner

    with (
        noise_to(log) as terminal,
        tracing_to(log),
        terminal.status(f"playing {EPISODES} episodes with the start policy"),
    ):
        tasks = panel(settings, settings.train_split).head(EPISODES)
        runner = local_runner(settings.algorithm_config())
        try:
            evaluation = evaluate_panel(
                runner,
                tasks,
                rollouts=-(-EPISODES // len(tasks.task_ids)),
                seed=settings.seed,
                temperature=settings.temperature,
            )
        finally:
            runner.stop()
    return evaluation.summary()
