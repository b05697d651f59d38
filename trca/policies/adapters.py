"""LoRA adapters as models.

TRL, verl, LLaMA-Factory and peft save a fine-tuned model as an adapter: a folder with
``adapter_config.json``, which names the base model, and the adapter's weights.
`trca.policies.models.merged_model` adds the adapter to the weights of the base model and writes an
ordinary folder into the cache. Training, engines, the frozen reference and export then read the
merged model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trca.common.errors import first_line
from trca.policies.weight_files import weights_folder, weights_hash

_CONFIG: Final = "adapter_config.json"


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter. Transformers too reads the adapter before a config."""
    return (folder / _CONFIG).is_file()


def base_folder(adapter: Path, resolve: Callable[[str], str]) -> Path:
    """The folder of an adapter's base model.

    Raises:
        ValueError: If the adapter has another kind, or if its base model is not on this machine.
    """
    try:
        config = json.loads((adapter / _CONFIG).read_text())
        kind, task = config["peft_type"], config.get("task_type")
        base = str(config.get("base_model_name_or_path") or "")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{adapter / _CONFIG} is no config of peft: {error!r}") from None
    if kind != "LORA" or task not in (None, "CAUSAL_LM"):
        raise ValueError(
            f"{adapter} is an adapter with peft_type {kind} and task_type {task}: give a LORA"
            " adapter of a CAUSAL_LM, or merge the adapter and give the merged model"
        )
    try:
        folder = weights_folder(resolve(base)) if base else adapter
        if folder != adapter and weights_hash(str(folder)):
            return folder
    except OSError:  # not in the hub's cache
        fix = f"run: hf download {base}"
    except ValueError as error:
        fix = f"{first_line(error)} in {_CONFIG}"
    else:
        fix = f"name a folder with weights or a hub name in {_CONFIG}"
    raise ValueError(
        f"{adapter} is a LoRA adapter, and its base model {base!r} (base_model_name_or_path) is"
        f" not on this machine: {fix}"
    )
