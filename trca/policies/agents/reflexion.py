"""Reflexion (Shinn et al. 2023, arXiv 2303.11366): ReAct, several trials, and a memory of failures.

After a failed trial the model reads it and writes what it would do otherwise. The next trial of the
same task, from the same start, has these reflections in its prompt. Success counts at the last
trial that was played; how many there were is reported as ``trials``.

Where this differs from the paper and its public code:

=======================  ===========================================================================
Success of a trial       The environment's own, as in the paper's ALFWorld.
Memory                   The last 3 reflections, as in the public code.
Trials                   ``--trials``, 3 by default; the paper shows up to 12 in ALFWorld.
Which trials fail        All without success; the paper's heuristic for loops that ends a trial
                         early is left out, since the step limit does.
Examples                 None, neither of episodes nor of reflections.
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
    task: str,
    step: int,
    max_steps: int,
    history: Sequence[tuple[str, str]],
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """The prompt of a reflection.

    Args:
        task: The instruction.
        step: Number of actions of the failed trial.
        max_steps: Not shown.
        history: Pairs of an observation and the response to it, oldest first.
        memory: Reflections on earlier trials.
        observation: The observation after the last action.
        admissible: Not shown.
    """
    lines = [f"You acted in a text environment. Your task was to: {task}"]
    if memory:
        lines.append(f"Your plans from earlier trials:\n{memory}")
    lines.append(f"Your last trial took {step} steps:")
    for number, (seen, response) in enumerate(history, step - len(history) + 1):
        lines += [f"Observation {number}: {seen}", without_end(response)]
    lines.append(f"Observation {step + 1}: {observation}")
    return "\n".join([*lines, "", _ASK])


REFLEXION: Final = Agent({**REACT.settings, "memory": True}, reflection_prompt)
"""The agent ``reflexion``."""
