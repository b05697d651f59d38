"""The dialect of Search-R1: ``<search>query</search>`` and ``<answer>text</answer>``.

Models that were trained with it, by Search-R1 or verl-agent, play SearchQA with the response format
``search_r1``. As in verl-agent, each step has a prompt of its own, and a response counts up to its
first closing tag. A response with both tags, or with one of them twice, has no action.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trca.envs.responses import NO_ACTION, Reading, ResponseFormat

_OPENING: Final = re.compile(r"<(search|answer)>", re.IGNORECASE | re.ASCII)
_CLOSING: Final = re.compile(r"</(search|answer)>", re.IGNORECASE | re.ASCII)
_ACTION: Final = re.compile(r"(search|answer)\[(.*)\]", re.DOTALL)
_INSTRUCTIONS: Final = """\
Now it's your turn. First reason about what is known and what is missing, within <think> </think> \
tags. Then do one of two things, not both:
- to find something out, write a search query within <search> </search> tags;
- to answer the question, write the answer alone within <answer> </answer> tags, as in \
<answer>Beijing</answer>."""


def read_dialect(response: str) -> Reading:
    """Reads the one tagged pair of a response, such as ``search[Ada Balan]``.

    There is no action where a pair is missing, an opening tag comes a second time, or the tags
    differ.
    """
    openings = list(_OPENING.finditer(response))
    if len(openings) != 1:
        return NO_ACTION
    closing = _CLOSING.search(response)
    (opening,) = openings
    if closing is None or closing.start() < opening.end():
        return NO_ACTION
    if closing[1].lower() != opening[1].lower():
        return NO_ACTION
    content = response[opening.end() : closing.start()].strip()
    return Reading(f"{opening[1].lower()}[{content}]", (opening.start(), closing.end()))


def in_dialect(action: str) -> str:
    """An action as the dialect writes it; what it has no tags for is left as it is."""
    read = _ACTION.fullmatch(action)
    return f"<{read[1]}>{read[2]}</{read[1]}>" if read else action


def dialect_prompt(
    task: str,
    step: int,
    max_steps: int,
    history: Sequence[tuple[str, str]],
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """The prompt of a step: the question, past queries with what they found, and how to go on.

    Args:
        task: The question.
        step: Number of actions taken before this one.
        max_steps: The step limit.
        history: Pairs of an observation and the action that answered it, oldest first.
        memory: What was observed so far; blank where it is not shown.
        observation: The current observation.
        admissible: Not shown: the dialect opens no passages.
    """
    lines = ["You are an expert agent who answers a question step by step.", f"Question: {task}"]
    if history:
        lines.append(
            f"You have taken {step} of {max_steps} steps. Your queries stand in <search> </search>"
            " tags, what the search engine returned in <information> </information> tags:"
        )
    replies = [seen for seen, _ in history[1:]] + [observation]
    for (_, action), reply in zip(history, replies, strict=False):
        lines += [in_dialect(action), f"<information>{reply}</information>"]
    if step and not history:
        lines.append(f"<information>{observation}</information>")
    if memory:
        lines.append(f"What you have observed so far: {memory}")
    return "\n".join([*lines, _INSTRUCTIONS])


SEARCH_R1_FORMAT: Final = ResponseFormat(
    read_dialect, stop=("</search>", "</answer>"), prompt=dialect_prompt
)
"""The format ``search_r1``."""
