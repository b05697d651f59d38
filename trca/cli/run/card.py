"""The card of an exported policy: its training, and the prompt and tags that it needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from trca.envs.responses import RESPONSE_FORMATS
from trca.runs.folder import quoted
from trca.tune_configs.run_parameters import method_name

if TYPE_CHECKING:
    from pathlib import Path

    from trca.algorithms.settings.parameters import TextParameters
    from trca.runs.folder import RunFolder
    from trca.runs.selection import Selection

_SEARCH_OR_ANSWER: Final = (
    "`<think>...</think>` and then `<search>...</search>` or `<answer>...</answer>`"
)
_CALLS: Final = "calls of tools, in the form of the chat template"
_TAGS: Final = {
    "action": "`<think>...</think><action>...</action>`",
    "action_only": "`<action>...</action>`",
    "llama_tool_calls": _CALLS,
    "tool_calls": _CALLS,
    "tool_calls_or_text": f"{_CALLS}, or a text",
    "plan": "`<switch>KEEP or SWITCH</switch><subgoal>...</subgoal><action>...</action>`",
    "search_r1": _SEARCH_OR_ANSWER,
    "search_r1_growing": _SEARCH_OR_ANSWER,
    "qwen3_coder_tool_calls": _CALLS,
    "r1_answer": "`<think>...</think><answer>...</answer>`",
}
_PROMPTS: Final = {
    "paper": "`paper`: the prompt of the paper, through the chat template of the tokenizer",
    "compact": "`compact`: few tokens, through the chat template if the tokenizer has one",
    "chat": "`chat`: one conversation per episode, in the chat template of the tokenizer",
}


def card(run: RunFolder, selection: Selection, settings: TextParameters, to: Path | str) -> str:
    """The text of the card.

    Args:
        run: The run of the policy.
        selection: The choice of the checkpoint.
        settings: The run's settings.
        to: The exported folder, or the name of a repository of the hub.
    """
    config, place = quoted(run.path / "config.yaml"), "this folder"
    if isinstance(to, str):
        config, place = "config.yaml", "this model, with the settings below in config.yaml"
    prompt = _PROMPTS.get(settings.template, f"`{settings.template}`")
    if RESPONSE_FORMATS.get(settings.response_format).prompt is not None:
        prompt = f"the prompt of the response format `{settings.response_format}`"
    caution = ""
    if selection.candidates > 1:
        caution = f"""
The highest of {selection.candidates} numbers is likely too high: on the tasks that chose it, this
checkpoint looks better than it is. For a report name other tasks by `--split`, or leave these out:
`trca evaluate {quoted(f"{run.address}@best")} --split SPLIT`.
"""
    environment = ", ".join(f"{k}={json.dumps(v)}" for k, v in settings.env_config.items())
    memory = "with" if settings.memory else "without"
    return f"""---
library_name: transformers
pipeline_tag: text-generation
---

# {run.name}, iteration {selection.iteration}

A policy for `{settings.env}`, trained with {method_name(settings.flat())} by trca from
`{settings.model}`. It acts well only under the prompt and the tags it was trained with:

| | |
|---|---|
| checkpoint | {selection.words()} |
| environment | `{settings.env}` with {environment or "its defaults"} |
| prompt template | {prompt} |
| response format | `{settings.response_format}`: {_TAGS.get(settings.response_format, "")} |
| history | the last {settings.history_length} steps, {memory} the line of memory |
| limits | {settings.max_prompt_tokens} prompt tokens, {settings.max_new_tokens} new tokens |
| evaluation temperature | {settings.evaluation_temperature:g} |

`trca.policies.prompts.Prompter` writes these prompts. To evaluate {place}:

```
trca evaluate {quoted(to)} --config {config}
```
{caution}
Every setting of the run:

```yaml
{(run.path / "config.yaml").read_text("utf-8").rstrip()}
```
"""
