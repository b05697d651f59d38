"""The agents ``react`` and ``reflexion``.

ReAct (Yao et al. 2023, arXiv 2210.03629): a thought, an action, an observation, and so on.

The prompt is the complete episode so far, including thoughts::

    Observation 1: You are in a room. You see a desk 1.
    Thought: A mug may be on the desk.
    Action: go to desk 1
    Observation 2: On the desk 1, you see a mug 1.

Where this differs from the paper:

=======================  ===========================================================================
Examples                 None: instructions for any text environment. The paper shows complete
                         handwritten episodes of the same task type for each data set.
A step                   One thought and one action in a response. In the paper's ALFWorld a thought
                         is a separate action with the observation ``OK.``, and uses up a step.
Admissible actions       Shown if the environment lists them, as in this project's other prompts.
A long episode           A prompt over the limit omits the oldest steps.
=======================  ===========================================================================

Reflexion (Shinn et al. 2023, arXiv 2303.11366): ReAct, several attempts, memory of failures.

After a failed attempt the model reads the episode and writes a better plan. The prompt of the next
attempt at the same task, from the same start, contains these reflections. The last attempt decides
about success; ``trials`` reports the number of attempts.

Where this differs from the paper and its public code:

=======================  ===========================================================================
Success of an attempt    As the environment defines it, like in the paper's ALFWorld.
Memory                   The last 3 reflections, as in the public code.
Attempts                 ``--trials``, 3 by default; the paper shows up to 12 in ALFWorld.
Failed attempts          All without success. The paper's heuristic for loops, which ends an attempt
                         early, is left out: the step limit ends loops.
Examples                 No example episodes and no example reflections.
=======================  ===========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trca.envs.responses import NO_ACTION, Reading, ResponseFormat, bare
from trca.policies.agents import COMMON, Agent

_ACTION: Final = re.compile(
    r"^[ \t>]*(?:(?:[-*]|#{1,6}|\d+\.)[ \t]+)?(?P<mark>[*_]*)[ \t]*Action[ \t]*\d*"
    r"(?P<before>[*_]*)[ \t]*[:\uff1a](?P<after>(?P=mark))?(?P<action>.*)$",
    re.MULTILINE | re.ASCII | re.IGNORECASE,
)
_NEXT_LINE: Final = re.compile(
    r"\s*(?:```\w*[ \t]*\n\s*)?(?!Observation|Thought|```)(?P<action>\S.*)"
)
_END: Final = re.compile(r"(?:<\|[^<>|]*\|>|</s>|<eos>|<end_of_turn>)\s*$")

_HOW: Final = """\
In each step write a thought and then an action, in two lines:
Thought: what you know, what is missing, and what to do next
Action: {choice}, and nothing else in this line
Then stop: the environment writes the observation."""

_ASK: Final = """\
You failed: the task was not completed. Do not summarize the environment. Think about the strategy \
you took, name the actions that were wrong or missing, and write a short new plan with the actions \
to take instead. You will read it when you try the same task again.
Plan:"""


def read_react(response: str) -> Reading:
    """Reads the first ``Action:`` line, without quotes, emphasis and fences around the action.

    The action may be in the next line, also in a fence. The text after the action is ignored: it is
    the model's guess about the rest of the episode. An end token, which the responses of local
    engines contain, is not part of the action.
    """
    line = _ACTION.search(response)
    if line is None:
        return NO_ACTION
    action, end = _END.sub("", line["action"]).strip(), line.end()
    if not (line["before"] or line["after"]):  # the emphasis starts before "Action", ends the line
        action = action.removesuffix(line["mark"])
    if not action.strip("`"):
        below = _NEXT_LINE.match(response, line.end() - len(line["action"]))
        action, end = (_END.sub("", below["action"]), below.end()) if below else ("", end)
    action = bare(action)
    return Reading(action, (line.start(), end)) if action else NO_ACTION


def without_end(response: str) -> str:
    """Strips an end token and surrounding spaces from a response."""
    return _END.sub("", response).strip()


def react_prompt(
    instruction: str,
    step: int,
    max_steps: int,
    history: Sequence[tuple[str, str]],
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """Returns the prompt of a step; takes the arguments of `Prompter.encode`.

    ``history`` has the complete responses, and ``memory`` the reflections on earlier attempts.
    """
    choice = "one of the admissible actions" if admissible else "one action"
    lines = [
        f"You act in a text environment. Your task is to: {instruction}",
        f"You have {max_steps} steps in all and have already taken {step}.",
        _HOW.format(choice=choice),
    ]
    if memory:
        lines.append(f"What you learned from earlier, failed trials of this task:\n{memory}")
    first = step - len(history) + 1
    lines += [""] + ["(earlier steps are left out)"] * (first > 1)
    for number, (seen, response) in enumerate(history, first):
        lines += [f"Observation {number}: {seen}", without_end(response)]
    lines.append(f"Observation {step + 1}: {observation}")
    if admissible:
        shown = ", ".join(f"'{action}'" for action in admissible)
        lines.append(f"Admissible actions: {shown}")
    return "\n".join(lines)


REACT_FORMAT: Final = ResponseFormat(
    read_react, stop=("\nObservation",), prompt=react_prompt, whole_history=True
)
"""ReAct's format of thoughts and actions."""

REACT: Final = Agent(
    {**COMMON, "response_format": f"{__name__}:REACT_FORMAT", "history_length": 100}
)
"""The agent ``react``."""


def reflection_prompt(
    instruction: str,
    step: int,
    max_steps: int,
    history: Sequence[tuple[str, str]],
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """Returns the prompt of a reflection; takes those of `react_prompt` after the last action."""
    lines = [f"You acted in a text environment. Your task was to: {instruction}"]
    if memory:
        lines.append(f"Your plans from earlier trials:\n{memory}")
    lines.append(f"Your last trial took {step} steps:")
    for number, (seen, response) in enumerate(history, step - len(history) + 1):
        lines += [f"Observation {number}: {seen}", without_end(response)]
    lines.append(f"Observation {step + 1}: {observation}")
    return "\n".join([*lines, "", _ASK])


REFLEXION: Final = Agent({**REACT.settings, "memory": True}, reflection_prompt)
"""The agent ``reflexion``."""
