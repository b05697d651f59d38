"""Resolves model names: the embedded tiny policy, folders, Hugging Face names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from trca.common.errors import first_line
from trca.common.files import find
from trca.policies.smollm2 import SMOLLM2, smollm2_folder
from trca.policies.weight_files import ADAPTER_CONFIG, is_adapter

TINY: Final = "tiny"
SHRUNK: Final = "shrunk:"
GGUF: Final = ".gguf"


def resolve_model(
    name: str,
    *,
    env_id: str | type,
    env_config: Mapping[str, Any] | None = None,
    response_format: str = "action",
) -> str:
    """Resolves the name of a model to a folder or a Hugging Face name, for `load_model`.

    Args:
        name: ``tiny`` for the embedded policy of the environment, built on first use;
            ``shrunk:NAME`` for a small random model of a known architecture, for dry runs;
            ``smollm2`` for the model that ``trca data smollm2`` fetches; a GGUF file, converted on
            first use; a LoRA adapter in a folder or the hub's cache, merged into its base model on
            first use; otherwise a folder or a Hugging Face name, returned unchanged.
        env_id: Environment of the tiny policy, as for `trca.envs.make`.
        env_config: Keyword arguments of the environment.
        response_format: Response format of the tiny policy.

    Raises:
        ImportError: If a GGUF file or an adapter cannot be read without a further package.
        ValueError: If the model cannot be used; names the fix.
    """
    if name == TINY:
        from trca.policies.tiny import tiny_policy

        return str(tiny_policy(env_id, env_config or {}, response_format=response_format))
    if name.startswith(SHRUNK):
        from trca.policies.shrunk import shrunk_model

        return str(shrunk_model(name.removeprefix(SHRUNK)))
    path = find(name)
    if adapter := _adapter_folder(name):
        from trca.policies.models import merged_model

        return str(merged_model(adapter, partial(resolve_model, env_id="")))
    if path.is_dir():
        return str(path)
    if is_gguf(name):
        from trca.policies.gguf import gguf_model

        return str(gguf_model(path))
    if lack := missing_folder(name):
        raise ValueError(lack)
    if name == SMOLLM2:
        return str(smollm2_folder())
    return name


def _adapter_folder(name: str) -> Path | None:
    """The folder of an adapter; `None` for other models. Does not ask the Hugging Face hub."""
    path = find(name)
    if not path.exists() and name.count("/") == 1 and not missing_folder(name):
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(name, ADAPTER_CONFIG)
        path = Path(cached).parent if isinstance(cached, str) else path
    return path if is_adapter(path) else None


def missing_folder(name: str) -> str:
    """One sentence for the path of a folder that does not exist; empty for any other name."""
    if name == SMOLLM2 and not smollm2_folder().is_dir():
        return f"model {SMOLLM2} is not on this machine: fetch it with trca data smollm2"
    if find(name).is_dir() or is_gguf(name) or name.startswith(SHRUNK):
        return ""
    if not name.startswith(("/", ".", "~")) and name.count("/") <= 1:
        return ""
    return (
        f"no model at {name!r}: give {TINY}, {SMOLLM2}, a folder with config.json, an adapter, a"
        " GGUF file, or a Hugging Face name such as Qwen/Qwen2.5-1.5B-Instruct"
    )


def local_model(
    name: str, env_id: str | type, env_config: Mapping[str, Any], response_format: str
) -> str:
    """Returns the folder of a model on this machine; empty if the model cannot be read here.

    Builds no tiny policy. Takes the arguments of `resolve_model`.
    """
    from trca.policies.tiny import tiny_folder

    if name == TINY:
        folder = tiny_folder(env_id, env_config, response_format)
    else:
        try:
            folder = Path(resolve_model(name, env_id=env_id))
        except (ImportError, ValueError):  # `missing_model` has the reason
            return ""
    return str(folder) if folder.is_dir() else ""


def is_packaged(name: str) -> bool:
    """Whether a name needs neither folder nor hub: the tiny policy, SmolLM2, a shrunk model."""
    return name in (TINY, SMOLLM2) or name.startswith(SHRUNK)


def is_gguf(name: str) -> bool:
    """Whether the name is the path of a GGUF file that exists."""
    return name.endswith(GGUF) and find(name).is_file()


def missing_model(name: str, ask_hub: bool = True) -> str:
    """Why the config or the tokenizer of a model cannot be opened; empty if both can.

    ``ask_hub`` asks the Hugging Face hub for a model that is not on this machine.
    """
    if name == TINY:
        return ""
    if ask_hub and (lack := missing_on_hub(name)):
        return lack
    from transformers import AutoConfig, AutoTokenizer

    try:
        folder = resolve_model(name, env_id="")
    except (ImportError, ValueError) as error:
        return f"model is {name!r}: {error}"
    if name.startswith(SHRUNK):
        return ""
    for part in (AutoConfig, AutoTokenizer):
        try:
            part.from_pretrained(folder, local_files_only=True)
        except Exception as local:
            if not ask_hub or Path(folder).exists():
                return f"model is {name!r}: {first_line(local)[:300]}"
            try:
                part.from_pretrained(folder)
            except Exception as error:
                return (
                    f"model is {name!r}: no such folder, and the Hugging Face hub gives none:"
                    f" {first_line(error)[:300]}"
                )
    return ""


def missing_on_hub(name: str) -> str:
    """Why the Hugging Face hub cannot give a model that this machine lacks; empty for the others.

    Asks for one or two files, without the import of PyTorch, and without the retries of a download.
    """
    if is_packaged(name) or missing_folder(name) or find(name).exists():
        return ""
    from huggingface_hub import HfApi, try_to_load_from_cache

    files = "config.json", ADAPTER_CONFIG
    if any(isinstance(try_to_load_from_cache(name, file), str) for file in files):
        return ""
    try:
        if any(HfApi().file_exists(name, file) for file in files):
            return ""
        reason = "the name is wrong, or the model is private and needs a token: hf auth login"
    except Exception as error:
        reason = first_line(error)[:300]
    return f"model is {name!r}: no such folder, and the Hugging Face hub gives none: {reason}"
