"""The prompter that hyperparameters describe."""

from __future__ import annotations

from typing import Any

from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.prompts import Prompter


def make_prompter(
    parameters: Any, tokenizer: Any, max_prompt_tokens: int | None = None
) -> Prompter:
    """Makes the prompter.

    Args:
        parameters: What has the hyperparameters as attributes: `TextParameters` or a config.
        tokenizer: The tokenizer of the model.
        max_prompt_tokens: Another limit on a prompt than that of the parameters.
    """
    responses = RESPONSE_FORMATS.get(parameters.response_format)
    return Prompter(
        tokenizer,
        template=responses.prompt or parameters.template,
        history_length=parameters.history_length,
        max_prompt_tokens=max_prompt_tokens or parameters.max_prompt_tokens,
        memory=parameters.memory,
    )
