"""The template ``paper``: the prompt of the paper and of verl-agent for any text environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

History = Sequence[tuple[str, str]]

HOW_TO_ANSWER: Final = """\
You should first reason step-by-step about the current situation. This reasoning process MUST be \
enclosed within <think> </think> tags.
Once you've finished your reasoning, you should choose {choice} for the current step and present \
it within <action> </action> tags."""
_TURN: Final = f"Now it's your turn to take an action.\n{HOW_TO_ANSWER}"


def paper_prompt(
    instruction: str,
    step: int,
    max_steps: int,
    history: History,
    memory: str,
    observation: str,
    admissible: Sequence[str],
    instructions: str = _TURN,
) -> str:
    """Returns the full text of template ``paper``. Arguments as in `Prompter.encode`."""
    lines = [
        f"You are an expert agent operating in a text environment. Your task is to: {instruction}"
    ]
    lines.append(f"You have {max_steps} steps in all and have already taken {step} step(s).")
    if history:
        lines.append(
            f"Below are the most recent {len(history)} observations and the corresponding actions"
            " you took:"
        )
        first = step - len(history) + 1
        for number, (seen, action) in enumerate(history, first):
            lines.append(f"[Observation {number}: '{seen}', Action {number}: '{action}']")
    if memory:
        lines.append(f"What you have observed so far: {memory}")
    lines.append(f"You are now at step {step + 1} and your current observation is: {observation}")
    if admissible:
        lines.append(listed_actions(admissible))
    return "\n".join([*lines, format_instructions(instructions, admissible)])


def listed_actions(admissible: Sequence[str]) -> str:
    """Returns the line with the admissible actions."""
    listed = ",\n ".join(f"'{action}'" for action in admissible)
    return f"Your admissible actions of the current situation are: [{listed}]."


def format_instructions(instructions: str, admissible: Sequence[str]) -> str:
    """Returns how to answer: ``{choice}`` becomes "an action" or "an admissible action"."""
    return instructions.format(choice="an admissible action" if admissible else "an action")


PAPER_TEXT: Final = (
    paper_prompt("{task}", 0, 0, [("", "")], "", "", ["", ""]) + "<think></think><action>"
)
"""The words of the paper's prompt, for training a tokenizer."""
