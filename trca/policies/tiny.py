"""The embedded tiny policy: built for a world on first use, kept in the cache.

It has the Qwen3 architecture with random weights, words of the world as tokens, and a warm start
by imitating a weak demonstrator (`warmstart`): it speaks the format, copies names from the prompt,
knows what the verbs are for, and fails most tasks, as larger models do before they are trained.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import gymnasium
import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from trca.common.cache import build_once, cache_folder, digest
from trca.common.progress import progress
from trca.policies.bpe import END, TAGS, train_tokenizer
from trca.policies.models import quiet
from trca.policies.warmstart import Example, Stage, Tick, demonstrate, imitate

_VERSION: Final = 2
_JUDGES_ONLY: Final = ("library", "budgets", "lambda_", "render_mode")
THOUGHT: Final = "ok"


@dataclass(frozen=True)
class TinySpec:
    """Everything beside the world that makes a tiny policy.

    Attributes:
        hidden_size: Width d.
        layers: Number of layers.
        heads: Query heads.
        kv_heads: Key-value heads.
        feed_forward: Width of the feed-forward layers.
        mimetic: Whether attention begins by passing on what it attends to; see `new_model`.
        words: The most words of the world that become tokens.
        merges: The most BPE merges for the rarer words.
        history_length: Past actions in the prompt; train with the same.
        worlds: How many worlds of the seeds that follow its own are played in place of a
            ``generated`` one, so that its answers are not learned by heart; 0 for the world itself.
        deliberate: Beginnings of commands that the demonstrator never takes at random.
        stages: What is imitated, in order.
        batch_size: Rows an update.
        lr: Highest learning rate.
        warmup: Updates until then.
        prompt_weight: Weight of the loss on the prompt beside that on the response.
        seed: Seed of weights, tasks, commands and order.
        threads: Shares of a batch that are imitated side by side; another number rounds
            differently.
    """

    hidden_size: int = 128
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 384
    mimetic: bool = False
    words: int = 2000
    merges: int = 1000
    history_length: int = 0
    worlds: int = 0
    deliberate: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = (Stage(0.3, 1200), Stage(0.8, 300))
    batch_size: int = 32
    lr: float = 2e-3
    warmup: int = 100
    prompt_weight: float = 0.2
    seed: int = 0
    threads: int = 2


_COPIER: Final = TinySpec(kv_heads=4, mimetic=True, lr=3e-3)
SPECS: Final[Mapping[str, TinySpec]] = {
    "trca/WebShop-v0": _COPIER,
    "trca/SearchQA-v0": replace(
        _COPIER,
        worlds=10,
        deliberate=("answer",),
        stages=(Stage(0.1, 1500), Stage(0.75, 300)),
    ),
}
"""Worlds whose commands are copied from long pages; all others have the defaults."""


def tiny_policy(
    env_id: str, env_config: Mapping[str, Any] | None = None, spec: TinySpec | None = None
) -> Path:
    """Folder of the tiny policy of a world, which ``from_pretrained`` opens.

    It is found under a hash of all that made it; what only judges the agent (library, budgets,
    lambda) has no part in it. It always learns from the ``train`` split.

    Args:
        env_id: Gymnasium id of the world.
        env_config: Keyword arguments of the world.
        spec: Sizes and stages; those of `SPECS` for None.
    """
    spec = spec or spec_of(env_id)
    world = {k: v for k, v in (env_config or {}).items() if k not in _JUDGES_ONLY}
    world["split"] = "train"
    recipe = {"env_id": env_id, "env_config": world, "spec": asdict(spec), "version": _VERSION}
    folder = cache_folder() / "tiny" / digest(recipe)

    def build(target: Path) -> None:
        with progress(f"the tiny policy for {env_id}") as tick, _one_thread(), ExitStack() as envs:

            def make(**changed: Any) -> gymnasium.Env[str, str]:
                kwargs = world | changed
                return envs.enter_context(
                    closing(gymnasium.make(env_id, disable_env_checker=True, **kwargs))
                )

            played = [make()]
            if spec.worlds and getattr(played[0].unwrapped, "generated", False):
                first = world.get("seed", 0) + 1
                played = [make(seed=first + number) for number in range(spec.worlds)]
            build_tiny(played, spec, target, tick)
        (target / "recipe.json").write_text(json.dumps(recipe, indent=2, default=str))

    return build_once(folder, build)


def spec_of(env_id: str) -> TinySpec:
    """What the tiny policy of a world is made by."""
    return SPECS.get(env_id, TinySpec())


def build_tiny(
    envs: Sequence[gymnasium.Env[str, str]], spec: TinySpec, target: Path, tick: Tick
) -> None:
    """Makes tokenizer and model for a world, trains them, and saves them.

    Args:
        envs: The world on its training split, or others like it.
        spec: Sizes and stages.
        target: Folder to fill.
        tick: Told of progress.
    """
    stages = [
        demonstrate(
            envs,
            stage.randomness,
            stage.updates * spec.batch_size,
            spec.seed + number,
            spec.history_length,
            tick,
            spec.deliberate,
        )
        for number, stage in enumerate(spec.stages)
    ]
    examples = [example for stage in stages for example in stage]
    tokenizer = train_tokenizer(
        [f"{example.prompt}{respond(example.command)}" for example in examples],
        {example.command for example in examples},
        spec.words,
        spec.merges,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        model = new_model(tokenizer, spec)
        imitate(
            model,
            [
                _encoded(stage[: s.updates * spec.batch_size], tokenizer)
                for stage, s in zip(stages, spec.stages, strict=True)
            ],
            batch_size=spec.batch_size,
            lr=spec.lr,
            warmup=spec.warmup,
            prompt_weight=spec.prompt_weight,
            seed=spec.seed,
            threads=spec.threads,
            tick=tick,
        )
    with quiet():
        model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def respond(command: str) -> str:
    """The response that the demonstrator gives for a command."""
    return f"<think>{THOUGHT}</think><action>{command}</action>"


def new_model(tokenizer: PreTrainedTokenizerFast, spec: TinySpec) -> Any:
    """A model of random weights, drawn from PyTorch's global generator.

    A mimetic one has weights of unit gain, and output projections that undo the value projections,
    so that a head passes on the tokens it attends to before anything was learned, and copying from
    the prompt comes sooner (Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers",
    2023).
    """
    model = Qwen3ForCausalLM(architecture(spec, len(tokenizer)))
    ends = [tokenizer.vocab[END], tokenizer.vocab[TAGS[-1]]]
    model.generation_config = GenerationConfig(eos_token_id=ends, pad_token_id=ends[0])
    if spec.mimetic:
        _make_mimetic(model)
    return model


def architecture(spec: TinySpec, vocabulary: int) -> Qwen3Config:
    """What kind of model it is, for a number of tokens."""
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


@torch.no_grad()
def _make_mimetic(model: Any) -> None:
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.normal_(0.0, weight.shape[1] ** -0.5)
    for layer in model.model.layers:
        attention = layer.self_attn
        values = attention.v_proj.weight.unflatten(0, (-1, attention.head_dim))
        shared = values.repeat_interleave(attention.num_key_value_groups, 0)
        attention.o_proj.weight.copy_(shared.flatten(0, 1).T)
        layer.mlp.down_proj.weight.mul_(0.4)


def _encoded(
    examples: list[Example], tokenizer: PreTrainedTokenizerFast
) -> list[tuple[list[int], list[int]]]:
    prompts = tokenizer([e.prompt for e in examples])["input_ids"]
    responses = tokenizer([respond(e.command) for e in examples])["input_ids"]
    return list(zip(prompts, responses, strict=True))


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
