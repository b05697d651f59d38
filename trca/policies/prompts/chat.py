"""The template ``chat``: one conversation per episode, as instruct models have it.

The system prompt has the task and the response format, a user turn the observation, an assistant
turn the response. The prompt of a step is the prompt of the last step, the sampled ids of the
response, and a new user turn::

    step 0    system, user 0
    step 1    system, user 0, response 0, user 1
    step 2    system, user 0, response 0, user 1, response 1, user 2

Nothing that was in a prompt changes later. An engine with a prefix cache therefore reads only the
new turn, and learners with shared prefixes compute a conversation once. A conversation over the
limits starts a new window: the system prompt and the newest turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trca.policies.prompts.chat_template import ChatTemplate
from trca.policies.prompts.paper import format_instructions, listed_actions


def chat_system(
    instruction: str, max_steps: int, admissible: Sequence[str], instructions: str
) -> str:
    """Returns the system prompt. The text that all tasks share comes first.

    Args:
        instruction: The instruction of the task.
        max_steps: The step limit.
        admissible: The admissible actions of the first step.
        instructions: How to answer; see `trca.envs.responses.ResponseFormat`.
    """
    return "\n".join(
        [
            "You are an expert agent operating in a text environment. Each message shows what you"
            " observe, and you answer each message.",
            format_instructions(instructions, admissible),
            f"You have {max_steps} steps in all.",
            f"Your task is to: {instruction}",
        ]
    )


def chat_turn(
    step: int, memory: str, observation: str, admissible: Sequence[str], subgoal: str
) -> str:
    """Returns a user turn. Arguments as in `Prompter.encode`."""
    lines = [f"Step {step + 1}: {observation}"]
    if memory:
        lines.append(f"What you have observed so far: {memory}")
    if subgoal:
        lines.append(f"Your subgoal: {subgoal}")
    if admissible:
        lines.append(listed_actions(admissible))
    return "\n".join(lines)


@dataclass
class Conversation:
    """The turns of one agent in one episode.

    Attributes:
        system: The system prompt.
        turns: User turn and sampled response of each past step.
        first: The first turn of the window.
        text: The user turn of the last prompt.
        prompt_ids: The last prompt.
        past_ids: The last prompt with its response, if the prompt has one.
    """

    system: str = ""
    turns: list[tuple[str, NDArray[np.int32]]] = field(default_factory=list)
    first: int = 0
    text: str = ""
    prompt_ids: list[int] = field(default_factory=list)
    past_ids: list[int] = field(default_factory=list)

    def add(self, response_ids: NDArray[np.int32]) -> None:
        """Adds the response to the last prompt.

        Args:
            response_ids: int32 (R,), the sampled ids.
        """
        self.turns.append((self.text, response_ids))
        self.past_ids = [*self.prompt_ids, *response_ids.tolist()]

    def prompt(self, template: ChatTemplate, text: str, most_turns: int, most_tokens: int) -> bool:
        """Sets the prompt with a new user turn.

        If the window would have more than ``most_turns`` past turns or ``most_tokens`` tokens, a
        new window has the newest turns, at most half of both limits. So new windows are rare.

        Args:
            template: The chat template.
            text: The user turn.
            most_turns: Limit on past turns.
            most_tokens: Limit on the prompt.

        Returns:
            Whether the prompt fits. Otherwise the conversation is unchanged.
        """
        count = len(self.turns)
        if 0 < count - self.first <= most_turns:
            ids = [*self.past_ids, *template.following(text, self.turns[-1][1])]
            if len(ids) <= most_tokens:
                self.text, self.prompt_ids = text, ids
                return True
        texts, tail = [*(text for text, _ in self.turns), text], list[int]()
        first, fits = count, False
        while True:
            ids = [*template.opening(self.system, texts[first]), *tail]
            if len(ids) > (most_tokens // 2 if fits else most_tokens):
                return fits
            self.text, self.prompt_ids, self.first, fits = text, ids, first, True
            if first <= max(count - most_turns // 2, 0):
                return True
            response = self.turns[first - 1][1]
            tail = [*response.tolist(), *template.following(texts[first], response), *tail]
            first -= 1
