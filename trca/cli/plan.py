"""What a run would do and what it needs: batches, tokens, memory, panels. Nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trca.cli.provenance import panels

if TYPE_CHECKING:
    from rich.table import Table

    from trca.tune_configs.settings import RunSettings

_BYTES: Final = {"float32": 4, "bfloat16": 2, "auto": 2}


@dataclass(frozen=True)
class Shape:
    """What of a model's architecture memory depends on.

    Attributes:
        parameters: Number of weights, tied ones once.
        layers: Number of layers.
        hidden: Width of the residual stream.
        feed_forward: Width of the feed-forward part.
        key_values: Width of keys (and of values) of a layer, all heads together.
        vocabulary: Number of tokens.
    """

    parameters: int
    layers: int
    hidden: int
    feed_forward: int
    key_values: int
    vocabulary: int

    @classmethod
    def of(cls, model: str, env_id: str) -> Shape:
        """The shape of a world's model of `trca.policies.models.resolve_model`; reads no weights.

        The tiny policy is not built for it, and the paper's models need no network.
        """
        import torch
        from transformers import AutoModelForCausalLM

        config = _architecture(model, env_id)
        with torch.device("meta"):
            network = AutoModelForCausalLM.from_config(config)
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        return cls(
            parameters=sum(p.numel() for p in network.parameters()),
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            feed_forward=config.intermediate_size,
            key_values=(getattr(config, "num_key_value_heads", None) or heads) * width,
            vocabulary=config.vocab_size,
        )


def _architecture(model: str, env_id: str) -> Any:
    from transformers import AutoConfig

    from trca.policies.models import TINY, resolve_model
    from trca.policies.shrunk import ARCHITECTURES

    if model in ARCHITECTURES:
        return AutoConfig.for_model(**ARCHITECTURES[model])
    if model != TINY:
        return AutoConfig.from_pretrained(resolve_model(model, env_id=env_id, env_config={}))
    from trca.policies.tiny import architecture, spec_of

    spec = spec_of(env_id)
    return architecture(spec, spec.words + spec.merges)


def memory(settings: RunSettings, shape: Shape) -> dict[str, float]:
    """Estimated bytes by what they are for, in one process that learns and rolls out.

    Activations are those of one micro-batch: of every layer, or with gradient checkpointing of one
    layer and the inputs of the others; and the logits of action tokens, taken as a tenth of all.
    Several learners add up gradients in buckets. Weights travel as a copy in the engine's
    precision, and once more through Ray's object store where runners are processes.
    """
    from trca.algorithms.gradients import BUCKET_BYTES

    run, parameters = settings.run, settings.parameters
    size = _BYTES[parameters.dtype]
    frozen = parameters.kl_coeff > 0 or parameters.kl_coeff_format > 0
    tokens = parameters.micro_batch_tokens
    live = settings.trajectories_per_iteration / max(1, run.num_env_runners)
    length = parameters.max_prompt_tokens + parameters.max_new_tokens
    a_layer = (16 * shape.hidden + 4 * shape.feed_forward) * size
    if parameters.gradient_checkpointing:
        a_token = a_layer + shape.layers * shape.hidden * size
    else:
        a_token = a_layer * shape.layers
    return {
        "weights, trained": shape.parameters * 4,
        "gradients": shape.parameters * 4,
        "gradient buckets": min(BUCKET_BYTES, shape.parameters * 4) if run.num_learners > 1 else 0,
        "AdamW state": shape.parameters * 2 * 4,
        "weights, frozen reference": shape.parameters * size if frozen else 0,
        "weights, engine": shape.parameters * size,
        "weights, on their way": shape.parameters * size * (2 if run.num_env_runners else 1),
        "activations, one micro-batch": tokens * (a_token + 0.1 * 3 * 4 * shape.vocabulary),
        "KV cache, all live rollouts": live * length * 2 * shape.layers * shape.key_values * size,
    }


def plan(settings: RunSettings) -> Table:
    """The plan as a table for the terminal."""
    from rich import box
    from rich.table import Table

    run, parameters = settings.run, settings.parameters
    rollouts = settings.trajectories_per_iteration
    steps = rollouts * int(run.env_config.get("max_steps", 25))
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    groups = f"{parameters.tasks_per_iteration} groups of {parameters.group_size}"
    table.add_row("rollouts an iteration", f"{rollouts:,}", groups)
    table.add_row(
        "rollouts in all",
        f"{rollouts * parameters.iterations:,}",
        f"{parameters.iterations} iterations",
    )
    table.add_row("steps an iteration, at most", f"{steps:,}", "until the step limit")
    updates = -(-steps // parameters.minibatch_size) * parameters.num_epochs
    table.add_row(
        "updates an iteration, at most", f"{updates:,}", f"of {parameters.minibatch_size}"
    )
    read, written = steps * parameters.max_prompt_tokens, steps * parameters.max_new_tokens
    table.add_row("tokens read an iteration, at most", f"{read:,}")
    table.add_row("tokens written an iteration, at most", f"{written:,}")
    table.add_section()
    shape = Shape.of(parameters.model, run.env)
    about = f"parameters, {parameters.dtype}: {parameters.model}"
    table.add_row("model", f"{shape.parameters:,}", about)
    needs = memory(settings, shape)
    for name, size in needs.items():
        table.add_row(name, _bytes(size))
    table.add_row("memory, together", _bytes(sum(needs.values())), "an estimate, not a bound")
    table.add_section()
    for name, panel in panels(settings).items():
        table.add_row(f"panel, {name}", panel.hash, f"{panel.split}, {len(panel.task_ids):,} tasks")
    return table


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
