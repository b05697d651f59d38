"""The response format ``plan``: a switch, a subgoal and an action, as in HiPER.

::

    <switch>SWITCH</switch><subgoal>find a mug</subgoal><action>go to desk 1</action>
    <switch>KEEP</switch><subgoal>find a mug</subgoal><action>go to shelf 1</action>

A thought may precede the switch. A response is read completely or not at all. It counts as a
response without action if

- a tag is missing, repeated or out of order;
- there is text between two parts;
- the switch is neither KEEP nor SWITCH (in upper or lower case);
- the action or the subgoal is empty;
- the subgoal has more than `LONGEST_SUBGOAL` characters, or contains ``<`` or ``>``, which could
  form a tag or a special token in the next prompt.

The span of the action covers all three parts, so every algorithm also trains the subgoal. The next
prompt shows the subgoal after the instruction.
"""

from __future__ import annotations

from typing import Final

from trca.envs.responses import NO_ACTION, Plan, Reading, ResponseFormat

LONGEST_SUBGOAL: Final = 200
KEEP, SWITCH = "KEEP", "SWITCH"
_PARTS: Final = ("switch", "subgoal", "action")
_TAGS: Final = tuple(tag for part in _PARTS for tag in (f"<{part}>", f"</{part}>"))
_INSTRUCTIONS: Final = """\
Now it's your turn. You follow one short subgoal at a time: more than a single action, less than \
the whole task. Write exactly three parts, in this order, and nothing between them:
<switch>KEEP or SWITCH</switch>
<subgoal>the subgoal that you follow now</subgoal>
<action>{choice}</action>
Write KEEP to go on with your subgoal, and copy it as it is. Write SWITCH to take up a new one: at \
the first step, when the last one is done, and when it leads nowhere."""


def read_plan(response: str) -> Reading:
    """Reads the switch, the subgoal and the action of a response, in linear time."""
    if any(response.count(tag) != 1 for tag in _TAGS):
        return NO_ACTION
    starts = [response.index(tag) for tag in _TAGS]
    ends = [start + len(tag) for start, tag in zip(starts, _TAGS, strict=True)]
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


PLAN_FORMAT: Final = ResponseFormat(
    read_plan,
    stop=("</action>",),
    write=lambda thought, action: write_plan(True, thought, action),  # the thought is the subgoal
    instructions=_INSTRUCTIONS,
    write_plan=write_plan,
    tags=_TAGS,
)
"""The response format ``plan``."""
