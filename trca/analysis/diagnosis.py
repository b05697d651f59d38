"""Diagnosis of recorded rollouts: the paper's diagnostic study, and warnings.

Ratios and classes follow the paper's diagnostic study (appendix "Diagnostic Study Protocol"), with
the rubric's operators in place of the paper's annotators::

    failure rate            failed rollouts / rollouts
    success-free groups     groups without a successful rollout / groups
    useful transitions      Evidence, Execution or Validity / actions, in failed rollouts

    Execution    an Execution operator fired
    Evidence     an Evidence operator fired, and no Execution operator
    Validity     no Execution, Evidence or Invalidity operator fired; the action was parsed and
                 executed
    Other        all remaining transitions
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.records import Rollout, StepBatch, by_agent, refuse_teams
from trca.runs.curve import WINDOW, column
from trca.runs.success_tables import half_width

_FALLEN: Final = 0.05
"""Largest fall of success that may be sampling noise."""
CLASSES: Final = ("Execution", "Evidence", "Validity", "Other")
"""Classes of transitions; the first that applies."""


@dataclass(frozen=True)
class Diagnosis:
    """Statistics of a batch of rollouts, in ``groups`` rollout groups with ``steps`` actions.

    Attributes:
        failure_rate: Share of the rollouts that failed.
        success_free_groups: Share of the groups without a success.
        useful_transitions: Share of the actions of failed rollouts that are not Other; NaN without
            a failed rollout.
        classes: Share of each class among the actions of failed rollouts.
        parsed: Share of the responses with an action.
        accepted: Share of the actions that the environment executed.
        fired: Share of the steps on which an operator fired, by operator id.
    """

    rollouts: int
    groups: int
    steps: int
    failure_rate: float
    success_free_groups: float
    useful_transitions: float
    classes: dict[str, float]
    parsed: float
    accepted: float
    fired: dict[str, float]


def diagnose(
    rollouts: Sequence[Rollout], groups: Sequence[object], categories: NDArray[np.int8]
) -> Diagnosis:
    """Diagnoses a batch of rollouts, without those that have no step.

    ``groups`` are keys of the rollouts' groups, such as iteration and number. ``categories``, int8
    (M,), are those of the operators.

    Raises:
        ValueError: If no rollout has a step.
    """
    pairs = [(r, group) for r, group in zip(rollouts, groups, strict=True) if r.steps]
    if not pairs:
        raise ValueError("no rollout with a step is recorded")
    played = [rollout for rollout, _ in pairs]
    refuse_teams(by_agent(played), "diagnose")
    solved: dict[object, bool] = {}
    for rollout, group in pairs:
        solved[group] = solved.get(group, False) or rollout.won
    batch = StepBatch.from_rollouts(played, categories)
    lost = ~np.repeat([rollout.won for rollout in played], [len(r.steps) for r in played])
    kinds = transition_classes(batch)[lost]
    shares = np.bincount(kinds, minlength=4) / max(len(kinds), 1)
    return Diagnosis(
        rollouts=len(played),
        groups=len(solved),
        steps=len(batch),
        failure_rate=float(np.mean([not rollout.won for rollout in played])),
        success_free_groups=float(np.mean([not each for each in solved.values()])),
        useful_transitions=float(1 - shares[3]) if len(kinds) else float("nan"),
        classes=dict(zip(CLASSES, shares.tolist(), strict=True)),
        parsed=float(batch.parsed.mean()),
        accepted=float(batch.accepted.mean()),
        fired=dict(zip(played[0].operators, batch.judgments.mean(axis=0).tolist(), strict=True)),
    )


def transition_classes(batch: StepBatch) -> NDArray[np.int64]:
    """Classifies S transitions: int64 (S,), indices into `CLASSES`."""
    evidence, invalidity, execution = (
        batch.judgments[:, batch.categories == category].any(axis=1) for category in range(3)
    )
    valid = batch.parsed & batch.accepted & ~invalidity
    return np.select([execution, evidence, valid], [0, 1, 2], 3)


def alarms(
    before: Diagnosis,
    now: Diagnosis,
    wanted: Collection[str],
    metrics: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    """Returns warnings, each with a fix.

    Args:
        before: The first part of a run, or the complete run.
        now: The last part of the run.
        wanted: Operators that should fire for a good policy: Evidence and Execution.
        metrics: The run's metrics, one row per iteration.
    """
    warnings = []
    if now.parsed < 0.9:
        warnings.append(
            f"{1 - now.parsed:.0%} of the responses have no action: imitate the response format"
            " longer before training, or raise kl_coeff_format"
        )
    if now.accepted < 0.5:
        warnings.append(
            f"the environment executes only {now.accepted:.0%} of the actions: look at the refused"
            " actions with trca inspect, and put admissible actions into the prompt"
        )
    if now.success_free_groups == 1.0:
        warnings.append(
            "no group has a success: rules that use only outcomes (GRPO, RLOO, GiGPO) have no"
            " training signal; use a rubric, easier tasks or larger groups"
        )
    elif now.failure_rate < 0.05:
        warnings.append(
            "nearly every rollout succeeds: groups with equal outcomes give no training signal;"
            " train on harder tasks or stop"
        )
    elif len(metrics) >= 10 and now.failure_rate > before.failure_rate + _FALLEN:
        warnings.append(
            f"success fell from {1 - before.failure_rate:.0%} to {1 - now.failure_rate:.0%}: check"
            " with trca inspect --prompts that the prompt contains the information for the action,"
            " and which operators reward failed rollouts"
        )
    never = [name for name in wanted if now.fired[name] == before.fired[name] == 0.0]
    if never:
        warnings.append(
            f"never fired: {', '.join(never)}; check with trca rubric check that the conditions can"
            " be met, and whether the policy reaches such states"
        )
    always = [name for name, share in now.fired.items() if share > 0.9]
    if always:
        warnings.append(
            f"fired on nearly every step and no longer distinguish steps: {', '.join(always)};"
            " narrow the condition"
        )
    return warnings + held_out_gap(metrics) + _collapse(metrics)


def held_out_gap(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a warning if success in training is far above held-out success; else nothing.

    Compares the last evaluation with the mean of the `WINDOW` iterations up to the evaluation. Far
    is more than the half-width of the difference's 95% interval, which is the root of the sum of
    two squares: of the half-width of the mean, by the t interval over the iterations, and of the
    distance from the held-out success to the upper end of its interval.
    """
    ends = [n for n, row in enumerate(metrics) if row.get("evaluation/success_high") is not None]
    if not ends or ends[-1] + 1 < WINDOW:
        return []
    training = column(metrics[: ends[-1] + 1], "success_rate")[-WINDOW:]
    names = ("success_rate", "success_low", "success_high")
    held_out, low, high = (metrics[ends[-1]][f"evaluation/{name}"] for name in names)
    mean, chance = np.mean(training), np.hypot(half_width(training.tolist()), high - held_out)
    if not mean - held_out > chance:  # also for NaN, of an iteration without a rollout
        return []
    return [
        f"success is {mean:.0%} in training (mean of {WINDOW} iterations) and {held_out:.0%} on"
        f" held-out tasks ({low:.0%} to {high:.0%}), farther apart than chance explains: the policy"
        " knows its training tasks better than new tasks; train on more different tasks, by a"
        " larger tasks_per_iteration or a larger set of tasks (generated ALFWorld: --games medium)"
    ]


def _collapse(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Detects the collapse of a policy: gradient norm and KL rise, accepted actions fall."""
    if len(metrics) < 10:
        return []
    last = metrics[-max(2, len(metrics) // 10) :]
    middle = metrics[len(metrics) // 4 : len(metrics) // 2]

    def mean(rows: Sequence[Mapping[str, Any]], key: str) -> float:
        values = [float(row[key]) for row in rows if row.get(key) is not None]
        return float(np.mean(values)) if values else float("nan")

    gradients, kls, accepted = (
        (mean(middle, key), mean(last, key)) for key in ("grad_norm", "kl", "valid_action_ratio")
    )
    grows = gradients[1] > 1.5 * gradients[0] > 0 and kls[1] > 2.0 * kls[0] > 0
    if grows and accepted[1] < accepted[0] - 0.1:
        return [
            f"the policy collapses: gradient norm x{gradients[1] / gradients[0]:.1f} and KL"
            f" x{kls[1] / kls[0]:.1f} since the first half of the run, accepted actions"
            f" {accepted[0]:.0%} -> {accepted[1]:.0%}; return to the best checkpoint, lower lr or"
            " the budgets, or raise kl_coeff"
        ]
    return []
