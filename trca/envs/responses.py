"""Response formats: how a language model writes actions, and how its responses are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from trca.common.registry import Registry
from trca.envs.text_env import UNPARSED

_MARKS: Final = (
    ("```", "```"),
    ("**", "**"),
    ("__", "__"),
    ("\u201c", "\u201d"),
    ("\u2018", "\u2019"),
    ("\u00ab", "\u00bb"),
    *((mark, mark) for mark in "*_`'\""),
)
"""Fences, emphasis and quotes in which models write an action."""
_LANGUAGE: Final = re.compile(r"\A\w+\n")
"""The name of a language after the opening of a fence."""
_OPEN: Final = "<action>"
_CLOSE: Final = "</action>"

LONGEST_SUBGOAL: Final = 200
KEEP, SWITCH = "KEEP", "SWITCH"
_PARTS: Final = ("switch", "subgoal", "action")
_PLAN_TAGS: Final = tuple(tag for part in _PARTS for tag in (f"<{part}>", f"</{part}>"))
_PLAN_INSTRUCTIONS: Final = """\
Now it's your turn. You follow one short subgoal at a time: more than a single action, less than \
the whole task. Write exactly three parts, in this order, and nothing between them:
<switch>KEEP or SWITCH</switch>
<subgoal>the subgoal that you follow now</subgoal>
<action>{choice}</action>
Write KEEP to go on with your subgoal, and copy it as it is. Write SWITCH to take up a new one: at \
the first step, when the last one is done, and when it leads nowhere."""

PromptWriter = Callable[[str, int, int, Sequence[tuple[str, str]], str, str, Sequence[str]], str]
"""Writes a prompt. The arguments are those of `trca.policies.prompts.paper_prompt`."""
Span = tuple[int, int]
"""Start and end of a part of a response, in characters; the end is exclusive."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a response: whether it takes up a new subgoal, the subgoal, and its parts.

    The parts are the spans of switch, subgoal and action, with their tags.
    """

    switch: bool
    subgoal: str
    parts: tuple[Span, Span, Span]


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a response.

    The action is `UNPARSED` if the response contains no readable action. Its span includes the
    tags, or the complete plan; None without tags.
    """

    action: str
    span: Span | None
    plan: Plan | None = None


NO_ACTION: Final = Reading(UNPARSED, None)
"""The reading of a response without an action."""


@dataclass(frozen=True)
class ResponseFormat:
    """A format for actions in responses.

    Attributes:
        read: Reads a response; accepts any string. Tags are ASCII.
        stop: Stop strings. Generation ends directly after a stop string.
        prompt: Writes the prompt for this format; None for the standard templates.
        instructions: How the template ``paper`` asks for this format. ``{choice}`` becomes "an
            action" or "an admissible action". None asks for a thought and an action.
        whole_history: Whether the history in a prompt shows complete responses instead of actions.
        write: Writes a response from a thought and an action; None if nothing needs such responses.
        write_plan: Writes a response from switch, subgoal and action; None for a format without
            plans. With plans, each prompt shows the subgoal of the last readable response.
        tags: The tags. Each tag is one token of the tiny policy. The last tag ends a response.
        calls_tools: Whether the chat template shows the tools and their results.
    """

    read: Callable[[str], Reading]
    stop: tuple[str, ...]
    prompt: PromptWriter | None = None
    whole_history: bool = False
    write: Callable[[str, str], str] | None = None
    instructions: str | None = None
    write_plan: Callable[[bool, str, str], str] | None = None
    tags: tuple[str, ...] = ("<think>", "</think>", _OPEN, _CLOSE)
    calls_tools: bool = False


def bare(text: str) -> str:
    """Strips blanks, quotes, emphasis and fences that surround a text as a whole.

    ::

        bare("**`go to desk 1`**")  # go to desk 1
        bare("'a' and 'b'")  # 'a' and 'b'
    """
    text = text.strip()
    for opening, closing in _MARKS:
        inner = text[len(opening) : -len(closing)]
        if text == f"{opening}{inner}{closing}" and not (opening in inner or closing in inner):
            return bare(_LANGUAGE.sub("", inner) if opening == _MARKS[0][0] else inner)
    return text


def read_action(response: str) -> Reading:
    """Reads the action in the last complete ``<action>...</action>`` pair and strips blanks.

    A pair is an opening tag and the first closing tag after it. Reading takes linear time.
    """
    start = response.rfind(_OPEN, 0, max(response.rfind(_CLOSE), 0))
    if start < 0:
        return NO_ACTION
    end = response.index(_CLOSE, start)
    return Reading(response[start + len(_OPEN) : end].strip(), (start, end + len(_CLOSE)))


def write_action(thought: str, action: str) -> str:
    """Writes a thought and an action in the tags of the paper."""
    return f"<think>{thought}</think>{_OPEN}{action}{_CLOSE}"


def read_plan(response: str) -> Reading:
    """Reads a response with a switch, a subgoal and an action, in linear time, as in HiPER.

    ::

        <switch>SWITCH</switch><subgoal>find a mug</subgoal><action>go to desk 1</action>

    A thought may precede the switch. The span of the action covers all three parts, so every
    algorithm also trains the subgoal. The next prompt shows the subgoal after the instruction. A
    response counts as a response without action if

    - a tag is missing, repeated or out of order, or there is text between two parts;
    - the switch is neither KEEP nor SWITCH (in upper or lower case);
    - the action or the subgoal is empty;
    - the subgoal has more than `LONGEST_SUBGOAL` characters, or contains ``<`` or ``>``, which
      could form a tag or a special token in the next prompt.
    """
    if any(response.count(tag) != 1 for tag in _PLAN_TAGS):
        return NO_ACTION
    starts = [response.index(tag) for tag in _PLAN_TAGS]
    ends = [start + len(tag) for start, tag in zip(starts, _PLAN_TAGS, strict=True)]
    if any(end > start for end, start in zip(ends, starts[1:], strict=False)):
        return NO_ACTION
    switch, subgoal, action = (
        response[end:start].strip() for end, start in zip(ends[::2], starts[1::2], strict=True)
    )
    between = response[ends[1] : starts[2]] + response[ends[3] : starts[4]]
    subgoal = " ".join(subgoal.split())
    if (
        between.strip()
        or switch.upper() not in (KEEP, SWITCH)
        or not action
        or not 1 <= len(subgoal) <= LONGEST_SUBGOAL
        or any(sign in subgoal for sign in "<>")
    ):
        return NO_ACTION
    parts = ((starts[0], ends[1]), (starts[2], ends[3]), (starts[4], ends[5]))
    plan = Plan(switch.upper() == SWITCH, subgoal, parts)
    return Reading(action, (starts[0], ends[5]), plan)


def write_plan(switch: bool, subgoal: str, action: str) -> str:
    """Writes a response that takes up a new subgoal or keeps the last one."""
    texts = (SWITCH if switch else KEEP, subgoal, action)
    return "".join(f"<{part}>{text}</{part}>" for part, text in zip(_PARTS, texts, strict=True))


ACTION_FORMAT: Final = ResponseFormat(read_action, stop=(_CLOSE,), write=write_action)
"""The format of the paper: ``<think>...</think><action>...</action>``."""
ACTION_ONLY_FORMAT: Final = ResponseFormat(
    read_action,
    stop=(_CLOSE,),
    write=lambda _, action: f"{_OPEN}{action}{_CLOSE}",
    instructions="Present {choice} for the current step within <action> </action> tags.",
    tags=(_OPEN, _CLOSE),
)
"""The action alone, for a model that does not reason: ``<action>...</action>``."""
PLAN_FORMAT: Final = ResponseFormat(
    read_plan,
    stop=("</action>",),
    write=lambda thought, action: write_plan(True, thought, action),  # the thought is the subgoal
    instructions=_PLAN_INSTRUCTIONS,
    write_plan=write_plan,
    tags=_PLAN_TAGS,
)
"""The response format ``plan``."""
RESPONSE_FORMATS: Final[Registry[ResponseFormat]] = Registry(
    "response format",
    {
        "action": ACTION_FORMAT,
        "action_only": ACTION_ONLY_FORMAT,
        "llama_tool_calls": "trca.envs.tool_calls:LLAMA_TOOL_CALLS",
        "plan": PLAN_FORMAT,
        "qwen3_coder_tool_calls": "trca.envs.tool_calls:QWEN3_CODER_TOOL_CALLS",
        "r1_answer": "trca.envs.searchqa.search_r1:R1_ANSWER_FORMAT",
        "search_r1": "trca.envs.searchqa.search_r1:SEARCH_R1_FORMAT",
        "search_r1_growing": "trca.envs.searchqa.search_r1:SEARCH_R1_GROWING_FORMAT",
        "tool_calls": "trca.envs.tool_calls:TOOL_CALLS",
        "tool_calls_or_text": "trca.envs.tool_calls:TOOL_CALLS_OR_TEXT",
    },
)
"""Response formats by name. A user's format is ``path/to/file.py:FORMAT``."""
