"""The prompter and the tokenizer that hyperparameters describe."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from trca.common.files import FileVersion, versions
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.engines import engine_class
from trca.policies.prompts import Prompter


def make_prompter(
    parameters: Any, tokenizer: Any, max_prompt_tokens: int | None = None
) -> Prompter:
    """Makes the prompter.

    Args:
        parameters: `TextParameters` or a config.
        tokenizer: The tokenizer of the model.
        max_prompt_tokens: Limit on a prompt; `None` for the limit in the parameters.
    """
    responses = RESPONSE_FORMATS.get(parameters.response_format)
    return Prompter(
        tokenizer,
        template=responses.prompt or parameters.template,
        history_length=parameters.history_length,
        max_prompt_tokens=max_prompt_tokens or _limit(parameters),
        memory=parameters.memory,
        response_format=responses,
        chat_template_kwargs=parameters.chat_template_kwargs,
    )


def engine_tokenizer(engine: str, model: str) -> Any:
    """The tokenizer of an engine; a cache holds the last two until a file of the model changes.

    Args:
        engine: Name of the engine.
        model: Folder or Hugging Face name of the model.
    """
    return _tokenizer(engine, model, versions(Path(model)))


@lru_cache(maxsize=2)
def _tokenizer(engine: str, model: str, files: tuple[FileVersion, ...]) -> Any:
    return engine_class(engine).tokenizer(model)


def _limit(parameters: Any) -> int:
    """Limit on the ids of a prompt: tokens, or bytes for an endpoint."""
    limit: int = parameters.max_prompt_tokens
    return limit * engine_class(parameters.engine).ids_per_token
