"""The prompter and the tokenizer that hyperparameters describe."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from trca.algorithms.settings.parameters import TextParameters
from trca.common.files import FileVersion, versions
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.engines import engine_class
from trca.policies.prompts import Prompter


def make_prompter(
    settings: TextParameters, tokenizer: Any, max_prompt_tokens: int | None = None
) -> Prompter:
    """Makes the prompter, by default with the limit of the settings (bytes for an endpoint)."""
    responses = RESPONSE_FORMATS.get(settings.response_format)
    limit = settings.max_prompt_tokens * engine_class(settings.engine).ids_per_token
    return Prompter(
        tokenizer,
        template=responses.prompt or settings.template,
        history_length=settings.history_length,
        max_prompt_tokens=max_prompt_tokens or limit,
        memory=settings.memory,
        response_format=responses,
        chat_template_kwargs=settings.chat_template_kwargs,
    )


def engine_tokenizer(engine: str, model: str) -> Any:
    """The tokenizer of an engine; a cache holds the last two until a file of the model changes."""
    return _tokenizer(engine, model, versions(Path(model)))


@lru_cache(maxsize=2)
def _tokenizer(engine: str, model: str, files: tuple[FileVersion, ...]) -> Any:
    return engine_class(engine).tokenizer(model)
