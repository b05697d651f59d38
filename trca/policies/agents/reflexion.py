"""Reflexion (Shinn et al. 2023, arXiv 2303.11366): ReAct, several attempts, memory of failures.

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

from collections.abc import Sequence
from typing import Final

from trca.policies.agents import Agent
from trca.policies.agents.react import REACT, without_end

_ASK: Final = """\
You failed: the task was not completed. Do not summarize the environment. Think about the strategy \
you took, name the actions that were wrong or missing, and write a short new plan with the actions \
to take instead. You will read it when you try the same task again.
Plan:"""


def reflection_prompt(
    instruction: str,
    step: int,
    max_steps: int,
    history: Sequence[tuple[str, str]],
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """Returns the prompt of a reflection.

    Arguments as in `react_prompt`, after the last action. ``max_steps`` and ``admissible`` are not
    shown.
    """
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
