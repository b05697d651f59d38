"""Warnings about a run that learns nothing, and about an evaluation without a readable action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trca.records import Rollout

LOW_PARSED_RATIO: Final = 0.8
"""Share of readable responses below which a run gets a warning."""
ITERATIONS_WITHOUT_SUCCESS: Final = 10
"""Iterations in a row without a successful rollout after which a run gets a warning."""
_SHOWN: Final = 160
"""Characters of a response that a warning shows."""


def training_warnings(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the warnings about the last row of metrics, by the name of the problem."""
    if not rows:
        return {}
    row = rows[-1]
    iteration, parsed = row["iteration"], row.get("parsed_ratio")
    warnings = {}
    if parsed is None and (missing := row.get("missing_rollouts")):
        warnings["no rollout"] = (
            f"iteration {iteration} has no rollout: all {missing:.0f} are missing for a technical"
            " reason, which failures.jsonl in the folder of the run names"
        )
    updated = row.get("ratio_mean", row.get("grad_norm"))  # Imitation has no ratio
    if parsed is not None and not updated:
        why = "no step entered the update; trca diagnose RUN shows the rollouts"
        if not parsed:
            why = "no response contains a readable action"
        elif row.get("frac_zero_advantage") == 1:
            why = "every advantage is 0, since the rollouts of each group have the same outcome"
        warnings["no action trained"] = f"iteration {iteration} trained no action: {why}"
    if parsed is not None and parsed < LOW_PARSED_RATIO:
        warnings["low parsed_ratio"] = (
            f"only {parsed:.0%} of the responses contain a readable action (parsed_ratio): the"
            " model does not write the response format, or max_new_tokens cuts its responses off."
            " trca inspect RUN --rollout 0 shows them; docs/troubleshooting.md names the settings"
        )
    last = [each.get("success_rate") for each in rows[-ITERATIONS_WITHOUT_SUCCESS:]]
    if len(last) == ITERATIONS_WITHOUT_SUCCESS and all(rate == 0 for rate in last):
        warnings["no success"] = (
            f"no training rollout succeeded in the last {ITERATIONS_WITHOUT_SUCCESS} iterations:"
            " start from a better model, choose easier tasks or larger groups. trca diagnose RUN"
            " shows what the failed rollouts contain"
        )
    return warnings


def why_unreadable(rollouts: Sequence[Rollout], parameters: Any, chat: bool) -> str:
    """Returns cause and remedy if no response contains a readable action; else empty.

    ``chat`` is whether the tokenizer of the model has a chat template.
    """
    steps = [step for rollout in rollouts for step in rollout.steps]
    if not steps or any(step.parsed for step in steps):
        return ""
    first = steps[0].response
    first = repr(first if len(first) <= _SHOWN else f"{first[:_SHOWN]}...")
    causes = [
        f"no response contains an action in the response format {parameters.response_format!r}."
        f" The first response is {first}."
    ]
    limit = parameters.max_new_tokens
    cut = sum(len(step.response_ids) >= limit for step in steps)
    if 2 * cut > len(steps):
        causes.append(
            f"{cut} of {len(steps)} responses end at the limit of {limit} tokens: set a larger"
            " max_new_tokens, such as --set max_new_tokens=512."
        )
    if parameters.template == "compact" and chat:
        causes.append(
            "The prompt template 'compact' names only the tags: use --agent zero-shot or --set"
            " template=paper, which explain how to answer."
        )
    else:
        causes.append(
            "Compare the response with the tags that the prompt asks for (--transcripts keeps"
            " both); choose another --agent, template or response_format, or a model that follows"
            " instructions."
        )
    return " ".join(causes)
