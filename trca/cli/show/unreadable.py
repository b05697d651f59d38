"""Why an evaluation reads no action in any response, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trca.records import Rollout

_SHOWN: Final = 160
"""Characters of a response that the message shows."""


def why_unreadable(rollouts: Sequence[Rollout], parameters: Any, chat: bool) -> str:
    """Returns cause and remedy if no response contains a readable action; else blank.

    Args:
        rollouts: The rollouts of an evaluation.
        parameters: The hyperparameters of the evaluation.
        chat: Whether the tokenizer of the model has a chat template.
    """
    steps = [step for rollout in rollouts for step in rollout.steps]
    if not steps or any(step.parsed for step in steps):
        return ""
    causes = [
        f"no response contains an action in the response format {parameters.response_format!r}."
        f" The first response is {_shortened(steps[0].response)}."
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


def _shortened(response: str) -> str:
    text = response if len(response) <= _SHOWN else f"{response[:_SHOWN]}..."
    return repr(text)
