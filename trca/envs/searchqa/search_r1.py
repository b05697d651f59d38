"""The dialect of Search-R1: ``<search>query</search>`` and ``<answer>text</answer>``.

Models of Search-R1 or verl-agent play SearchQA with these formats:

=====================  =============================================================================
``search_r1``          A separate prompt per step, as in verl-agent, with past queries and results.
``search_r1_growing``  The context grows as in Search-R1: question, then every complete response
                       with its results, thoughts included. Set ``history_length`` to the step
                       limit.
``r1_answer``          No search: think, then answer (R1 in Search-R1's tables). Set ``max_steps``
                       to 1.
=====================  =============================================================================

A response is read up to its first closing tag. A response with both tags, or with a repeated tag,
has no action. Search results are in prompts only, so none of their tokens enter the loss. The
action consists of the tags and their content for ``search_r1``, and includes thoughts for the
further formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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
_INFORMATION: Final = "<information>{}</information>"
_MEMORY: Final = "What you have observed so far: {}"


def read_dialect(response: str) -> Reading:
    """Reads the single tagged pair of a response, such as ``search[Ada Balan]``.

    A response without pair, with a second opening tag or with different tags has no action.
    """
    openings, closing = list(_OPENING.finditer(response)), _CLOSING.search(response)
    if len(openings) != 1 or closing is None:
        return NO_ACTION
    (opening,) = openings
    verb = opening[1].lower()
    if closing.start() < opening.end() or closing[1].lower() != verb:
        return NO_ACTION
    content = response[opening.end() : closing.start()].strip()
    return Reading(f"{verb}[{content}]", (opening.start(), closing.end()))


def read_whole(response: str) -> Reading:
    """Reads like `read_dialect`; the span begins at the start of the response, as in Search-R1."""
    reading = read_dialect(response)
    return reading if reading.span is None else Reading(reading.action, (0, reading.span[1]))


def read_answer(response: str) -> Reading:
    """Reads the answer like `read_whole`; a search has no action."""
    reading = read_whole(response)
    return reading if reading.action.startswith("answer[") else NO_ACTION


def in_dialect(action: str) -> str:
    """An action in the dialect's tags; an action without such tags stays unchanged."""
    read = _ACTION.fullmatch(action)
    return f"<{read[1]}>{read[2]}</{read[1]}>" if read else action


def write_dialect(thought: str, action: str) -> str:
    """Writes a thought and an action in the tags of the dialect."""
    return f"<think>{thought}</think>{in_dialect(action)}"


def dialect_prompt(
    question: str,
    step: int,
    max_steps: int,
    history: Sequence[tuple[str, str]],
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """The prompt of a step: the question, past queries with their results, and the instructions.

    The dialect opens no passages, so the admissible actions are unused.
    """
    lines = [
        "You are an expert agent who answers a question step by step.",
        f"Question: {question}",
    ]
    if history:
        lines.append(
            f"You have taken {step} of {max_steps} steps. Your queries stand in <search> </search>"
            " tags, what the search engine returned in <information> </information> tags:"
        )
    lines += _exchanges(history, observation, in_dialect)
    if step and not history:
        lines.append(_INFORMATION.format(observation))
    if memory:
        lines.append(_MEMORY.format(memory))
    return "\n".join([*lines, _INSTRUCTIONS])


def growing_prompt(
    question: str,
    step: int,
    max_steps: int,
    history: Sequence[tuple[str, str]],
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """The prompt of a step: the question, and all complete responses with their results since."""
    lines = [_GROWING.format(task=question), *[_MEMORY.format(memory)] * bool(memory)]
    return "\n".join([*lines, *_exchanges(history, observation, str.strip)])


def answer_prompt(question: str, *_: object) -> str:
    """The prompt without search: the question only."""
    return _ANSWERING.format(task=question)


def _exchanges(
    history: Sequence[tuple[str, str]], observation: str, written: Callable[[str], str]
) -> Iterator[str]:
    replies = [*[past for past, _ in history[1:]], observation]
    for (_, action), reply in zip(history, replies, strict=False):
        yield written(action)
        yield _INFORMATION.format(reply)


SEARCH_R1_FORMAT: Final = ResponseFormat(
    read_dialect, ("</search>", "</answer>"), dialect_prompt, write=write_dialect
)
"""The format ``search_r1``."""
SEARCH_R1_GROWING_FORMAT: Final = ResponseFormat(
    read_whole, ("</search>", "</answer>"), growing_prompt, whole_history=True, write=write_dialect
)
"""The format ``search_r1_growing``."""
R1_ANSWER_FORMAT: Final = ResponseFormat(
    read_answer, ("</answer>",), answer_prompt, write=write_dialect
)
"""The format ``r1_answer``."""
