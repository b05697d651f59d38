"""The embedded tiny policy of an environment: shipped in the package, or built on first use.

The policy has the Qwen3 architecture with random weights and words of the environment as tokens.
A warm start imitates a weak demonstrator (`warmstart`). The policy then writes the response format,
copies names from the prompt, uses the verbs correctly, and fails most tasks, as larger models do
before training.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any, Final

import gymnasium
import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from trca.common.cache import build_once, cache_folder, digest
from trca.common.progress import Report, progress
from trca.common.registry import short_name
from trca.envs.registration import EnvClass, env_class, identity, language, make
from trca.envs.responses import ACTION_FORMAT, RESPONSE_FORMATS, ResponseFormat
from trca.envs.teams.team import Team
from trca.policies.bpe import END, TAGS, train_tokenizer
from trca.policies.models import quiet
from trca.policies.shipped import damage, shipped_folder
from trca.policies.warmstart import Stage, TinySpec, demonstrate, imitate

_VERSION: Final = 3


def tiny_policy(
    env: EnvClass,
    env_config: Mapping[str, Any] | None = None,
    spec: TinySpec | None = None,
    response_format: str = "action",
) -> Path:
    """Returns the folder of an environment's tiny policy, for ``from_pretrained``.

    The package ships the policies of some recipes (see `trca.policies.shipped`). The policy of any
    other recipe is built on first use and stored in the cache, in a folder named by the digest of
    the recipe. Arguments that do not change the environment's texts (see `TextEnv.language`) are
    not part of the recipe. The policy always learns from the ``train`` split. A format without a
    plan gives a thought and an action.

    Raises:
        ValueError: If a file of the shipped policy is missing or changed.
    """
    recipe = recipe_of(env, env_config, spec, response_format)
    folder = _folder(recipe)
    if problem := damage(folder):
        raise ValueError(problem)
    snapshot = folder.with_name(f"{folder.name}.snapshot")

    def build(target: Path) -> None:
        build_policy(env, env_config, target, spec, response_format, snapshot)
        (target / "recipe.json").write_text(json.dumps(recipe, indent=2, default=str))

    try:
        return build_once(folder, build)
    except KeyboardInterrupt:
        if snapshot.is_file():
            print(
                f"The state of the tiny policy is saved in {snapshot}; the next run resumes.",
                file=sys.stderr,
            )
        raise


def tiny_folder(
    env: EnvClass, env_config: Mapping[str, Any] | None = None, response_format: str = "action"
) -> Path:
    """Returns the folder of `tiny_policy` without a build or a check."""
    return _folder(recipe_of(env, env_config, None, response_format))


def build_policy(
    env: EnvClass,
    env_config: Mapping[str, Any] | None,
    target: Path,
    spec: TinySpec | None = None,
    response_format: str = "action",
    snapshot: Path | None = None,
) -> None:
    """Builds the policy of `tiny_policy` in the folder ``target``, even if the package ships it.

    ``snapshot`` is the file for the state of imitation, from which a later build resumes.
    """
    spec = spec or spec_of(env)
    arguments = _arguments(env, env_config or {})
    limit = {} if spec.max_steps is None else {"max_steps": spec.max_steps}
    name = short_name(env) if isinstance(env, str) else env.__name__
    with progress(f"the tiny policy for {name}") as tick, ExitStack() as stack:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)

        def start(**changed: Any) -> gymnasium.Env[str, str]:
            return stack.enter_context(closing(make(env, **arguments | limit | changed)))

        played = [start()]
        if spec.worlds and getattr(played[0].unwrapped, "generated", False):
            first = (env_config or {}).get("seed", 0) + 1
            played = [start(seed=first + number) for number in range(spec.worlds)]
        spoken = RESPONSE_FORMATS.get(response_format)
        build_tiny(played, spec, target, tick, snapshot, spoken)


def _arguments(env: EnvClass, env_config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the training environment, without default values."""
    defaults = {p.name: p.default for p in signature(env_class(env)).parameters.values()}
    spoken = {name: env_config[name] for name in language(env) if name in env_config}
    arguments = {k: v for k, v in spoken.items() if k not in defaults or v != defaults[k]}
    return arguments | {"split": "train"}


def recipe_of(
    env: EnvClass,
    env_config: Mapping[str, Any] | None = None,
    spec: TinySpec | None = None,
    response_format: str = "action",
) -> dict[str, Any]:
    """Returns the full recipe of a tiny policy; a team by the content of its file."""
    arguments = _arguments(env, env_config or {})
    plans = RESPONSE_FORMATS.get(response_format).write_plan is not None
    team = arguments.get("team")
    content = {} if team is None else {"team": Team.load(team).model_dump(mode="json")}
    return {
        "env": identity(env),
        "env_config": {**arguments, **content},
        "spec": asdict(spec or spec_of(env)),
        "version": _VERSION,
        **({"response_format": response_format} if plans else {}),
    }


def _folder(recipe: Mapping[str, Any]) -> Path:
    key = digest(recipe)
    return shipped_folder(key) or cache_folder() / "tiny" / key


def spec_of(env: EnvClass) -> TinySpec:
    """Returns the spec of an environment's tiny policy: the defaults, with declared changes."""
    changes = dict(getattr(env_class(env), "tiny_policy", {}))
    if "stages" in changes:
        changes["stages"] = tuple(Stage(*stage) for stage in changes["stages"])
    return TinySpec(**changes)


def build_tiny(
    envs: Sequence[gymnasium.Env[str, str]],
    spec: TinySpec,
    target: Path,
    tick: Report,
    snapshot: Path | None = None,
    response_format: ResponseFormat = ACTION_FORMAT,
) -> None:
    """Makes tokenizer and model for an environment, or similar ones; trains and saves them.

    The file ``snapshot`` is removed at the end. Only a response format with a plan has an effect.
    """
    spoken = ACTION_FORMAT if response_format.write_plan is None else response_format
    stages = [
        demonstrate(
            envs,
            stage.randomness,
            stage.updates * spec.batch_size,
            spec.seed + number,
            spec.history_length,
            tick,
            spec.deliberate,
            spoken,
        )
        for number, stage in enumerate(spec.stages)
    ]
    tokenizer = train_tokenizer(
        [f"{example.prompt}{example.response}" for stage in stages for example in stage],
        {example.action for stage in stages for example in stage},
        spec.words,
        spec.merges,
        spoken.tags,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        model = new_model(tokenizer, spec, spoken.tags[-1])
        rows = []
        for examples, stage in zip(stages, spec.stages, strict=True):
            played = examples[: stage.updates * spec.batch_size]
            prompts = tokenizer([e.prompt for e in played])["input_ids"]
            responses = tokenizer([e.response for e in played])["input_ids"]
            rows.append(list(zip(prompts, responses, strict=True)))
        imitate(model, rows, spec, tick, snapshot)
    with quiet():
        model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    if snapshot is not None:
        snapshot.unlink(missing_ok=True)


def new_model(tokenizer: PreTrainedTokenizerFast, spec: TinySpec, end: str = TAGS[-1]) -> Any:
    """Returns a model of random weights, drawn from PyTorch's global generator.

    A mimetic model has weights of unit gain, and output projections that invert the value
    projections. A head then copies the attended tokens before any training, and the model learns
    sooner to copy from the prompt (Trockman and Kolter, "Mimetic Initialization of Self-Attention
    Layers", 2023).
    """
    model = Qwen3ForCausalLM(architecture(spec, len(tokenizer)))
    ends = [tokenizer.vocab[END], tokenizer.vocab[end]]
    model.generation_config = GenerationConfig(eos_token_id=ends, pad_token_id=ends[0])
    if not spec.mimetic:
        return model
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.normal_(0.0, weight.shape[1] ** -0.5)
        for layer in model.model.layers:
            attention = layer.self_attn
            values = attention.v_proj.weight.unflatten(0, (-1, attention.head_dim))
            shared = values.repeat_interleave(attention.num_key_value_groups, 0)
            attention.o_proj.weight.copy_(shared.flatten(0, 1).T)
            layer.mlp.down_proj.weight.mul_(0.4)
    return model


def architecture(spec: TinySpec, vocabulary: int) -> Qwen3Config:
    """Returns the configuration of the model for a number of tokens."""
    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=spec.hidden_size,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.kv_heads,
        head_dim=spec.hidden_size // spec.heads,
        intermediate_size=spec.feed_forward,
        tie_word_embeddings=True,
        max_position_embeddings=4096,
    )
