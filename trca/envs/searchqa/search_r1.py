"""The dialect of Search-R1: ``<search>query</search>`` and ``<answer>text</answer>``.

Models that were trained with it, by Search-R1 or verl-agent, play SearchQA with these formats:

=====================  =============================================================================
``search_r1``          A prompt of its own for each step, as in verl-agent: past queries and what
                       they found.
``search_r1_growing``  The context grows as in Search-R1: question, then every whole response with
                       what it found, thoughts included. Set ``history_length`` to the step limit.
``r1_answer``          No search: think, then answer (R1 in Search-R1's tables). Set ``max_steps``
                       to 1.
=====================  =============================================================================

A response counts up to its first closing tag. One with both tags, or with one of them twice, has no
action. What was found stands in prompts alone, so that no token of it is in a loss. The tokens of
the action are the tags and what they hold for ``search_r1``, and thoughts too for the other two.
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

_GROWING: Final = """\
Answer the question below. Whenever you are told something new, first reason about it within \
<think> </think> tags. If you lack knowledge, write a search query within <search> </search> tags: \
what the search engine finds stands within <information> </information> tags. Search as often as \
you like. When you know enough, write the answer alone within <answer> </answer> tags, as in \
<answer>Beijing</answer>.
Question: {task}"""
_ANSWERING: Final = """\
Answer the question below. First reason about it within <think> </think> tags. Then write the \
answer alone within <answer> </answer> tags, as in <answer>Beijing</answer>.
Question: {task}"""


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


def write_dialect(thought: str, action: str) -> str:
    """Writes a thought and an action in the tags of the dialect."""
    return f"<think>{thought}</think>{in_dialect(action)}"


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


def growing_prompt(
    task: str,
    step: int,
    max_steps: int,
    history: Sequence[tuple[str, str]],
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """The prompt of a step: the question, and all that was written and found since.

    Args:
        task: The question.
        step: Number of actions taken before this one.
        max_steps: Not shown, as in Search-R1.
        history: Pairs of an observation and the whole response to it, oldest first.
        memory: What was observed so far; blank where it is not shown.
        observation: The current observation.
        admissible: Not shown: the dialect opens no passages.
    """
    lines = [_GROWING.format(task=task)]
    if memory:
        lines.append(f"What you have observed so far: {memory}")
    replies = [seen for seen, _ in history[1:]] + [observation]
    for (_, response), reply in zip(history, replies, strict=False):
        lines += [response.strip(), f"<information>{reply}</information>"]
    return "\n".join(lines)


def read_whole(response: str) -> Reading:
    """Reads as `read_dialect`; the action is all up to its closing tag, as Search-R1 trains it."""
    reading = read_dialect(response)
    return reading if reading.span is None else Reading(reading.action, (0, reading.span[1]))


def read_answer(response: str) -> Reading:
    """Reads as `read_whole` the answer of a response that may not search."""
    reading = read_whole(response)
    return reading if reading.action.startswith("answer[") else NO_ACTION


def answer_prompt(
    task: str,
    step: int,
    max_steps: int,
    history: Sequence[tuple[str, str]],
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """The prompt without a search: the question alone; arguments as in `dialect_prompt`."""
    return _ANSWERING.format(task=task)


SEARCH_R1_FORMAT: Final = ResponseFormat(
    read_dialect, stop=("</search>", "</answer>"), prompt=dialect_prompt, write=write_dialect
)
"""The format ``search_r1``."""
SEARCH_R1_GROWING_FORMAT: Final = ResponseFormat(
    read_whole,
    stop=("</search>", "</answer>"),
    prompt=growing_prompt,
    whole_history=True,
    write=write_dialect,
)
"""The format ``search_r1_growing``."""
R1_ANSWER_FORMAT: Final = ResponseFormat(
    read_answer, stop=("</answer>",), prompt=answer_prompt, write=write_dialect
)
"""The format ``r1_answer``."""
