"""Memory of a run, a lower bound by part, for each learner, each engine and each machine.

::

    shape = Shape.of(settings)
    learner(settings, shape).total      # bytes of each learner, at least
    engine(settings, shape).weights     # bytes of each env runner's engine

A trained parameter takes 16 bytes: weight, gradient and AdamW's two moments in float32; the state
of another optimizer is not counted. A frozen parameter takes 2 or 4 bytes. Each policy of a team
holds its own parameters; a frozen model below adapters is held once, except by vLLM. One policy
computes at a time. The bytes of activations were counted once: the tensors that are alive after the
forward pass of two and of four layers of Qwen2.5-1.5B, within 3% of these formulas. Not counted:
logits, the work of the layer that computes, CUDA's contexts and fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trca.policies.dtypes import DTYPES
from trca.policies.engines.engine import EngineLoad, EngineMemory

if TYPE_CHECKING:
    from trca.algorithms.settings.parameters import TextParameters

_FEED_FORWARD: Final = ("intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner")
"""Names of the width of the feed-forward part in configs of architectures."""
_PROCESS_BYTES: Final = 0.4e9
"""Bytes of a process with PyTorch and RLlib (see docs/scaling.md)."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a model that determine its memory.

    Attributes:
        parameters: Number of weights; tied weights count once.
        head: Weights of a head that is not tied to the embedding.
        adapted: Inputs and outputs of all linear layers but the head, added up: the parameters of
            a LoRA adapter of rank 1.
        hidden: Width of the residual stream.
        key_values: Width of keys (and of values) of a layer, all heads together.
        dtype: Precision of engine, reference and the trainer's arithmetic.
    """

    parameters: int
    head: int
    adapted: int
    layers: int
    hidden: int
    feed_forward: int
    key_values: int
    dtype: str

    @classmethod
    def of(cls, settings: TextParameters) -> Shape:
        """The shape of a run's model; reads no weights, builds no policy and asks no network.

        Raises `OSError` if the model is not on this machine and its architecture is not known.
        """
        import torch
        from torch import nn
        from transformers import AutoModelForCausalLM
        from transformers.pytorch_utils import Conv1D

        from trca.policies.models import resolve_dtype

        config = _architecture(settings)
        with torch.device("meta"):
            network = AutoModelForCausalLM.from_config(config)
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        widths = (getattr(config, name, None) for name in _FEED_FORWARD)
        modules = list(network.modules())
        parameters = sum(p.numel() for p in network.parameters())
        head = network.get_output_embeddings()
        linear = [m for m in modules if isinstance(m, nn.Linear | Conv1D) and m is not head]
        return cls(
            parameters=parameters,
            head=parameters - sum(p.numel() for p in network.base_model.parameters()),
            adapted=sum(sum(m.weight.shape) for m in linear),
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            feed_forward=next(filter(None, widths), 4 * config.hidden_size),
            key_values=(getattr(config, "num_key_value_heads", None) or heads) * width,
            dtype=resolve_dtype(config, settings.dtype),
        )

    @property
    def size(self) -> int:
        """Bytes of a frozen weight."""
        return DTYPES[self.dtype].bytes

    def trained(self, lora_rank: int) -> int:
        """Number of parameters that are trained."""
        return lora_rank * self.adapted or self.parameters

    def layer_bytes(self) -> float:
        """Bytes of activations of a token in one layer.

        Four times the feed-forward width, in the precision of the arithmetic; and 38 bytes for each
        place of the residual stream: norms (float32 in any precision), queries, keys, values,
        attention and the update of the stream.
        """
        return 38 * self.hidden + 4 * self.feed_forward * self.size


@dataclass(frozen=True)
class Needs:
    """Bytes of a process by part, at least: held always, or only during a pass."""

    held: dict[str, float]
    computing: dict[str, float]

    @property
    def total(self) -> float:
        """Bytes during a pass."""
        return sum(self.held.values()) + sum(self.computing.values())


def learner(settings: TextParameters, shape: Shape) -> Needs:
    """Memory of each learner, on its device."""
    from trca.algorithms.learner.rows import padded

    learners = max(1, settings.num_learners)
    shares = learners if settings.sharding == "fsdp" else 1
    lora, size = settings.lora_rank, shape.size
    trained, policies = shape.trained(lora), policy_count(settings)

    moments = 8 if settings.optimizer == "adamw" else 0
    weights = policies * trained * 4 / shares
    held = {"weights, trained": weights, "gradients": weights}
    held["optimizer state"] = policies * trained * moments / shares
    if lora:
        held["weights, frozen"] = shape.parameters * size / shares
    elif settings.kl_coeff > 0 or settings.kl_coeff_format > 0:
        held["reference, frozen"] = policies * shape.parameters * size / shares
    if critic := _critic_parameters(settings, shape):
        held["critic, with gradients and optimizer state"] = policies * critic * (8 + moments)
    computing: dict[str, float] = {}
    if shares > 1 and not settings.sync_each_pass:
        computing["gradients, whole"] = trained * 4
    elif shares == 1 and shape.dtype == "bfloat16" and not lora:
        computing["bfloat16 copy of the weights"] = shape.parameters * size
    longest = padded(settings.max_prompt_tokens + settings.max_new_tokens)
    rows = min(-(-settings.minibatch_size // learners), settings.micro_batch_tokens // longest)
    tokens = longest * max(1, rows)
    if settings.gradient_checkpointing:
        stream = size if shares > 1 or lora else 4  # autocast keeps the stream in float32
        computing["inputs of all layers"] = tokens * shape.layers * shape.hidden * stream
    else:
        computing["all layers"] = tokens * shape.layers * shape.layer_bytes()
    return Needs(held, computing)


def engine(settings: TextParameters, shape: Shape, gpu_bytes: float | None = None) -> EngineMemory:
    """Memory of each env runner's engines, one a policy, on each of their devices."""
    from trca.policies.engines import engine_class

    groups = -(-settings.tasks_per_iteration // max(1, settings.num_env_runners))
    load = EngineLoad(
        policies=policy_count(settings),
        weights=shape.parameters * shape.size,
        adapter=settings.lora_rank * shape.adapted * shape.size,
        rollouts=groups * settings.group_size,
        row=row_cache_bytes(settings, shape),
        gpu=gpu_bytes if settings.num_gpus_per_env_runner > 0 else None,
        options=settings.engine_config,
    )
    return engine_class(settings.engine).memory(load)


def row_cache_bytes(settings: TextParameters, shape: Shape) -> float:
    """Bytes of keys and values of one rollout at the longest prompt and response."""
    length = settings.max_prompt_tokens + settings.max_new_tokens
    return float(length * 2 * shape.layers * shape.key_values * shape.size)


def machine(settings: TextParameters, shape: Shape) -> dict[str, float]:
    """Memory besides GPUs, of all processes of the run together, by part.

    Weights travel as a copy in the engine's precision, and again through Ray's object store if env
    runners are processes. Each learner on a GPU first reads the model into the memory of the
    machine.
    """
    policies, size = policy_count(settings), shape.size
    own = shape.trained(settings.lora_rank), _critic_parameters(settings, shape)
    trained, critics = (policies * each for each in own)
    needs: dict[str, float] = {
        "weights on their way": trained * size * (2 if settings.num_env_runners else 1)
    }
    if settings.num_gpus_per_learner > 0:
        base = policies * shape.parameters * (size if settings.lora_rank else 4)
        needs["models being read"] = max(1, settings.num_learners) * (base + critics * 4)
    else:
        needs["learners"] = max(1, settings.num_learners) * learner(settings, shape).total
    if settings.num_gpus_per_env_runner == 0:
        memory = engine(settings, shape)
        needs["engines"] = max(1, settings.num_env_runners) * (memory.weights + memory.cache)
    processes = 1 + settings.num_env_runners + settings.num_learners
    plural = "es" if processes > 1 else ""
    needs[f"{processes} process{plural} with PyTorch and RLlib"] = processes * _PROCESS_BYTES
    return needs


def policy_count(settings: TextParameters) -> int:
    """Number of policies, each with separate weights."""
    from trca.envs.teams.team import Team

    chosen = settings.role_policies
    if chosen == "shared":
        return 1
    roles = Team.load(settings.env_config["team"]).roles if chosen == "own" else chosen.values()
    return len(set(roles))


def _critic_parameters(settings: TextParameters, shape: Shape) -> int:
    """Weights of a critic: its network or adapter without the head, and its value heads."""
    kind = getattr(settings, "critic", "")
    if not kind:
        return 0
    network = settings.lora_rank * shape.adapted or shape.parameters - shape.head
    values: int = (shape.hidden + 1) * settings.value_heads
    return values + (network if kind == "own" else 0)


def _architecture(settings: TextParameters) -> Any:
    from transformers import AutoConfig

    from trca.cli.preflight.preflight import model_folder
    from trca.policies.model_names import TINY
    from trca.policies.shrunk import ARCHITECTURES
    from trca.policies.tiny import architecture, spec_of

    model = settings.model
    if model in ARCHITECTURES:
        return AutoConfig.for_model(**ARCHITECTURES[model], dtype="bfloat16")  # as on the hub
    folder = model_folder(settings)
    if model == TINY and not folder:
        spec = spec_of(settings.env)
        return architecture(spec, spec.words + spec.merges)
    try:
        return AutoConfig.from_pretrained(folder or model, local_files_only=True)
    except ValueError as error:  # a folder of other content
        raise OSError(str(error)) from None
