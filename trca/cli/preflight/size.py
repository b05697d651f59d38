"""Memory of a run, by part, for each learner, each engine and each machine: arithmetic on shapes.

::

    shape = Shape.of(settings)
    learner(settings, shape).total      # bytes of each learner, at most
    engine(settings, shape).total       # bytes of each env runner's engine

What is trained takes 16 bytes a parameter (weights, gradients and AdamW's two moments in float32),
what is frozen 2 or 4. Each policy of a team holds all of it, but for a frozen model below adapters,
which only vLLM holds more than once; one of them computes at a time. Activations were counted once:
the tensors that are alive after the real forward pass of two and of four layers of Qwen2.5-1.5B,
which these formulas meet within 3%. A critic's passes come after the policy's and have no logits:
its activations add nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trca.policies.dtypes import DTYPES

if TYPE_CHECKING:
    from trca.tune_configs.settings import RunSettings

_LOGIT_BYTES: Final = 20
"""A logit that is scored: itself, its log-probability, its share of the entropy, the gradients."""
_SAMPLED_LOGIT_BYTES: Final = 30
"""A logit that is sampled from: float32 logits and log-probabilities, float64 cumulative sums."""
_PREFILL_TOKENS: Final = 4096
_MAX_BATCH_ROWS: Final = 512
_VLLM_SHARE: Final = 0.9


@dataclass(frozen=True)
class Shape:
    """The sizes of a model that its memory depends on.

    Attributes:
        parameters: Number of weights, tied ones once.
        outside: Those outside the layers: embedding, head and last norm.
        head: Those of a head that is not tied to the embedding.
        adapted: Inputs and outputs of all linear layers but the head, added up: the parameters of
            a LoRA adapter of rank 1.
        layers: Number of layers.
        hidden: Width of the residual stream.
        feed_forward: Width of the feed-forward part.
        key_values: Width of keys (and of values) of a layer, all heads together.
        vocabulary: Number of tokens.
        dtype: Precision of engine, reference and the trainer's arithmetic.
    """

    parameters: int
    outside: int
    head: int
    adapted: int
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
        from torch import nn
        from transformers import AutoModelForCausalLM
        from transformers.modeling_layers import GradientCheckpointingLayer
        from transformers.pytorch_utils import Conv1D

        from trca.policies.models import resolve_dtype

        config = _architecture(settings)
        with torch.device("meta"):
            network = AutoModelForCausalLM.from_config(config)
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        modules = list(network.modules())
        layers = [m for m in modules if isinstance(m, GradientCheckpointingLayer)]
        parameters = sum(p.numel() for p in network.parameters())
        head = network.get_output_embeddings()
        linear = [m for m in modules if isinstance(m, nn.Linear | Conv1D) and m is not head]
        return cls(
            parameters=parameters,
            outside=parameters - sum(p.numel() for m in layers for p in m.parameters()),
            head=parameters - sum(p.numel() for p in network.base_model.parameters()),
            adapted=sum(sum(m.weight.shape) for m in linear),
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            feed_forward=_feed_forward(config),
            key_values=(getattr(config, "num_key_value_heads", None) or heads) * width,
            vocabulary=config.vocab_size,
            dtype=resolve_dtype(config, settings.parameters.dtype),
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
        attention and what is added to the stream.
        """
        return 38 * self.hidden + 4 * self.feed_forward * self.size


@dataclass(frozen=True)
class Needs:
    """Bytes of one process by what they are for.

    Attributes:
        held: What it holds all the time.
        computing: What it holds beside that while it computes a micro-batch, or generates.
        stepping: What it holds beside that while AdamW steps.
    """

    held: dict[str, float]
    computing: dict[str, float]
    stepping: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The most at any time: it computes or steps, never both."""
        working = max(sum(self.computing.values()), sum(self.stepping.values()))
        return sum(self.held.values()) + working


def learner(settings: RunSettings, shape: Shape) -> Needs:
    """Memory of each learner, on its device."""
    from trca.algorithms.learner.gradients import BUCKET_BYTES

    parameters, shares = settings.parameters, _shares(settings)
    lora, size = parameters.lora_rank, shape.size
    trained, policies = shape.trained(lora), policy_count(settings)
    held = {
        "weights, trained": policies * trained * 4 / shares,
        "gradients": policies * trained * 4 / shares,
        "AdamW state": policies * trained * 8 / shares,
    }
    if lora:
        held["weights, frozen"] = shape.parameters * size / shares
    elif parameters.kl_coeff > 0 or parameters.kl_coeff_format > 0:
        held["reference, frozen"] = policies * shape.parameters * size / shares
    if critic := _critic_parameters(settings, shape):
        held["critic, with gradients and AdamW state"] = policies * critic * 16
    if settings.run.num_learners > 1 and shares == 1:
        held["gradient buckets"] = min(BUCKET_BYTES, trained * 4)
    mixed = shape.dtype == "bfloat16"
    computing: dict[str, float] = {}
    if shares > 1:
        layer = (shape.parameters - shape.outside) / shape.layers
        whole = size * (2 * layer + shape.outside)
        gradients = 0 if lora else (size + 4) * (layer + shape.outside)
        computing["gathered layers"] = whole + gradients
        if not parameters.sync_each_pass:
            computing["gradients, whole"] = trained * 4
    elif mixed and not lora:
        computing["bfloat16 copy of them"] = shape.parameters * size
    rows, tokens = _micro_batch(settings)
    scored = min(_chunk(), rows * parameters.max_new_tokens)
    logits = scored * shape.vocabulary * _LOGIT_BYTES
    if parameters.gradient_checkpointing:
        stream = size if shares > 1 or lora else 4  # autocast keeps the stream in float32
        computing["inputs of all layers"] = tokens * shape.layers * shape.hidden * stream
        computing["one layer, or logits"] = max(tokens * shape.layer_bytes(), logits)
    else:
        computing["all layers"] = tokens * shape.layers * shape.layer_bytes()
        computing["logits"] = logits
    on_gpu = settings.run.num_gpus_per_learner > 0
    stepping = {"AdamW's own copy": max(trained / shares, critic) * 4} if on_gpu else {}
    return Needs(held, computing, stepping)


def engine(settings: RunSettings, shape: Shape, gpu_bytes: float | None = None) -> Needs:
    """Memory of each env runner's engines, one a policy, on each of their devices.

    Args:
        settings: Settings.
        shape: Shape of the model.
        gpu_bytes: Size of a GPU, a share of which vLLM takes for itself.
    """
    parameters, options = settings.parameters, settings.parameters.engine_config
    vllm, size = parameters.engine == "vllm", shape.size
    split = int(options.get("tensor_parallel_size", 1)) if vllm else 1
    adapter, policies = parameters.lora_rank * shape.adapted, policy_count(settings)
    bases = 1 if adapter and not vllm else policies
    held = {"weights": (bases * shape.parameters + policies * adapter) * size / split}
    rows = live_rows(settings)
    cache = rows * row_cache_bytes(settings, shape) / split
    if not vllm:
        held["KV cache"] = cache
        return Needs(
            held,
            {
                "logits of a pass": rows * shape.vocabulary * _SAMPLED_LOGIT_BYTES,
                "one prefill": _PREFILL_TOKENS * shape.layer_bytes(),
            },
        )
    if gpu_bytes is not None and settings.run.num_gpus_per_env_runner > 0:
        share = float(options.get("gpu_memory_utilization", _VLLM_SHARE))
        held["KV cache"] = max(policies * share * gpu_bytes - held["weights"], 0.0)
    else:
        held["KV cache"] = cache
    return Needs(held, {})


def rollouts_at_once(settings: RunSettings, shape: Shape, gpu_bytes: float | None = None) -> int:
    """Rollouts of an engine whose keys and values fit at once, at their longest."""
    parameters = settings.parameters
    split = parameters.engine_config.get("tensor_parallel_size", 1)
    cache = engine(settings, shape, gpu_bytes).held["KV cache"] * int(split)
    return min(live_rows(settings), int(cache / row_cache_bytes(settings, shape)))


def row_cache_bytes(settings: RunSettings, shape: Shape) -> float:
    """Bytes of keys and values of one rollout at the longest prompt and response."""
    parameters = settings.parameters
    length = parameters.max_prompt_tokens + parameters.max_new_tokens
    return float(length * 2 * shape.layers * shape.key_values * shape.size)


def live_rows(settings: RunSettings) -> int:
    """Rollouts that an engine has under way at once."""
    run, parameters = settings.run, settings.parameters
    groups = -(-parameters.tasks_per_iteration // max(1, run.num_env_runners))
    rows = groups * parameters.group_size
    if parameters.engine == "transformers":
        most = int(parameters.engine_config.get("max_batch_rows", _MAX_BATCH_ROWS))
        rows = min(-(-rows // 8) * 8, most)
    return rows


def host(settings: RunSettings, shape: Shape) -> dict[str, float]:
    """Memory of the machine beside its GPUs, for all processes of the run together.

    Weights travel as a copy in the engine's precision, and once more through Ray's object store
    where runners are processes. Learners keep a copy of their state there, and each reads the whole
    model before it moves to its device.
    """
    run, parameters = settings.run, settings.parameters
    policies, size = policy_count(settings), shape.size
    trained = policies * shape.trained(parameters.lora_rank)
    critics = policies * _critic_parameters(settings, shape)
    needs: dict[str, float] = {
        "weights on their way": trained * size * (2 if run.num_env_runners else 1)
    }
    if run.num_learners and parameters.max_learner_restarts:
        needs["learners' kept state"] = (trained + critics) * 12
    if run.num_gpus_per_learner > 0:
        base = policies * shape.parameters * (size if parameters.lora_rank else 4)
        needs["models being read"] = max(1, run.num_learners) * (base + critics * 4)
    return needs


def policy_count(settings: RunSettings) -> int:
    """How many policies learn, each with weights of its own."""
    from trca.envs.teams.team import Team

    chosen = settings.parameters.role_policies
    if chosen == "shared":
        return 1
    roles = Team.load(settings.run.env_config["team"]).roles if chosen == "own" else chosen.values()
    return len(set(roles))


def _critic_parameters(settings: RunSettings, shape: Shape) -> int:
    """Weights of a critic alone: of its network, or adapter, without a head; and of its values."""
    from trca.tune_configs.settings import config_class

    parameters = settings.parameters
    kind = getattr(parameters, "critic", "")
    if not kind:
        return 0
    network = parameters.lora_rank * shape.adapted or shape.parameters - shape.head
    values = (shape.hidden + 1) * config_class(settings.run.algorithm).value_heads
    return values + (network if kind == "own" else 0)


def _shares(settings: RunSettings) -> int:
    """Over how many learners a model is split."""
    return max(1, settings.run.num_learners) if settings.parameters.sharding == "fsdp" else 1


def _micro_batch(settings: RunSettings) -> tuple[int, int]:
    """Rows and padded tokens of the largest forward pass."""
    from trca.algorithms.learner.rows import padded

    parameters = settings.parameters
    longest = padded(parameters.max_prompt_tokens + parameters.max_new_tokens)
    own = -(-parameters.minibatch_size // max(1, settings.run.num_learners))
    rows = max(1, min(own, parameters.micro_batch_tokens // longest))
    return rows, rows * longest


def _chunk() -> int:
    from trca.policies.logits import CHUNK

    return CHUNK


def _feed_forward(config: Any) -> int:
    """Width of the feed-forward part, under the name that an architecture has for it."""
    names = ("intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner")
    given = (getattr(config, name, None) for name in names)
    return int(next(filter(None, given), 4 * config.hidden_size))


def _architecture(settings: RunSettings) -> Any:
    from transformers import AutoConfig

    from trca.cli.preflight.preflight import model_folder
    from trca.policies.model_names import TINY
    from trca.policies.shrunk import ARCHITECTURES
    from trca.policies.tiny import architecture, spec_of

    model = settings.parameters.model
    if model in ARCHITECTURES:
        return AutoConfig.for_model(**ARCHITECTURES[model], dtype="bfloat16")  # as on the hub
    folder = model_folder(settings)
    if model == TINY and not folder:
        spec = spec_of(settings.run.env)
        return architecture(spec, spec.words + spec.merges)
    return AutoConfig.from_pretrained(folder or model, local_files_only=True)
