"""Prompts: the token ids that a language model reads at one step.

For example::

    prompter = Prompter(tokenizer, template="paper", max_prompt_tokens=2048)
    ids = prompter.encode(
        instruction="put a clean mug in shelf.", step=0, max_steps=25, history=[],
        observation=observation, admissible=info["admissible_actions"],
    )
"""

from trca.policies.prompts.chat import Conversation
from trca.policies.prompts.prompter import Prompter, Template
from trca.policies.prompts.texts import (
    PAPER_TEXT,
    History,
    compact_prompt,
    paper_prompt,
    with_subgoal,
)

__all__ = [
    "PAPER_TEXT",
    "Conversation",
    "History",
    "Prompter",
    "Template",
    "compact_prompt",
    "paper_prompt",
    "with_subgoal",
]
