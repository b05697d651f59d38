"""The texts of the prompt templates ``paper``, ``compact`` and ``chat``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, Final

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
        f"You are an expert agent operating in a text environment. Your task is to: {instruction}",
        f"You have {max_steps} steps in all and have already taken {step} step(s).",
    ]
    if history:
        lines.append(
            f"Below are the most recent {len(history)} observations and the corresponding actions"
            " you took:"
        )
    for number, (seen, action) in enumerate(history, step - len(history) + 1):
        lines.append(f"[Observation {number}: '{seen}', Action {number}: '{action}']")
    if memory:
        lines.append(f"What you have observed so far: {memory}")
    lines.append(f"You are now at step {step + 1} and your current observation is: {observation}")
    lines += _listed(admissible)
    return "\n".join([*lines, _with_choice(instructions, admissible)])


def chat_system(
    instruction: str, max_steps: int, admissible: Sequence[str], instructions: str
) -> str:
    """Returns the system prompt of ``chat``. The text that all tasks share comes first."""
    return "\n".join(
        [
            "You are an expert agent operating in a text environment. Each message shows what you"
            " observe, and you answer each message.",
            _with_choice(instructions, admissible),
            f"You have {max_steps} steps in all.",
            f"Your task is to: {instruction}",
        ]
    )


def chat_turn(
    step: int | None, memory: str, observation: str, admissible: Sequence[str], subgoal: str
) -> str:
    """Returns a user turn of ``chat``; without a step the result of a call.

    Arguments as in `Prompter.encode`.
    """
    lines = [observation if step is None else f"Step {step + 1}: {observation}"]
    if memory:
        lines.append(f"What you have observed so far: {memory}")
    if subgoal:
        lines.append(f"Your subgoal: {subgoal}")
    return "\n".join([*lines, *_listed(admissible)])


def _listed(admissible: Sequence[str]) -> list[str]:
    """The line with the admissible actions, if the environment lists them."""
    listed = ",\n ".join(f"'{action}'" for action in admissible)
    line = f"Your admissible actions of the current situation are: [{listed}]."
    return [line] if admissible else []


def _with_choice(instructions: str, admissible: Sequence[str]) -> str:
    choice = "an admissible action" if admissible else "an action"
    return instructions.replace("{choice}", choice)  # other braces may be an example in JSON


PAPER_TEXT: Final = (
    paper_prompt("{task}", 0, 0, [("", "")], "", "", ["", ""]) + "<think></think><action>"
)
"""The words of the paper's prompt, for training a tokenizer."""


def with_subgoal(instruction: str, subgoal: str) -> str:
    """Returns the instruction, and the agent's subgoal on a second line."""
    return f"{instruction}\nYour subgoal: {subgoal}" if subgoal else instruction


def with_tools(instruction: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """Returns the instruction, and the tools for a response format whose actions are text."""
    form = 'An action is a list of calls: [{"name": ..., "arguments": {...}}]. The tools are:'
    listed = (json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    return "\n".join([instruction, form, *listed])


def listed_actions(
    admissible: Sequence[str], tools: Sequence[Mapping[str, Any]] = (), idle: Collection[str] = ()
) -> Sequence[str]:
    """Returns the actions that a prompt lists: none with tools, and no idle actions."""
    return [] if tools else [action for action in admissible if action not in idle]


def compact_prompt(
    instruction: str,
    step: int,
    max_steps: int,
    history: History,
    memory: str,
    observation: str,
    admissible: Sequence[str],
) -> str:
    """Returns the full text of template ``compact``. Arguments as in `Prompter.encode`."""
    page = memory or " ".join(observation.split())
    lowered, listed = page.lower(), []
    for action in admissible:
        argument = action.partition("[")[2]  # ``red`` of ``click[red]``
        if not argument or argument.removesuffix("]") not in lowered:
            listed.append(action.replace("[", " [", 1))
    past = (f">{action}" for _, action in history)
    return "\n".join([instruction, *past, page, *_shared(listed)]) + "\n"


def compact_system(tags: Sequence[str]) -> str:
    """Returns the system prompt of ``compact`` in a chat: the form of a response, by its tags."""
    pairs = zip(tags[::2], tags[1::2], strict=False)
    form = "".join(f"{opening}...{closing}" for opening, closing in pairs)
    return f"Answer in this form: {form}"


def _shared(actions: Iterable[str]) -> list[str]:
    """Joins neighbouring actions with the same first words to a line: ``go to bed 1 desk 1``.

    A number stays with the word before it.
    """
    lines = []
    for _, group in groupby((action.split(" ") for action in actions), key=lambda w: w[0]):
        neighbours = list(group)
        columns = zip(*neighbours, strict=False) if len(neighbours) > 1 else ()
        shared = len(list(takewhile(lambda column: len(set(column)) == 1, columns)))
        while shared and any(len(w) == shared or w[shared].isdigit() for w in neighbours):
            shared -= 1
        rests = " ".join(" ".join(words[shared:]) for words in neighbours)
        lines.append(" ".join([*neighbours[0][:shared], rests]))
    return lines
