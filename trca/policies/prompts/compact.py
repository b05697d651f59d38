"""The template ``compact``: a short prompt for a small policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile

from trca.policies.prompts.paper import History


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
    lines = [instruction, *(f">{action}" for _, action in history), page]
    lowered = page.lower()
    lines.extend(
        _shared(
            action.replace("[", " [", 1) for action in admissible if not _named(action, lowered)
        )
    )
    return "\n".join(lines) + "\n"


def compact_system(tags: Sequence[str]) -> str:
    """Returns the system prompt of ``compact`` in a chat: the form of a response.

    Args:
        tags: Opening and closing tags of the response format, in order.
    """
    pairs = zip(tags[::2], tags[1::2], strict=False)
    form = "".join(f"{opening}...{closing}" for opening, closing in pairs)
    return f"Answer in this form: {form}"


def _named(action: str, page: str) -> bool:
    """Whether the page contains the action's argument in brackets: ``red`` of ``click[red]``."""
    argument = action.partition("[")[2]
    return argument != "" and argument.removesuffix("]") in page


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
