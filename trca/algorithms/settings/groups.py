"""Hyperparameters that most runs leave at their defaults, in groups by purpose.

`TextParameters` inherits every group, so a setting keeps its flat name: ``replay_size: 100`` in a
YAML file, ``--set replay_size=100``, ``training(replay_size=100)``. A reader needs a group only for
its purpose, which is the first line of its docstring.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from trca.algorithms.settings.types import (
    Aggregation,
    Band,
    KLKind,
    OnMissingRollout,
    OnZeroAdvantage,
    PolicyLoss,
    Positive,
    Probability,
    RatioLevel,
)
from trca.policies.dtypes import check_dtype


class LossSettings(BaseModel):
    """Constants of the objective; defaults are the paper's."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    policy_loss: PolicyLoss = Field(
        default="clipped",
        description="Clipped importance ratio times advantage (PPO), or log-likelihood of the "
        "action times advantage (imitation).",
    )
    ratio_level: RatioLevel = Field(
        default="action",
        description="Importance ratio rho over all tokens of an action, their mean, or each token.",
    )
    clip_low: Probability = Field(default=0.2, description="Lower clip of the ratio: 1 - clip_low.")
    clip_high: float = Field(
        default=0.28, ge=0.0, description="Upper clip of the ratio: 1 + clip_high."
    )
    kl_coeff: float = Field(
        default=0.012,
        ge=0.0,
        description="Weight beta of the KL to the frozen reference, action tokens.",
    )
    kl_coeff_format: float = Field(
        default=0.0,
        ge=0.0,
        description="Weight of the KL on think and format tokens (the paper masks these tokens).",
    )
    kl_kind: KLKind = Field(default="k3", description="Estimator of the KL.")
    entropy_coeff: float = Field(
        default=0.001,
        ge=0.0,
        description="Weight eta of the entropy bonus, action tokens; 0 for a mini-batch in which no"
        " action has an advantage.",
    )


class WeightingSettings(BaseModel):
    """Weights of rollouts and steps in the loss."""

    aggregation: Aggregation = Field(
        default="rollout_mean",
        description="Mean over a rollout's steps then rollouts (1/N sum 1/T_i sum), steps, tokens; "
        "rollout_sum divides by constant_steps in place of T_i.",
    )
    constant_steps: Positive = Field(
        default=25, description="Steps of every rollout for aggregation rollout_sum."
    )
    train_malformed: bool = Field(
        default=False,
        description="Train a response without an action, with all its tokens as the action; the "
        "paper's action mask excludes the response.",
    )
    on_zero_advantage: OnZeroAdvantage = Field(
        default="keep",
        description="Leave out of the update the groups, or the rollouts, without any advantage "
        "(rewards do not decide: equal outcomes may have rubric credit).",
    )


class SamplingSettings(BaseModel):
    """Choice of tasks, groups and sampling ahead of the learners."""

    task_curriculum: Probability = Field(
        default=0.0,
        description="Preference for tasks of medium difficulty, 0 to 1: 0 draws all tasks alike, 1 "
        "prefers a success rate of one half; an unplayed task counts as one half.",
    )
    refill_groups: int = Field(
        default=0,
        ge=0,
        description="Maximum number of extra groups per iteration, in place of groups without any "
        "advantage.",
    )
    max_staleness: int = Field(
        default=0,
        ge=0,
        description="Updates between a step's weights and the update that trains the step: env "
        "runners sample this number of iterations ahead while the learners update. 0 is the "
        "paper's.",
    )


class ReplaySettings(BaseModel):
    """Replay of good rollouts (self-imitation, SPEAR)."""

    replay_size: int = Field(
        default=0,
        ge=0,
        description="Number of good rollouts in the replay buffer; a full buffer is trained "
        "(self-imitation, SPEAR); 0: no replay.",
    )
    replay_max_age: Positive = Field(
        default=10, description="Maximum age of a replayed rollout, in iterations."
    )
    replay_weight: float = Field(
        default=1.0, ge=0.0, description="Weight of replayed rollouts; new rollouts have weight 1."
    )
    replay_ramp: int = Field(
        default=0,
        ge=0,
        description="Iterations over which replay_weight rises from 0, by a cosine (SPEAR: 100 in "
        "ALFWorld, 200 in WebShop).",
    )


class MismatchSettings(BaseModel):
    """Correction of log-probabilities that differ between sampler and trainer."""

    recompute_logprobs: bool = Field(
        default=False,
        description="Recompute the old logprobs in the trainer instead of the sampler's.",
    )
    importance_cap: float | None = Field(
        default=None,
        gt=0.0,
        description="Multiply a step's advantage by the action's ratio of trainer to sampler, "
        "capped at this value (2 is usual); none: no correction. Needs recompute_logprobs.",
    )
    token_ratio_band: Band | None = Field(
        default=None,
        description="Leave out tokens with a ratio of trainer to sampler outside of (low, high), "
        "such as (0.5, 5). Needs recompute_logprobs.",
    )
    action_ratio_band: Band | None = Field(
        default=None,
        description="Leave out steps with a mean action ratio of trainer to sampler outside of "
        "(low, high), such as (0.99, 1.01). Needs recompute_logprobs.",
    )


class TeamSettings(BaseModel):
    """Policies of a team's roles."""

    role_policies: Literal["shared", "own"] | dict[str, str] = Field(
        default="shared",
        description="Policies of a team's roles: one policy (shared), one per role (own), or a "
        "mapping of roles to policy names.",
    )
    frozen_roles: tuple[str, ...] = Field(
        default=(), description="Roles of a team that do not learn from their rollouts."
    )
    policy_lr: dict[str, Annotated[float, Field(gt=0.0)]] = Field(
        default={},
        description="Learning rates of policies that differ from lr, by the policy's name.",
    )


class FailureSettings(BaseModel):
    """Time limits and missing rollouts."""

    max_failed_iterations: Positive = Field(
        default=3, description="Iterations in a row without a single rollout before training stops."
    )
    sample_timeout_s: float = Field(
        default=3600.0, gt=0.0, description="Time limit of the rollouts of an iteration, seconds."
    )
    generation_timeout_s: float = Field(
        default=900.0,
        gt=0.0,
        description="Time limit of a generation, seconds; then the engine is stuck.",
    )
    env_step_timeout_s: float = Field(
        default=300.0,
        gt=0.0,
        description="Time limit of a step or a reset of an environment, seconds.",
    )
    rollout_timeout_s: float = Field(
        default=1800.0,
        gt=0.0,
        description="Time limit of a rollout from the first prompt on, seconds.",
    )
    on_missing_rollout: OnMissingRollout = Field(
        default="drop_group",
        description="Treatment of a training group after a rollout failed twice: drop_group, or "
        "go_on with the remaining rollouts. An evaluation keeps every finished rollout.",
    )


class HardwareSettings(BaseModel):
    """Precision, memory, speed and adapters."""

    dtype: Annotated[str, AfterValidator(check_dtype)] = Field(
        default="float32",
        description="Precision of engine, reference and trainer's arithmetic: float32, bfloat16 "
        "or auto (the saved precision). Trained weights are always float32.",
    )
    engine_config: dict[str, Any] = Field(
        default={}, description="Settings of the engine, such as max_batch_rows of transformers."
    )
    gradient_checkpointing: bool = Field(
        default=False,
        description="Recompute activations in the backward pass: slower, less memory.",
    )
    lora_rank: int = Field(
        default=0,
        ge=0,
        description="Train a LoRA adapter of this rank on every linear layer instead of all "
        "weights; 0 trains all weights.",
    )
    lora_alpha: Positive = Field(
        default=32, description="The adapter's product is multiplied by lora_alpha / lora_rank."
    )
    micro_batch_tokens: Positive = Field(
        default=8192,
        description="Padded tokens in one forward pass (gradients accumulate over passes).",
    )
    sharding: Literal["none", "fsdp"] = Field(
        default="none",
        description="Several learners split weights, gradients and the optimizer's state (fsdp), "
        "or each learner holds a full copy (none).",
    )
    sync_each_pass: bool = Field(
        default=False,
        description="With sharding fsdp, add gradients up after each pass instead of once per "
        "update: less memory (4 bytes per trained parameter and learner) for more traffic.",
    )
    torch_threads: Positive = Field(default=1, description="PyTorch threads in every process.")
