"""Prompts: the token ids that a language model reads at one step.

For example::

    prompter = Prompter(tokenizer, template="paper", max_prompt_tokens=2048)
    ids = prompter.encode(
        instruction="put a clean mug in shelf.", step=0, max_steps=25, history=[],
        observation=observation, admissible=info["admissible_actions"],
    )
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby, takewhile
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trca.envs.responses import PromptWriter

Template = Literal["paper", "compact"]
History = Sequence[tuple[str, str]]

_CUT: Final = "..."


class Prompter:
    """Writes prompts of one template and keeps them within a budget of tokens.

    ``paper`` is the prompt of the paper and of verl-agent, worded for any text environment:
    instruction, step count, the last observations and actions, the current observation, the
    admissible actions and the response format. The text passes through the tokenizer's chat
    template, if there is one. ``compact`` is a short plain text for a tiny policy: instruction,
    last actions, memory (or the observation without memory), admissible actions. It omits idle
    actions, and actions such as ``click[red]`` whose argument in brackets stands on the page.
    Neighbouring actions share their first words: ``go to bed 1 desk 1``,
    ``click [back] [buy now]``.

    A prompt over the budget is shortened in a fixed order: the oldest pairs of the history, then
    the memory, then the end of the observation, then the end of the list of actions, and finally
    the subgoal. The instruction and the response format are never shortened.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: Template | PromptWriter = "paper",
        history_length: int = 2,
        max_prompt_tokens: int = 2048,
        memory: bool = False,
    ) -> None:
        """Chooses template and budget.

        Args:
            tokenizer: A Hugging Face tokenizer.
            template: ``paper``, ``compact``, or a function that writes a prompt for the chat
                template.
            history_length: Number of past steps in the prompt: observations with actions in
                ``paper``, only actions in ``compact``.
            max_prompt_tokens: Largest number of tokens that `encode` returns.
            memory: Whether the prompt shows the memory line, a summary of the observations so far.
                An adapter outside the model writes the line, so the line adds to the observation of
                the paper.
        """
        if not callable(template) and template not in _WRITERS:
            raise ValueError(f"unknown prompt template {template!r}: choose paper or compact")
        if history_length < 0:
            raise ValueError(f"history_length is {history_length}: give 0 or more")
        self.template = template
        self.history_length = history_length
        self.max_prompt_tokens = max_prompt_tokens
        self.memory = memory
        self._write = template if callable(template) else _WRITERS[template]
        self._tokenizer = tokenizer
        self._chat = template != "compact" and bool(getattr(tokenizer, "chat_template", None))

    def encode(
        self,
        *,
        instruction: str,
        step: int,
        max_steps: int,
        history: History,
        observation: str,
        admissible: Sequence[str],
        idle: Collection[str] = (),
        memory: str | None = None,
        subgoal: str = "",
    ) -> NDArray[np.int32]:
        """Returns the token ids of the prompt of one step.

        Args:
            instruction: The instruction.
            step: Number of earlier actions.
            max_steps: The step limit.
            history: Pairs of an observation and its action, oldest first.
            observation: The current observation.
            admissible: The admissible actions; empty if the environment does not list them.
            idle: Admissible actions that are always present and change nothing.
            memory: The memory line; shown only by a prompter with ``memory``.
            subgoal: The agent's subgoal; blank for an agent without a plan.

        Returns:
            int32 of shape (P,), P at most ``max_prompt_tokens``.

        Raises:
            ValueError: If instruction and response format exceed the budget.
        """
        recent = list(history[-self.history_length :]) if self.history_length else []
        shown = memory or "" if self.memory else ""

        if self.template == "compact":
            admissible = [action for action in admissible if action not in idle]

        asked = with_subgoal(instruction, subgoal)

        def ids(past: History, memory: str, page: str, actions: Sequence[str]) -> list[int]:
            return self._ids(self._write(asked, step, max_steps, past, memory, page, actions))

        def fits(tokens: list[int]) -> bool:
            return len(tokens) <= self.max_prompt_tokens

        for dropped in range(len(recent) + 1):
            tokens = ids(recent[dropped:], shown, observation, admissible)
            if fits(tokens):
                return np.array(tokens, dtype=np.int32)
        words = observation.split(" ")
        actions = list(admissible)
        cuts: tuple[tuple[Sequence[str], Callable[[int], list[int]]], ...] = (
            (words, lambda kept: ids([], "", _head(words, kept), actions)),
            (actions, lambda kept: ids([], "", _CUT, [*actions[:kept], _CUT])),
        )
        for parts, shortened in cuts:
            kept = bisect_right(range(len(parts)), 0, key=lambda k: 0 if fits(shortened(k)) else 1)
            if kept:
                return np.array(shortened(kept - 1), dtype=np.int32)
        if subgoal:
            return self.encode(
                instruction=instruction,
                step=step,
                max_steps=max_steps,
                history=(),
                observation=observation,
                admissible=admissible,
            )
        raise ValueError(
            f"the instruction and the response format take over {self.max_prompt_tokens} tokens:"
            " raise max_prompt_tokens"
        )

    def with_note(self, prompt_ids: NDArray[np.int32], note: str) -> NDArray[np.int32]:
        """Adds a line to a prompt, before the tokens that the chat template puts after the text.

        Args:
            prompt_ids: int32 (P,), a result of `encode`.
            note: The line.
        """
        one, other = self._ids("a"), self._ids("b")
        after = 0
        while self._chat and after < len(one) and one[-1 - after] == other[-1 - after]:
            after += 1
        ids = self._tokenizer(note, add_special_tokens=False)["input_ids"]
        end = len(prompt_ids) - after
        note_ids = np.array(ids, dtype=np.int32)
        return np.concatenate([prompt_ids[:end], note_ids, prompt_ids[end:]])

    def _ids(self, text: str) -> list[int]:
        if self._chat:
            ids = self._tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
            )
            return [int(i) for i in ids]
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is not None:
            return list(backend.encode(text).ids)
        return list(self._tokenizer(text)["input_ids"])


def with_subgoal(instruction: str, subgoal: str) -> str:
    """Returns the instruction, and the agent's subgoal on a second line."""
    return f"{instruction}\nYour subgoal: {subgoal}" if subgoal else instruction


def _head(words: Sequence[str], kept: int) -> str:
    return " ".join([*words[:kept], _CUT]) if kept < len(words) else " ".join(words)


_ANSWER: Final = """\
Now it's your turn to take an action.
You should first reason step-by-step about the current situation. This reasoning process MUST be \
enclosed within <think> </think> tags.
Once you've finished your reasoning, you should choose {choice} for the current step and present \
it within <action> </action> tags."""


def paper_prompt(
    instruction: str,
    step: int,
    max_steps: int,
    history: History,
    memory: str,
    observation: str,
    admissible: Sequence[str],
    instructions: str = _ANSWER,
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
        listed = ",\n ".join(f"'{action}'" for action in admissible)
        lines.append(f"Your admissible actions of the current situation are: [{listed}].")
    choice = "an admissible action" if admissible else "an action"
    return "\n".join([*lines, instructions.format(choice=choice)])


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


_WRITERS: Final[dict[str, PromptWriter]] = {"paper": paper_prompt, "compact": compact_prompt}

PAPER_TEXT: Final = (
    paper_prompt("{task}", 0, 0, [("", "")], "", "", ["", ""]) + "<think></think><action>"
)
"""The words of the paper's prompt, for training a tokenizer."""
