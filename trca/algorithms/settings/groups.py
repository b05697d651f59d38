"""Hyperparameters that most runs leave at their defaults, in groups by purpose.

`TextParameters` inherits every group, so a setting keeps its flat name: ``replay_size: 100`` in a
YAML file, ``--set replay_size=100``, ``training(replay_size=100)``. A reader needs a group only for
its purpose, which is the first line of its docstring.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from trca.algorithms.settings.types import (
    Aggregation,
    Band,
    Count,
    KLKind,
    NonNegative,
    OnMissingRollout,
    OnZeroAdvantage,
    PolicyLoss,
    Positive,
    PositiveNumber,
    Probability,
    RatioLevel,
)
from trca.policies.dtypes import check_dtype
from trca.tune_configs.run_parameters import Settings


class LossSettings(Settings):
    """Constants of the objective; defaults are the paper's."""

    policy_loss: PolicyLoss = "clipped"
    """Clipped importance ratio times advantage (PPO), or log-likelihood of the action times
    advantage (imitation)."""
    ratio_level: RatioLevel = "action"
    """Importance ratio rho over all tokens of an action, their mean, or each token."""
    clip_low: Probability = 0.2
    """Lower clip of the ratio: 1 - clip_low."""
    clip_high: NonNegative = 0.28
    """Upper clip of the ratio: 1 + clip_high."""
    kl_coeff: NonNegative = 0.012
    """Weight beta of the KL to the frozen reference, action tokens."""
    kl_coeff_format: NonNegative = 0.0
    """Weight of the KL on think and format tokens (the paper masks these tokens)."""
    kl_kind: KLKind = "k3"
    """Estimator of the KL."""
    entropy_coeff: NonNegative = 0.001
    """Weight eta of the entropy bonus, action tokens; 0 for a mini-batch in which no action has an
    advantage."""


class WeightingSettings(Settings):
    """Weights of rollouts and steps in the loss."""

    aggregation: Aggregation = "rollout_mean"
    """Mean over a rollout's steps then rollouts (1/N sum 1/T_i sum), steps, tokens; rollout_sum
    divides by constant_steps in place of T_i."""
    constant_steps: Positive = 25
    """Steps of every rollout for aggregation rollout_sum."""
    train_malformed: bool = False
    """Train a response without an action, with all its tokens as the action; the paper's action
    mask excludes the response."""
    on_zero_advantage: OnZeroAdvantage = "keep"
    """Leave out of the update the groups, or the rollouts, without any advantage (rewards do not
    decide: equal outcomes may have rubric credit)."""


class SamplingSettings(Settings):
    """Choice of tasks, groups and sampling ahead of the learners."""

    task_curriculum: Probability = 0.0
    """Preference for tasks of medium difficulty, 0 to 1: 0 draws all tasks alike, 1 prefers a
    success rate of one half; an unplayed task counts as one half."""
    refill_groups: Count = 0
    """Maximum number of extra groups per iteration, in place of groups without any advantage."""
    max_staleness: Count = 0
    """Updates between a step's weights and the update that trains the step: env runners sample this
    number of iterations ahead while the learners update. 0 is the paper's."""


class ReplaySettings(Settings):
    """Replay of good rollouts (self-imitation, SPEAR)."""

    replay_size: Count = 0
    """Number of good rollouts in the replay buffer; a full buffer is trained (self-imitation,
    SPEAR); 0: no replay."""
    replay_max_age: Positive = 10
    """Maximum age of a replayed rollout, in iterations."""
    replay_weight: NonNegative = 1.0
    """Weight of replayed rollouts; new rollouts have weight 1."""
    replay_ramp: Count = 0
    """Iterations over which replay_weight rises from 0, by a cosine (SPEAR: 100 in ALFWorld, 200 in
    WebShop)."""


class MismatchSettings(Settings):
    """Correction of log-probabilities that differ between sampler and trainer."""

    recompute_logprobs: bool = False
    """Recompute the old logprobs in the trainer instead of the sampler's."""
    importance_cap: PositiveNumber | None = None
    """Multiply a step's advantage by the action's ratio of trainer to sampler, capped at this value
    (2 is usual); none: no correction. Needs recompute_logprobs."""
    token_ratio_band: Band | None = None
    """Leave out tokens with a ratio of trainer to sampler outside of (low, high), such as (0.5, 5).
    Needs recompute_logprobs."""
    action_ratio_band: Band | None = None
    """Leave out steps with a mean action ratio of trainer to sampler outside of (low, high), such
    as (0.99, 1.01). Needs recompute_logprobs."""


class TeamSettings(Settings):
    """Policies of a team's roles."""

    role_policies: Literal["shared", "own"] | dict[str, str] = "shared"
    """Policies of a team's roles: one policy (shared), one per role (own), or a mapping of roles to
    policy names."""
    frozen_roles: tuple[str, ...] = ()
    """Roles of a team that do not learn from their rollouts."""
    frozen_copies: Count = 0
    """Self-play: frozen earlier copies of each policy, which play the roles that do not learn in a
    training group; 0: every role learns in every group."""
    frozen_copy_interval: Positive = 10
    """Iterations until the oldest frozen copy takes the weights of its policy."""
    policy_lr: dict[str, PositiveNumber] = Field(default={})
    """Learning rates of policies that differ from lr, by the policy's name."""


class FailureSettings(Settings):
    """Time limits and missing rollouts."""

    max_failed_iterations: Positive = 3
    """Iterations in a row without a single rollout before training stops."""
    sample_timeout_s: PositiveNumber = 3600.0
    """Time limit of the rollouts of an iteration, seconds."""
    generation_timeout_s: PositiveNumber = 900.0
    """Time limit of a generation, seconds; then the engine is stuck."""
    env_step_timeout_s: PositiveNumber = 300.0
    """Time limit of a step or a reset of an environment, seconds."""
    rollout_timeout_s: PositiveNumber = 1800.0
    """Time limit of a rollout from the first prompt on, seconds."""
    on_missing_rollout: OnMissingRollout = "drop_group"
    """Treatment of a training group after a rollout failed twice: drop_group, or go_on with the
    remaining rollouts. An evaluation keeps every finished rollout."""


class HardwareSettings(Settings):
    """Precision, memory, speed and adapters."""

    dtype: Annotated[str, AfterValidator(check_dtype)] = "float32"
    """Precision of engine, reference and trainer's arithmetic: float32, bfloat16 or auto (the saved
    precision). Trained weights are always float32."""
    engine_config: dict[str, Any] = Field(default={})
    """Settings of the engine, such as max_batch_rows of transformers."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: slower, less memory."""
    lora_rank: Count = 0
    """Train a LoRA adapter of this rank on every linear layer instead of all weights; 0 trains all
    weights."""
    lora_alpha: Positive = 32
    """The adapter's product is multiplied by lora_alpha / lora_rank."""
    micro_batch_tokens: Positive = 8192
    """Padded tokens in one forward pass (gradients accumulate over passes)."""
    sharding: Literal["none", "fsdp"] = "none"
    """Several learners split weights, gradients and the optimizer's state (fsdp), or each learner
    holds a full copy (none)."""
    sync_each_pass: bool = False
    """With sharding fsdp, add gradients up after each pass instead of once per update: less memory
    (4 bytes per trained parameter and learner) for more traffic."""
    torch_threads: Positive = 1
    """PyTorch threads in every process."""
