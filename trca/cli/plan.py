"""The plan of a run: batches, tokens, memory, panels. Nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trca.cli.provenance import panels
from trca.policies.dtypes import DTYPES

if TYPE_CHECKING:
    from rich.table import Table

    from trca.tune_configs.settings import RunSettings


@dataclass(frozen=True)
class Shape:
    """The sizes of a model that its memory depends on.

    Attributes:
        parameters: Number of weights, tied ones once.
        layers: Number of layers.
        hidden: Width of the residual stream.
        feed_forward: Width of the feed-forward part.
        key_values: Width of keys (and of values) of a layer, all heads together.
        vocabulary: Number of tokens.
        dtype: Precision of engine, reference and the trainer's arithmetic.
    """

    parameters: int
    layers: int
    hidden: int
    feed_forward: int
    key_values: int
    vocabulary: int
    dtype: str

    @classmethod
    def of(cls, settings: RunSettings) -> Shape:
        """The shape of a run's model; reads no weights, builds no policy and asks no network.

        Raises:
            OSError: When the model is not on this machine and its architecture is not known.
        """
        import torch
        from transformers import AutoModelForCausalLM

        from trca.policies.models import resolve_dtype

        config = _architecture(settings)
        with torch.device("meta"):
            network = AutoModelForCausalLM.from_config(config)
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        return cls(
            parameters=sum(p.numel() for p in network.parameters()),
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            feed_forward=_feed_forward(config),
            key_values=(getattr(config, "num_key_value_heads", None) or heads) * width,
            vocabulary=config.vocab_size,
            dtype=resolve_dtype(config, settings.parameters.dtype),
        )


def _feed_forward(config: Any) -> int:
    """Width of the feed-forward part, under the name that an architecture has for it."""
    names = ("intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner")
    given = (getattr(config, name, None) for name in names)
    return int(next(filter(None, given), 4 * config.hidden_size))


def _architecture(settings: RunSettings) -> Any:
    from transformers import AutoConfig

    from trca.cli.checks import local_model
    from trca.policies.models import TINY
    from trca.policies.shrunk import ARCHITECTURES
    from trca.policies.tiny import architecture, spec_of

    model = settings.parameters.model
    if model in ARCHITECTURES:
        return AutoConfig.for_model(**ARCHITECTURES[model], dtype="bfloat16")  # as on the hub
    folder = local_model(settings)
    if model == TINY and not folder:
        spec = spec_of(settings.run.env)
        return architecture(spec, spec.words + spec.merges)
    return AutoConfig.from_pretrained(folder or model, local_files_only=True)


def memory(settings: RunSettings, shape: Shape) -> dict[str, float]:
    """Estimated bytes by what they are for, in one process that learns and rolls out.

    Activations are those of one micro-batch: of every layer, or with gradient checkpointing of one
    layer and the inputs of the others; and the logits of action tokens, taken as a tenth of all.
    Several learners add up gradients in buckets. Weights travel as a copy in the engine's
    precision, and once more through Ray's object store where runners are processes.
    """
    from trca.algorithms.gradients import BUCKET_BYTES

    run, parameters = settings.run, settings.parameters
    size = DTYPES[shape.dtype].bytes
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
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    groups = f"an iteration: {parameters.tasks_per_iteration} groups of {parameters.group_size}"
    updates = -(-steps // parameters.minibatch_size) * parameters.num_epochs
    table.add_row("rollouts", f"{rollouts:,}", groups)
    table.add_row(
        "rollouts in all",
        f"{rollouts * parameters.iterations:,}",
        f"{parameters.iterations} iterations",
    )
    for name, most, about in (
        ("steps", steps, "an iteration"),
        ("updates", updates, f"an iteration, of {parameters.minibatch_size} steps"),
        ("tokens read", steps * parameters.max_prompt_tokens, "an iteration"),
        ("tokens written", steps * parameters.max_new_tokens, "an iteration"),
    ):
        table.add_row(name, f"at most {most:,}", about)
    table.add_section()
    _add_model(table, settings)
    table.add_section()
    try:
        for name, panel in panels(settings).items():
            tasks = f"{panel.split}, {len(panel.task_ids):,} tasks"
            table.add_row(f"panel, {name}", panel.hash, tasks)
    except FileNotFoundError:
        table.add_row("panels", "-", "games missing")
    return table


def _add_model(table: Table, settings: RunSettings) -> None:
    from trca.cli.checks import local_model
    from trca.policies.models import TINY

    parameters = settings.parameters
    try:
        shape = Shape.of(settings)
    except OSError:
        table.add_row("model", "-", f"{parameters.model} is not on this machine: not counted")
        return
    at_most = "at most " if parameters.model == TINY and not local_model(settings) else ""
    about = f"parameters, {shape.dtype}: {parameters.model}"
    table.add_row("model", f"{at_most}{shape.parameters:,}", about)
    needs = memory(settings, shape)
    for name, size in needs.items():
        part, _, about = name.partition(", ")
        table.add_row(part, _bytes(size), about)
    table.add_row("memory", _bytes(sum(needs.values())), "together; an estimate, not a bound")


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
